# shellcheck shell=bash
# about: every ctest program under the address and undefined-behaviour sanitizers (fewer seeds of the simulation)
# groups: default full
# limit: 2400
build asan
# Those of the tree itself look at objects, which are the same in `unit`.
MILLRACE_SIM_SEEDS=25 run_ctest asan -E '^(tests\.tested|rooms\.calls)$'
