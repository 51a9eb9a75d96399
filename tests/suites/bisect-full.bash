# shellcheck shell=bash
# about: everything that bisect must find on links of known rates, iperf3 beside it, and its figures
# groups: full
# limit: 5400
# lane: alone
build release millrace millraced
if [ "$(id -u)" -ne 0 ] || ! unshare --net true 2>/dev/null; then
    skip "measuring links of known rates: it needs root"
    return 0
fi
for proof in equal_links slow_node slow_direction thin_uplink thin_uplink_searched agrees_with_iperf3 figures; do
    check "$proof" python3 tests/cluster/bisect_proofs.py --bin build/release/bin "$proof"
done
