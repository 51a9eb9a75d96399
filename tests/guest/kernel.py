#!/usr/bin/env python3
"""The guests' kernel: the newest that Debian has built for a newer suite than most machines run, kept in a cache.

    $MILLRACE_GUEST_CACHE, else $XDG_CACHE_HOME/millrace/guest, else ~/.cache/millrace/guest
        lock              held while a kernel is looked for and put in place
        newest            link to the kernel in use; newest-SUITE where --suite asked for that one
        VERSION/          vmlinuz, kernel/ (the modules, as packed)

apt does the work, with the machine's mirror and its settings for downloads (proxies) but lists, cache and state of its
own, so that the machine's are not touched and no root is needed. It checks the archive's signature against Debian's
keyring, and every package against what was signed. A folder appears under its name only when it is complete."""
import argparse
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

# In this order: the first that has the package decides.
SUITES = ("trixie-backports", "forky", "sid")
FLAVOUR = "cloud-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 900


class Unavailable(Exception):
    """The kernel cannot be had here; the text says why, and what to do."""


class Kernel:
    def __init__(self, folder):
        self.folder = folder
        self.image = os.path.join(folder, "vmlinuz")
        self.modules = os.path.join(folder, "kernel")
        self.version = os.path.basename(folder)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("MILLRACE_GUEST_CACHE") or os.path.join(base, "millrace", "guest")


def output(*command, cwd=None, env=None):
    """What a command printed; Unavailable when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT_S, cwd=cwd, env={**os.environ, "LC_ALL": "C", **(env or {})})
    except FileNotFoundError:
        raise Unavailable("%s is missing: guest kernels come from Debian through apt" % command[0]) from None
    except subprocess.TimeoutExpired:
        raise Unavailable("%s did not end within %d s: is the Debian mirror reachable?"
                          % (command[0], TIMEOUT_S)) from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise Unavailable("%s failed (%d): %.500s" % (command[0], done.returncode, said or "it said nothing"))
    return done.stdout


class Apt:
    """apt that knows one suite and nothing of this machine's packages."""

    def __init__(self, folder, mirror, suite, keyring):
        for name in ("lists/partial", "cache/archives/partial", "parts", "debs"):
            os.makedirs(os.path.join(folder, name))
        self.debs = os.path.join(folder, "debs")
        with open(os.path.join(folder, "sources.list"), "w") as file:
            # A mirror that is a snapshot serves a Release file past its date; its signature is checked all the same.
            file.write("deb [signed-by=%s check-valid-until=no] %s %s main\n" % (keyring, mirror, suite))
        settings = {
            "Dir::Etc::SourceList": folder + "/sources.list", "Dir::Etc::SourceParts": folder + "/parts",
            "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": folder + "/parts",
            "Dir::Etc::Parts": folder + "/parts", "Dir::Etc::Main": "/dev/null",
            "Dir::State": folder, "Dir::State::Lists": folder + "/lists", "Dir::State::Status": "/dev/null",
            "Dir::Cache": folder + "/cache", "Acquire::Languages": "none", "Acquire::Retries": "3",
            "Acquire::AllowInsecureRepositories": "false", "Acquire::AllowWeakRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false", "APT::Update::Error-Mode": "any", "APT::Sandbox::User": ""}
        # Of the machine's settings only those for downloads: its hooks are about its own lists and cache.
        with open(os.path.join(folder, "apt.conf"), "w") as file:
            file.writelines(line + "\n" for line in output("apt-config", "dump").splitlines()
                            if line.startswith("Acquire::"))
            file.writelines('%s "%s";\n' % pair for pair in settings.items())
        self.env = {"APT_CONFIG": os.path.join(folder, "apt.conf")}

    def update(self):
        output("apt-get", "-q", "update", env=self.env)

    def depends(self, package):
        """The names a package depends on, empty when there is no such package."""
        with contextlib.suppress(Unavailable):
            return re.findall(r"^ *Depends: ([^<\s]+)$", output("apt-cache", "depends", package, env=self.env), re.M)
        return []

    def download(self, packages):
        output("apt-get", "-q", "download", *packages, cwd=self.debs, env=self.env)
        return sorted(os.path.join(self.debs, name) for name in os.listdir(self.debs))


def machine_mirror():
    """The mirror this machine already uses: what its network allows."""
    uris = output("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main",
                  "Origin: Debian", "Label: Debian").split()
    if not uris:
        raise Unavailable("apt knows no Debian mirror: add one to /etc/apt/sources.list.d and run apt-get update")
    return min(uris)


