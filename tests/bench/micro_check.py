"""Runs bench_micro once, small, and checks what does not depend on the machine's speed."""

import json
import math
import subprocess
import sys

EFFECTS = ["batch", "taskrun", "zerocopy", "multishot", "sqpoll", "files"]

done = subprocess.run([sys.argv[1], "--scale", "0.05", "--repeat", "1", "--json"], capture_output=True, text=True, timeout=120, check=True)
results = json.loads(done.stdout)
assert list(dict.fromkeys(one["effect"] for one in results)) == EFFECTS, "an effect is missing"
for one in results:
    figures = {name: value for name, value in one.items() if name not in ("effect", "variant", "size", "not_here")}
    if one["not_here"] is None:
        assert all(math.isfinite(value) and value >= 0 for value in figures.values()), one
    else:
        assert all(value is None for value in figures.values()), one

ran = {(one["effect"], one["variant"], one["size"]): one for one in results if one["not_here"] is None}
assert abs(ran["batch", "nop", 64]["enters_per_op"] - 1 / 64) < 1e-9, "a batch of 64 is one system call"
assert ran["taskrun", "defer-taskrun", 0]["interruptions"] == 0, "deferred task work interrupts nobody"
assert ran["taskrun", "defer-taskrun", 0]["messages"] > 0, "messages arrive"
assert ran["zerocopy", "send-zc", 65536]["copied_percent"] == 100, "loopback copies"
refused = subprocess.run([sys.argv[1], "--effects", "warp"], capture_output=True, text=True, timeout=10, check=False)
assert refused.returncode == 2 and "warp" in refused.stderr, refused
print(f"{len(ran)} of {len(results)} cases ran")
