# shellcheck shell=bash
# about: the ctest programs that have threads, under the thread sanitizer
# groups: default full
# limit: 1800
build tsan
run_ctest tsan -R '^(base|net|cluster)\.|^shuffle\.(frames\.mailbox|mesh\.(mesh|threads)|source\.morsel)'
