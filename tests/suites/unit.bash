# shellcheck shell=bash
# about: every ctest program, optimised build (gcc)
# groups: default full
# limit: 1800
build release
run_ctest release
