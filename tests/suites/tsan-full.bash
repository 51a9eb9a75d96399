# shellcheck shell=bash
# about: the rest of the ctest programs that have threads, under the thread sanitizer: the conformance suite's options
# groups: full
# limit: 1800
build tsan
run_ctest tsan -R '^net\.(options|uring\.(refused|unregistered))$'
