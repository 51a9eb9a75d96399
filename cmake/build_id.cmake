# cmake -D SOURCE=tree -D VERSION=0.1.0 -D OUTPUT=file.c -P build_id.cmake
#
# Writes the build id (base/build.h) from the commit that is checked out, at every build, but touches the file only when it
# changes. Without a repository (an archive, a package's sources) it is the commit that `git archive` wrote into
# cmake/commit, or the version alone.
cmake_policy(VERSION 3.25)

set(commit "")
find_program(GIT NAMES git)
if(GIT AND EXISTS ${SOURCE}/.git)
    # Whoever builds may be another user than whoever checked out, and may not write there.
    execute_process(
        COMMAND ${GIT} -c safe.directory=* --no-optional-locks -C ${SOURCE}
            describe --always --dirty --abbrev=10 --exclude=*
        OUTPUT_VARIABLE commit
        OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_QUIET)
endif()
if(commit STREQUAL "" AND EXISTS ${SOURCE}/cmake/commit)
    file(STRINGS ${SOURCE}/cmake/commit commit LIMIT_COUNT 1)
endif()
# The same ten digits from either.
if(commit MATCHES "^([0-9a-f]+)(-dirty)?$")
    string(SUBSTRING ${CMAKE_MATCH_1} 0 10 digits)
    set(commit ${digits}${CMAKE_MATCH_2})
else()
    set(commit "")
endif()
set(id ${VERSION})
if(commit)
    string(APPEND id "+${commit}")
endif()

set(text "/* Made by cmake/build_id.cmake. */
#include \"base/build.h\"

const char *base_build_id(void)
{
    return \"${id}\";
}
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY) # only when it is another one
