# shellcheck shell=bash
# about: a short, repeatable libFuzzer run over every parser's corpus
# groups: default full
# limit: 900
targets=()
for source in tests/fuzz/fuzz_*.c; do
    targets+=("$(basename "$source" .c)")
done
build fuzz "${targets[@]}"
run_ctest fuzz -L fuzz
