# shellcheck shell=bash
# about: the longer form of guest, with the newest kernel there is today: lossy links, other kernels, the rig itself
# groups: full
# limit: 7200
python=$(find_python xxhash)
build portable millrace millraced test_net_conformance test_net_fallback test_net_uring_recv_zc
"$python" tests/guest/kernel.py --refresh || echo "no newer kernel could be looked for; the one in the cache is used"
"$python" tests/guest/acceptance.py --bin build/portable/bin --full
