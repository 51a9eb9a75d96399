# shellcheck shell=bash
# about: the build by clang without a warning, its tests, and clang-tidy over every source
# groups: full
# limit: 5400
build clang
run_ctest clang

tidy()
{
    git ls-files '*.c' | grep -v '^tests/fuzz/' |
        xargs -P "$(nproc)" -n 1 clang-tidy -p build/clang --quiet 2>&1 | sed -E '/^[0-9]+ warnings? generated\.$/d'
}
check "clang-tidy has nothing to say" tidy
