"""step_is_pure.py NM IMPURE OBJECT...: the coordinator's step keeps nothing outside of what it is given and calls nothing
that has an effect: its objects have no variables, and what they call is named below. IMPURE is one that has both."""

import re
import subprocess
import sys

VARIABLE_SECTIONS = re.compile(r"\.t?(data|bss)(?!\.rel\.ro)|\*COM\*")
# Of the C library and jansson: memory, texts and sorting. gmtime_r and strftime print a time that they are given.
LIBRARY = re.compile(
    r"(__)?(mem(cpy|move|set|cmp|chr)|bcmp|str(len|cmp|ncmp|chr|rchr|dup|ndup|str|spn|cspn|verscmp|ftime)|v?snprintf|v?asprintf)(_chk)?$"
    r"|(malloc|calloc|realloc|free|qsort|gmtime_r|__errno_location|__stack_chk_fail|__isoc\w+|_GLOBAL_OFFSET_TABLE_)$"
    r"|json_(delete|dumps|pack|string|array\w*|object\w*|integer)$"
)
# Of this tree: the step itself, the messages as plain structs, and what floors below reckon without looking at the world.
OWN = re.compile(
    r"coordinator_\w+$"
    r"|cluster_(bisect|decision|limit|measure|message|phase|plan|work)\w*$"
    r"|base_(assert_failed|state_(begin|enter)|build_(id|protocol)|error_\w+|status_\w+|random_(seed|next|below))$"
    r"|join_(plan|type)_\w+$"
    r"|shuffle_(job_\w+|publish_name|rejects_merge|survey_apply|schema_\w+|relation_(divide|free|needs_survey|parse))$"
    r"|net_address_format$"
)


def symbols(nm, path):
    """(name, section or None) of each symbol; None: it is somebody else's."""
    for line in subprocess.check_output([nm, "-f", "sysv", path], text=True).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7 and cells[0] != "Name":
            yield cells[0], None if cells[6] == "*UND*" else cells[6]


def faults(nm, paths):
    """A sentence for each thing that a pure step has not, and the names that the objects define."""
    found, defined, called = [], set(), {}
    for path in paths:
        for name, section in symbols(nm, path):
            if section is None:
                called.setdefault(name, path)
            else:
                defined.add(name)
                if VARIABLE_SECTIONS.match(section):
                    found.append(f"{path} keeps the variable {name}")
    for name, path in sorted(called.items()):
        if name not in defined and not LIBRARY.match(name) and not OWN.match(name):
            found.append(f"{path} calls {name}")
    return found, defined


nm, impure, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
told = "\n".join(faults(nm, [impure])[0])
assert "keeps the variable" in told and "calls write" in told, f"{impure} passes for pure: {told}"
found, defined = faults(nm, objects)
assert "cluster_coordinator_step" in defined, "these are not the objects of the step"
if found:
    sys.exit("the coordinator's step is not pure (cluster/coordinator/coordinator.h):\n" + "\n".join(found))
print(f"{len(objects)} objects, {len(defined)} symbols: no variable, no call with an effect")