def kernel_packages(apt):
    """The packages of one kernel version that hold its files: what linux-image-FLAVOUR leads to, as long as the names
    carry the version. (Up to 6.x that is linux-image-VERSION alone; later its files are in linux-binary-VERSION and
    linux-modules-VERSION.)"""
    meta = "linux-image-" + FLAVOUR
    image = next((name for name in apt.depends(meta) if re.match(r"linux-image-\d", name)), None)
    if image is None:
        return None, []
    version = image.removeprefix("linux-image-")
    found, unseen = [], [image]
    while unseen:
        name = unseen.pop()
        if name not in found:
            found.append(name)
            unseen += [other for other in apt.depends(name) if other.endswith("-" + version)]
    return version, sorted(found)


def unpack(debs, version, folder):
    """Unpacks the packages and moves what a guest needs to `folder`."""
    tree = folder + ".tree"
    for deb in debs:
        output("dpkg-deb", "-x", deb, tree)
    os.mkdir(folder)
    for base in (tree + "/usr/lib/modules/", tree + "/lib/modules/"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(base + version + "/kernel", folder + "/kernel")
    for image in ("/usr/lib/modules/%s/vmlinuz" % version, "/boot/vmlinuz-" + version):
        with contextlib.suppress(FileNotFoundError):
            os.rename(tree + image, folder + "/vmlinuz")
    for name in ("vmlinuz", "kernel"):
        if not os.path.exists(os.path.join(folder, name)):
            raise Unavailable("the packages of kernel %s hold no %s where one is expected: Debian packs them "
                              "differently now, see unpack() in tests/guest/kernel.py" % (version, name))


def fetch(cache, link_name, suites, keyring):
    """Puts the newest kernel of the first suite that has one into the cache and returns its folder."""
    if not os.access(keyring, os.R_OK):
        raise Unavailable("%s is missing: install debian-archive-keyring" % keyring)
    for name in os.listdir(cache):
        if name.startswith(".fetch-"):  # of a fetch that was killed; we hold the lock
            shutil.rmtree(os.path.join(cache, name), ignore_errors=True)
    mirror, reasons = machine_mirror(), []
    for suite in suites:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as work:
            apt = Apt(os.path.join(work, "apt"), mirror, suite, keyring)
            try:
                apt.update()
            except Unavailable as error:
                reasons.append("%s: %s" % (suite, error))
                continue
            version, packages = kernel_packages(apt)
            if version is None:
                reasons.append("%s has no linux-image-%s" % (suite, FLAVOUR))
                continue
            final = os.path.join(cache, version)
            if not os.path.exists(final):
                unpack(apt.download(packages), version, os.path.join(work, "new"))
                os.rename(os.path.join(work, "new"), final)
            link = os.path.join(work, "link")
            os.symlink(os.path.basename(final), link)
            os.replace(link, os.path.join(cache, link_name))
            return final
    raise Unavailable("no kernel: " + "; ".join(reasons))


def find(refresh=False, suite=None, keyring=KEYRING):
    """The kernel of the cache; it is fetched when there is none, or to look for a newer one."""
    link_name = "newest" + ("-" + suite if suite else "")
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise Unavailable("guests are emulated PCs: they run binaries of x86-64, this is %s" % os.uname().machine)
    cache = cache_folder()
    try:
        os.makedirs(cache, exist_ok=True)
        lock = open(os.path.join(cache, "lock"), "w")
    except OSError as error:
        raise Unavailable("the cache %s cannot be used: %s; MILLRACE_GUEST_CACHE says where else"
                          % (cache, error.strerror)) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = os.path.realpath(os.path.join(cache, link_name))
        if refresh or not os.path.exists(os.path.join(folder, "vmlinuz")):
            folder = fetch(cache, link_name, [suite] if suite else SUITES, keyring)
    return Kernel(folder)


def main():
    parser = argparse.ArgumentParser(description="Prints the folder of the guests' kernel, after fetching it if need "
                                     "be. Exit codes: 0 there it is, 1 it cannot be had, 2 usage.")
    parser.add_argument("--refresh", action="store_true", help="look for a newer one than the cache has")
    parser.add_argument("--suite", help="of Debian (the first of %s that has one)" % ", ".join(SUITES))
    parser.add_argument("--keyring", default=KEYRING, help="whose signatures count (%(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        print(find(arguments.refresh, arguments.suite, arguments.keyring).folder)
    except Unavailable as error:
        print("kernel.py: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
