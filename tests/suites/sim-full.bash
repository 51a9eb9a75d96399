# shellcheck shell=bash
# about: whole joins on the simulated engine under 3,000 seeds more than every run of the tests has
# groups: full
# limit: 1200
build release test_sim_join
MILLRACE_SIM_SEEDS=3000 run_ctest release -R '^sim\.'
