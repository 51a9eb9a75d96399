# shellcheck shell=bash
# about: the ctest programs without the long ones, and a few whole clusters: what to run before every commit
# groups: quick
# limit: 900
build release
# The long ones are the simulation, and the conformance suite over every rung and option.
run_ctest release -E '^(sim\.|bench\.|net\.(conformance|options|uring\.(refused|unregistered)|engine\.zerocopy)$)'
python=$(find_python sqlite3,xxhash)
"$python" tests/cluster/acceptance.py --bin build/release/bin '2 x 2 via loopback: *' 'types: *'
