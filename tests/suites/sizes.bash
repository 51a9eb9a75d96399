# shellcheck shell=bash
# about: joins and shuffles of odd sizes for 20 seconds: wide rows, many columns, small budgets, answers computed beside
# groups: default full
# limit: 900
# lane: waits
python=$(find_python xxhash)
build release millrace millraced
"$python" tests/cluster/sizes.py --bin build/release/bin --seconds 20
