# shellcheck shell=bash
# about: the part of the cluster tests that reaches most of the daemons' code, under the sanitizers (all of it: cluster-full)
# groups: default full
# limit: 1800
# lane: waits
python=$(find_python sqlite3,xxhash)
build asan millrace millraced
check "under the address and undefined-behaviour sanitizers" "$python" tests/cluster/acceptance.py \
    --bin build/asan/bin --patience 4 types: "bad input:" "3 x 2 via" shuffle: key:
build tsan millrace millraced
# The thread sanitizer's shadow memory wants its fixed place: no address randomisation, where that is allowed.
prefix=()
! setarch -R true 2>/dev/null || prefix=(setarch -R)
check "under the thread sanitizer" "${prefix[@]}" "$python" tests/cluster/acceptance.py \
    --bin build/tsan/bin --patience 8 "3 x 2 via" "node killed" Ctrl-C shuffle: "key: with" "key: garbage"
