# shellcheck shell=bash
# about: the network's measurement on links of known rates: equal ones, a killed node, two engines, what is interrupted
# groups: default full
# limit: 1200
# lane: alone
build release millrace millraced
if [ "$(id -u)" -ne 0 ] || ! unshare --net true 2>/dev/null; then
    skip "measuring links of known rates: it needs root"
    return 0
fi
for proof in equal_links_quickly engines_together node_killed interrupted one_node; do
    check "$proof" python3 tests/cluster/bisect_proofs.py --bin build/release/bin "$proof"
done
