# shellcheck shell=bash
# about: the ctest programs that have threads, under the thread sanitizer (the conformance suite's options: tsan-full)
# groups: default full
# limit: 1800
build tsan
# What has no threads has nothing to race with: the simulated network, the coordinator's step, texts and tables.
run_ctest tsan \
    -R '^(base|net)\.|^cluster\.(client|crew|daemons|doctor|link|node|shell)|^shuffle\.(frames\.mailbox|mesh\.threads|source\.morsel|worker)' \
    -E '^net\.(sim|options|uring\.(refused|unregistered))'
