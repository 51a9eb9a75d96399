# shellcheck shell=bash
# about: the same for two minutes; seeds are printed
# groups: full
# limit: 1200
# lane: waits
build release millrace millraced
python3 tests/cluster/soak.py --bin build/release/bin --seconds 120
