# shellcheck shell=bash
# about: joins and shuffles of odd sizes for 20 seconds: wide rows, many columns, small budgets, answers computed beside
# groups: default full
# limit: 900
# The system's Python first: the package python3-xxhash is for that one.
for python in /usr/bin/python3 python3; do
    ! "$python" -c 'import xxhash' || break
done
build release millrace millraced
"$python" tests/cluster/sizes.py --bin build/release/bin --seconds 20
