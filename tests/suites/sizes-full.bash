# shellcheck shell=bash
# about: the same under the address and undefined-behaviour sanitizers for five minutes; seeds are printed
# groups: full
# limit: 2400
# lane: waits
python=$(find_python xxhash)
build asan millrace millraced
"$python" tests/cluster/sizes.py --bin build/asan/bin --seconds 300 --patience 4
