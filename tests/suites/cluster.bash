# shellcheck shell=bash
# about: whole clusters from outside: answers against sqlite3, bad input, faults, limits
# groups: default full
# limit: 1800
# lane: waits
build release millrace millraced
python=$(find_python sqlite3,xxhash)
"$python" tests/cluster/acceptance.py --bin build/release/bin
