# shellcheck shell=bash
# about: a local cluster under random rungs, options, kills and cancels for 10 seconds: right answers, nothing leaks
# groups: default full
# limit: 600
# lane: waits
build release millrace millraced
python3 tests/cluster/soak.py --bin build/release/bin --seconds 10
