"""What Slurm knows of the allocation we are in, and the steps that run in it."""
import os
import re
import shutil
import subprocess

from transport import Failure

SECONDS = 30


def _ask(*words):
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=True, text=True, timeout=SECONDS).stdout
    except subprocess.CalledProcessError as error:
        raise Failure(1, f"{' '.join(words)}: {error.stderr.strip()}") from None
    except subprocess.TimeoutExpired:
        raise Failure(1, f"{' '.join(words)}: no answer within {SECONDS} s") from None


def allocation():
    """(job, its nodes as a list for hosts.load, bytes of memory per node or 0) of the allocation we are in."""
    job, nodes = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NODELIST")
    if not job or not nodes:
        raise Failure(2, "--via slurm works inside an allocation: salloc --nodes=6, then deploy/cluster up --via slurm;"
                         " or a batch job, for which deploy/slurm/millrace.sbatch is a template")
    if not shutil.which("scontrol") or not shutil.which("srun"):
        raise Failure(1, "--via slurm: scontrol or srun is missing (Debian: slurm-client)")
    names = ",".join(_ask("scontrol", "show", "hostnames", nodes).split())
    mebibytes = os.environ.get("SLURM_MEM_PER_NODE", "")
    return job, names, int(mebibytes) << 20 if mebibytes.isdigit() else 0


def address(node):
    """Where the node is reached, by Slurm's own configuration: a name or an address."""
    match = re.search(r"\bNodeAddr=(\S+)", _ask("scontrol", "--oneliner", "show", "node", node))
    return match[1] if match else node


def is_over(job):
    """Whether the job has ended or is forgotten."""
    try:
        state = re.search(r"\bJobState=(\S+)", _ask("scontrol", "--oneliner", "show", "job", job))
    except Failure:
        return True
    return not state or state[1] not in ("RUNNING", "CONFIGURING", "SUSPENDED")


def binds():
    """Whether this Slurm binds tasks to cores, which a step of ours must then decline."""
    config = _ask("scontrol", "show", "config")
    return not re.search(r"^TaskPlugin\s*=\s*(task/none|\(null\))?\s*$", config, re.MULTILINE)


def step(job, binding, host):
    """The words before a command that run it in a step of the job on one of its nodes, beside other steps."""
    return ["srun", f"--jobid={job}", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", "--mem=0",
            *(["--cpu-bind=none"] if binding else []), f"--nodelist={host.host}"]
