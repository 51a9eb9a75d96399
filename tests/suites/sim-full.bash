# shellcheck shell=bash
# about: whole joins on the simulated engine under 3,000 seeds, twenty times as many as every run of the tests has
# groups: full
# limit: 10800
build release test_sim_join
JOINS=$PWD/build/release/bin/tests/test_sim_join
PART=250

# Parts of the seeds, as many at a time as there are cores; what a part prints comes out whole.
seeds_pass()
{
    # shellcheck disable=SC2016 # expanded by the inner shell
    seq 0 "$PART" 2750 | MILLRACE_SIM_SEEDS=$PART xargs -P "$(nproc)" -I '{}' bash -c \
        'said=$(MILLRACE_SIM_AFTER=$2 "$1" 2>&1) && exit; printf "seeds after %s:\n%s\n" "$2" "$said"; exit 1' part "$JOINS" '{}'
}
check "3,000 seeds" seeds_pass
