# shellcheck shell=bash
# about: whole clusters from outside: answers against sqlite3, bad input, faults, limits
# groups: default full
# limit: 1800
build release millrace millraced
# The system's Python first: the package python3-xxhash is for that one.
for python in /usr/bin/python3 python3; do
    ! "$python" -c 'import sqlite3, xxhash' || break
done
"$python" tests/cluster/acceptance.py --bin build/release/bin
