# cmake -D SOURCE=tree -D VERSION=0.1.0 -D OUTPUT=file.c -D DEPFILE=file.d -P protocol_number.cmake
#
# Makes the number that both ends of a connection must share (base/build.h): a digest of everything that says how bytes
# between processes look and what they mean. These are the files named below and all headers of the tree that they include,
# from which order and size of what travels come: lists of messages, counters and states, limits, structs. Comments, white
# space, names and places of files do not count. A change that no peer would notice may change the number too; then nodes
# of both builds refuse each other without need, which costs an installation, while the opposite costs wrong results.
cmake_policy(VERSION 3.25)

set(roots
    cluster/protocol/millrace.proto # the control plane: messages, their encoding and framing
    cluster/protocol/codec.c
    cluster/link/frame.c
    cluster/protocol/message.h
    net/proof/proof.c # how both ends prove that they have the key
    shuffle/frames/frame.c # the data plane: greeting, frames, rows in them, and which worker a row goes to
    shuffle/mesh/preamble.c
    shuffle/rows/key_hash.c
    shuffle/rows/layout.c
    base/random.c # what nodes make for themselves and must agree on: rows of gen:, the bytes of a measurement
    shuffle/scan/generated.c
    cluster/bisect/task.c)
file(GLOB codecs RELATIVE ${SOURCE} ${SOURCE}/cluster/protocol/codec_*.c)
list(APPEND roots ${codecs})
# Tools that say nothing of bytes on a wire.
set(apart base/assert.h base/build.h base/clock.h base/log.h base/memory/memory.h base/text/nearest.h)

# Takes comments, includes and white space out of a text.
function(strip name text result)
    string(REGEX REPLACE "[ \t]*#include[ \t][^\n]*\n" "" text "${text}")
    if(name MATCHES "\\.proto$")
        string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    endif()
    set(kept "")
    string(FIND "${text}" "/*" begin)
    while(NOT begin EQUAL -1)
        string(SUBSTRING "${text}" 0 ${begin} before)
        string(SUBSTRING "${text}" ${begin} -1 text)
        string(FIND "${text}" "*/" end)
        if(end EQUAL -1)
            message(FATAL_ERROR "${name}: a comment without an end")
        endif()
        math(EXPR end "${end} + 2")
        string(SUBSTRING "${text}" ${end} -1 text)
        string(APPEND kept "${before} ")
        string(FIND "${text}" "/*" begin)
    endwhile()
    string(APPEND kept "${text}")
    string(REGEX REPLACE "[ \t\r\n\\]+" " " kept "${kept}")
    set(${result} "${kept}" PARENT_SCOPE)
endfunction()

set(waiting ${roots})
set(seen ${roots})
set(digests "")
set(files "")
while(waiting)
    list(POP_FRONT waiting name)
    if(NOT EXISTS ${SOURCE}/${name})
        message(FATAL_ERROR "${name}, which belongs to the protocol, is not there: see cmake/protocol_number.cmake")
    endif()
    list(APPEND files ${SOURCE}/${name})
    file(READ ${SOURCE}/${name} text)
    strip(${name} "${text}" stripped)
    string(SHA256 digest "${stripped}")
    list(APPEND digests ${digest})
    file(STRINGS ${SOURCE}/${name} includes REGEX "^#include[ \t]+\"[^\"]+\"")
    foreach(line IN LISTS includes)
        string(REGEX REPLACE "^#include[ \t]+\"([^\"]+)\".*" "\\1" header "${line}")
        if(EXISTS ${SOURCE}/${header} AND NOT header IN_LIST seen AND NOT header IN_LIST apart)
            list(APPEND seen ${header})
            list(APPEND waiting ${header})
        endif()
    endforeach()
endwhile()

list(SORT digests)
string(SHA256 digest "${VERSION};${digests}")
string(SUBSTRING ${digest} 0 8 number)
set(text "/* Made by cmake/protocol_number.cmake. */
#include \"base/build.h\"

uint32_t base_build_protocol(void)
{
    return UINT32_C(0x${number});
}
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY) # only when it is another one
if(DEPFILE)
    list(JOIN files " \\\n " needed)
    file(WRITE ${DEPFILE} "${OUTPUT}: ${needed}\n")
endif()
