# shellcheck shell=bash
# about: every ctest program under the address and undefined-behaviour sanitizers
# groups: default full
# limit: 900
build asan
run_ctest asan
