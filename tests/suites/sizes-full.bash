# shellcheck shell=bash
# about: the same under the address and undefined-behaviour sanitizers for five minutes; seeds are printed
# groups: full
# limit: 2400
# The system's Python first: the package python3-xxhash is for that one.
for python in /usr/bin/python3 python3; do
    ! "$python" -c 'import xxhash' || break
done
build asan millrace millraced
"$python" tests/cluster/sizes.py --bin build/asan/bin --seconds 300 --patience 4
