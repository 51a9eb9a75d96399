# shellcheck shell=bash
# about: every shape of a cluster with every size of frames, rings and morsels; the cluster tests under sanitizers
# groups: full
# limit: 21600
# lane: waits
python=$(find_python sqlite3,xxhash)
build release millrace millraced
check "the whole matrix" "$python" tests/cluster/acceptance.py --bin build/release/bin --full
build asan millrace millraced
check "under the address and undefined-behaviour sanitizers" \
    "$python" tests/cluster/acceptance.py --bin build/asan/bin --patience 4
build tsan millrace millraced
# The thread sanitizer's shadow memory wants its fixed place: no address randomisation, where that is allowed.
prefix=()
! setarch -R true 2>/dev/null || prefix=(setarch -R)
check "under the thread sanitizer" \
    "${prefix[@]}" "$python" tests/cluster/acceptance.py --bin build/tsan/bin --patience 8
