# shellcheck shell=bash
# about: formatting, the order of floors and rooms, headers that compile alone, shell scripts
# groups: default full quick
# limit: 600
CLANG_FORMAT_MAJOR=14

# Everything below asks git for the sources; without a repository it would find none and be content.
git rev-parse --is-inside-work-tree

headers_compile_alone()
{
    local header failed=0
    for header in $(git ls-files 'base/*.h' 'net/*.h' 'shuffle/*.h' 'join/*.h' 'cluster/*.h' | grep -v '/compat/'); do
        echo "#include \"$header\"" |
            gcc -std=gnu17 -D_GNU_SOURCE -I. -isystem net/compat -Wall -Wextra -Wconversion -Werror -fsyntax-only -xc - ||
            failed=1
    done
    return $failed
}

only_in()
{
    local allowed=$1 pattern=$2
    ! git grep -nE "$pattern" -- '*.c' '*.h' | grep -vE "^($allowed)"
}

format()
{
    git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror
}

scripts()
{
    git ls-files | while read -r file; do
        if [ -f "$file" ] && head -c 64 "$file" | grep -qaE '^#!.*\bbash\b|^# shellcheck shell=bash'; then
            echo "$file"
        fi
    done | xargs shellcheck -S warning
}

# One dialect (CONTRIBUTING.md): !pointer, bool, one form of banner, a status compared, no cast for a format.
one_dialect()
{
    ! git grep -nE '== NULL|\b_Bool\b|/\* [A-Za-z].* -{5,} \*/|(if|while) \(!?status\)|%[0-9]*ll[ux]|\(unsigned long long\)' -- '*.c' '*.h'
}

# A test waits for what it can look at, and sleeps only between two looks: in these files, which look at the kernel, at
# processes and at threads.
tests_await()
{
    local looks='net/(conformance|uring/test_recv_zc)|cluster/(test_daemons|node/test_(job|path_watch))'
    ! git grep -nE '\b(usleep|nanosleep|clock_nanosleep|sleep)\(' -- 'tests/*.[ch]' | grep -vE "^tests/($looks)\.c:"
}

no_loose_ends()
{
    ! git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.c' '*.h' ':!tests/suites'
}

# listed FILE LIST PATTERN PAGE...: what the X-macro LIST of a header names by PATTERN is in every PAGE.
listed()
{
    local header=$1 list=$2 pattern=$3 words word page failed=0
    shift 3
    words=$(sed -n "/#define $list(X)/,/[^\\\\]\$/p" "$header" | sed -nE "s/^ *X\\([A-Z_]+, $pattern.*/\\1/p")
    [ -n "$words" ] || return 1
    for word in $words; do
        for page in "$@"; do
            grep -qwe "$word" "$page" || { echo "$page does not tell of $word" && failed=1; }
        done
    done
    return $failed
}

manual_tells_all()
{
    listed cluster/options/args.h CLUSTER_COMMAND_LIST '"([a-z]+)"' docs/man/millrace.1 README.md &&
        listed net/engine/rung.h NET_OPTION_LIST '"([a-z-]+)"' docs/man/millrace-join.1
}

# Qq quotes all the rest of its line: a second one would be inside the first.
quotes_in_order()
{
    ! git grep -nE 'Qq .* Qq' -- docs/man
}

# The README is a first page: what, two commands, one example, pointers.
readme_is_a_page()
{
    local lines
    lines=$(wc -l <README.md)
    [ "$lines" -le 150 ] || { echo "README.md has $lines lines, more than 150: tables belong into docs/" && return 1; }
}

# Every file that a document links to is there.
links_lead_somewhere()
{
    local page target failed=0
    for page in $(git ls-files '*.md'); do
        while read -r target; do
            [ -e "$(dirname "$page")/$target" ] || { echo "$page links to $target, which is not there" && failed=1; }
        done < <(grep -oE '\]\([^)#:]+' "$page" | sed 's/^](//')
    done
    return $failed
}

if clang-format --version | grep -q "version $CLANG_FORMAT_MAJOR\."; then
    check "every C file is formatted" format
else
    skip "formatting is judged by clang-format $CLANG_FORMAT_MAJOR; versions differ in details"
fi
check "floors and rooms include downward, tests mirror them" tests/rooms.py includes
check "the walks in docs/architecture.md stand where they say" tests/walks.py
check "only net and the kernel's own effects include liburing" only_in 'net/|tests/net/|bench/micro' '#include [<"]liburing'
check "only the key includes libsodium" only_in 'net/proof/key\.c' '#include [<"]sodium'
check "only one file includes zlib and libzstd" only_in 'shuffle/source/unpack\.c|tests/shuffle/source/test_unpack\.c' '#include [<"](zlib|zstd)'
check "only the doctor includes libnuma and libmnl" only_in 'cluster/doctor/' '#include [<"](numa|libmnl/)'
check "only the codec includes protobuf-c" only_in 'cluster/protocol/codec[a-z_]*\.c' '#include [<"].*(protobuf-c|\.pb-c\.h)'
check "every header compiles alone" headers_compile_alone
check "the manual has every command and every engine option" manual_tells_all
check "the README is one page" readme_is_a_page
check "links between documents lead somewhere" links_lead_somewhere
check "quotes in the manual do not nest" quotes_in_order
check "no loose ends in the sources" no_loose_ends
check "tests await what they can look at" tests_await
check "the sources have one dialect" one_dialect
check "the options of deploy/cluster are as their table says" python3 -B tests/deploy/test_options.py
check "texts and comments are plain" tests/words.py
check "grep finds one static function by its name" tests/names.py
check "shellcheck has nothing to say" scripts
