# shellcheck shell=bash
# about: every ctest program under the address and undefined-behaviour sanitizers (fewer seeds of the simulation)
# groups: default full
# limit: 2400
build asan
MILLRACE_SIM_SEEDS=25 run_ctest asan
