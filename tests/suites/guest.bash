# shellcheck shell=bash
# about: emulated guests with Debian's newest kernel: engines, io_uring forbidden, six nodes, memory nodes, virtio-net
# groups: default full
# limit: 1800
python=$(find_python xxhash)
build portable millrace millraced test_net_conformance test_net_fallback test_net_uring_recv_zc
# A guest keeps one core busy: two groups of them at a time.
"$python" tests/guest/acceptance.py --bin build/portable/bin "two memory" "joined by" "the rig" \
    >build/test-logs/guest-others.log 2>&1 &
others=$!
status=0
"$python" tests/guest/acceptance.py --bin build/portable/bin "kernel " emulated || status=1
wait "$others" || status=1
cat build/test-logs/guest-others.log
[ "$status" -eq 0 ]
