# shellcheck shell=bash
# about: the longer form of guest, with the newest kernel there is today: lossy links, other kernels, the rig itself
# groups: full
# limit: 7200
# The system's Python first: the package python3-xxhash is for that one.
for python in /usr/bin/python3 python3; do
    ! "$python" -c 'import xxhash' || break
done
build portable millrace millraced test_net_conformance test_net_fallback test_net_uring_recv_zc
"$python" tests/guest/kernel.py --refresh || echo "no newer kernel could be looked for; the one in the cache is used"
"$python" tests/guest/acceptance.py --bin build/portable/bin --full
