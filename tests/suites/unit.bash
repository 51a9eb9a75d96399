# shellcheck shell=bash
# about: every ctest program, optimised build (gcc)
# groups: default full
# limit: 600
build release
run_ctest release
