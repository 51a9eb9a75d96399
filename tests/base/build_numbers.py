"""build_numbers.py CMAKE SOURCE VERSION MILLRACE: what changes the number of the protocol and the build id, and what does
not. Works on copies."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE, SOURCE, VERSION, MILLRACE = sys.argv[1:]
SCRIPTS = os.path.join(SOURCE, "cmake")
HERE = tempfile.mkdtemp()
TREE, OUTPUT, DEPFILE = (os.path.join(HERE, name) for name in ("tree", "made.c", "made.d"))


def make(script, tree, *more):
    """What the script writes into OUTPUT."""
    subprocess.run([CMAKE, "-D", f"SOURCE={tree}", "-D", f"VERSION={VERSION}", "-D", f"OUTPUT={OUTPUT}", *more, "-P",
                    os.path.join(SCRIPTS, script)], check=True)
    with open(OUTPUT, encoding="utf-8") as file:
        return file.read()


def number(tree=TREE):
    return re.search(r"0x([0-9a-f]{8})\)", make("protocol_number.cmake", tree, "-D", f"DEPFILE={DEPFILE}"))[1]


def sources():
    """What the number was made from, as paths in the tree."""
    with open(DEPFILE, encoding="utf-8") as file:
        return [os.path.relpath(path, os.path.commonpath([SOURCE]))
                for path in file.read().partition(":")[2].replace("\\\n", " ").split()]


def replaced(path, before, after):
    """The number when a text in a file of the tree is another one."""
    path = os.path.join(TREE, path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert before in text, f"{path} has no '{before}'"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after, 1))
    got = number()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return got


def check_number():
    ours = number(SOURCE)
    told = subprocess.run([MILLRACE, "--version"], check=True, capture_output=True, text=True).stdout
    assert f"(protocol {ours})" in told, f"{told} is not of protocol {ours}"
    paths = sources()
    for path in paths:
        os.makedirs(os.path.dirname(os.path.join(TREE, path)), exist_ok=True)
        shutil.copy(os.path.join(SOURCE, path), os.path.join(TREE, path))
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file: # would pass for the begin of a comment
            assert not re.search(r'"[^"\n]*/\*[^"\n]*"', re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)), path
    assert number() == ours
    before = os.stat(OUTPUT).st_mtime_ns
    assert number() == ours and os.stat(OUTPUT).st_mtime_ns == before, "an equal file is written again"

    others = [
        replaced("cluster/protocol/millrace.proto", "    uint32 nodes_expected = 2;", "    uint32 nodes_expected = 2;\n    uint32 added = 3;"),
        replaced("cluster/protocol/millrace.proto", "uint64 sequence = 1;", "uint64 sequence = 3;"),
        replaced("cluster/protocol/message.h", "    X(COMMIT)", "    X(PUBLISH)"),
        replaced("cluster/protocol/codec.c", "hello->pid = wire->pid;", ""),
        replaced("cluster/link/frame.c", "FRAME_TAG_1 = 0x06", "FRAME_TAG_1 = 0x07"),
        replaced("shuffle/frames/frame.h", "uint32_t rows;", "uint64_t rows;"),
        replaced("shuffle/mesh/preamble.h", "uint64_t job;", "uint32_t job;"),
        replaced("net/proof/proof.c", "uint8_t version, kind, purpose;", "uint8_t kind, version, purpose;"),
        replaced("cluster/bisect/task.c", "0x3142524d", "0x3242524d"),
        replaced("cluster/bisect/task.c", "PATTERN_BYTES = 256 << 10", "PATTERN_BYTES = 128 << 10"),
        replaced("base/random.c", "0x9e3779b97f4a7c15", "0x9e3779b97f4a7c17"),
        replaced("base/random.h", ">> 30", ">> 31"),
        replaced("base/status.h", "X(VERSION, ", "X(EDITION, "),
    ]
    assert ours not in others, f"a change of the protocol left its number alone: {others.index(ours)}"
    assert len(set(others)) == len(others)
    same = [
        replaced("cluster/protocol/millrace.proto", "message Beat {", "// A comment.\n\nmessage Beat {"),
        replaced("cluster/protocol/message.h", "#ifndef", "/* A\n * comment. */\n#include <stdio.h>\n\n#ifndef"),
        replaced("cluster/protocol/message.h", "#include \"cluster/protocol/work.h\"", "#include  \"cluster/protocol/work.h\""),
    ]
    os.rename(os.path.join(TREE, "cluster/protocol/work.h"), os.path.join(TREE, "cluster/moved.h"))
    same.append(replaced("cluster/protocol/message.h", "cluster/protocol/work.h", "cluster/moved.h"))
    assert same == [ours] * 4, "a comment, white space or the place of a file changes the number"
    os.remove(os.path.join(TREE, "cluster/link/frame.c"))
    lost = subprocess.run([CMAKE, "-D", f"SOURCE={TREE}", "-D", f"VERSION={VERSION}", "-D", f"OUTPUT={OUTPUT}", "-P",
                           os.path.join(SCRIPTS, "protocol_number.cmake")], check=False, capture_output=True, text=True)
    assert lost.returncode != 0 and "cluster/link/frame.c" in lost.stderr, lost
    for wanted in ("cluster/protocol/codec_report.c", "net/engine/engine.h", "shuffle/rows/schema.h", "base/status.h"):
        assert wanted in paths, f"{wanted} does not count"


def build_id(tree):
    return re.search(r'return "(.*)";', make("build_id.cmake", tree))[1]


def git(*words):
    return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-C", tree, *words], check=True,
                          capture_output=True, text=True).stdout.strip()


def put(name, text):
    os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
    with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
        file.write(text)


try:
    check_number()
    tree = os.path.join(HERE, "build")
    os.mkdir(tree)
    assert build_id(tree) == VERSION, "no repository, no commit"
    put("cmake/commit", "$Format:%H$\n")
    assert build_id(tree) == VERSION, "a checkout's is not filled in"
    put("cmake/commit", "1d2fb59ac0" + 30 * "7" + "\n")
    assert build_id(tree) == f"{VERSION}+1d2fb59ac0", "an archive's is"
    put("cmake/commit", 'x"; exit(1); "\n')
    assert build_id(tree) == VERSION
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "v9") # names of tags are not part of it
    commit = git("rev-parse", "--short=10", "HEAD")
    assert build_id(tree) == f"{VERSION}+{commit}"
    written = os.stat(OUTPUT).st_mtime_ns
    assert build_id(tree) == f"{VERSION}+{commit}" and os.stat(OUTPUT).st_mtime_ns == written, "written again"
    put("new", "is not of the tree yet\n")
    assert build_id(tree) == f"{VERSION}+{commit}"
    put("cmake/commit", "changed\n")
    assert build_id(tree) == f"{VERSION}+{commit}-dirty"
    git("commit", "-qam", "two")
    assert build_id(tree) == f"{VERSION}+{git('rev-parse', '--short=10', 'HEAD')}"
    inside = os.path.join(tree, "unpacked") # an archive inside of somebody else's repository
    os.mkdir(inside)
    assert build_id(inside) == VERSION
finally:
    shutil.rmtree(HERE)
