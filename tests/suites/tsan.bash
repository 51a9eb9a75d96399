# shellcheck shell=bash
# about: every ctest program under the thread sanitizer
# groups: default full
# limit: 900
build tsan
run_ctest tsan
