# SPDX-License-Identifier: GPL-2.0-or-later
"""What a lab boot is made of, each piece cached under build/lab/cache by what it was made from.

  base    dom0's user land, from Debian's packages: a compressed cpio
  kernel  one Linux kernel for dom0 and guests, and its modules
  guest   initramfs of the guests: busybox and small static programs
  lab     what the lab adds to dom0: agent, shell functions, guest kernel and initramfs, modules
  scrubd  `meson install` of the project

base is slow and changes rarely; the others are small archives that are appended to it.
"""

import atexit
import contextlib
import fcntl
import functools
import glob
import hashlib
import inspect
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import threading
import time

import cpio
from progress import Progress

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "lab")
CACHE = os.path.join(BUILD, "cache")

DOM0_PACKAGES = """
    xen-utils-4.17 xenstore-utils systemd-sysv udev dbus kmod iproute2 procps busybox-static
    libevent-core-2.1-7 libevent-extra-2.1-7 libjson-c5 libconfuse2 libsystemd0
    libxencall1 libxenstore4 libxenmisc4.17 libxentoollog1
""".split()

# What few boots want, each 60 MB: packages by its name.
EXTRAS = {
    "hvm": ["qemu-system-xen", "seabios"],
    "apt": ["apt"],
    "libvirt": ["libvirt-daemon-system", "libvirt-daemon-driver-xen", "libvirt-clients"],
}
# What of BASE_DROP stays then: Xen's firmware; the Perl that maintainer scripts call.
KEEP = {
    "hvm": ("usr/lib/xen-4.17/boot",),
    "apt": ("usr/bin/perl", "usr/bin/perl5.36.0", "usr/lib/x86_64-linux-gnu/perl"),
}

# Never used in dom0, and every megabyte costs boot time under emulation.
BASE_DROP = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale",
             "usr/share/perl", "usr/share/perl5", "usr/share/zoneinfo", "usr/share/i18n",
             "usr/lib/udev/hwdb.bin", "usr/lib/udev/hwdb.d", "usr/lib/xen-4.17/boot",
             "usr/lib/x86_64-linux-gnu/perl", "usr/lib/x86_64-linux-gnu/gconv", "usr/bin/perl",
             "usr/bin/perl5.36.0", "usr/lib/x86_64-linux-gnu/libperl.so",
             "usr/lib/python3.11/test", "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/ensurepip",
             "usr/share/bash-completion", "var/cache", "var/lib/apt", "boot", "dev/",
             # libvirt is started by who wants it, without its network.
             "etc/systemd/system/multi-user.target.wants/libvirt", "etc/systemd/system/multi-user.target.wants/virt",
             "etc/systemd/system/sockets.target.wants/libvirt", "etc/systemd/system/sockets.target.wants/virt",
             "etc/libvirt/qemu/networks/autostart", "usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu")

DOM0_MODULES = ("xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs xen-netback xen-blkback "
                "virtio_pci virtio_console virtio_net").split()
GUEST_MODULES = ["xen-netfront"]

# Units of Debian that do nothing for a Xen host in memory but take, together, half a minute of
# emulated boot. What Xen and the project touch (journal, udev, D-Bus, tmpfiles) stays.
DOM0_MASKED = """
    systemd-udev-settle.service systemd-random-seed.service
    systemd-sysusers.service systemd-sysctl.service systemd-user-sessions.service
    systemd-journal-flush.service systemd-remount-fs.service systemd-machine-id-commit.service
    systemd-binfmt.service systemd-firstboot.service systemd-update-done.service
    systemd-journal-catalog-update.service systemd-hwdb-update.service systemd-pstore.service
    systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-logind.service
    systemd-timesyncd.service systemd-networkd.service systemd-tmpfiles-clean.timer
    modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service
    modprobe@efi_pstore.service modprobe@fuse.service modprobe@loop.service
    dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount
    sys-kernel-config.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount
    getty@tty1.service apt-daily.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer
    xendomains.service hwclock.service procps.service
""".split()

PROGRESS = Progress(os.path.join(CACHE, "times.json"))


class LabError(Exception):
    """Something a person can read; the lab ends with it."""


def run(args, **kwargs):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if p.returncode != 0:
        tail = "\n".join(p.stdout.splitlines()[-25:])
        raise LabError(f"{' '.join(args)[:200]}: exit status {p.returncode}\n{tail}")
    return p.stdout


def _digest(*parts):
    h = hashlib.sha256()
    for part in parts:
        h.update(part if isinstance(part, bytes) else str(part).encode())
        h.update(b"\0")
    return h.hexdigest()[:16]


def _file_digest(*paths):
    h = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            h.update(os.path.basename(path).encode() + f.read())
    return h.hexdigest()[:16]


_LOCAL = threading.RLock()
_LOCAL_DEPTH = threading.local()


@contextlib.contextmanager
def exclusive():
    """One maker at a time, of all threads and processes that use this build directory."""
    os.makedirs(CACHE, exist_ok=True)
    with _LOCAL, open(os.path.join(BUILD, "lock"), "w") as f:
        if getattr(_LOCAL_DEPTH, "n", 0) == 0:
            fcntl.flock(f, fcntl.LOCK_EX)
        _LOCAL_DEPTH.n = getattr(_LOCAL_DEPTH, "n", 0) + 1
        try:
            yield
        finally:
            _LOCAL_DEPTH.n -= 1


UNUSED_S = 3 * 86400


def _cached(name, key, make, estimate_s=None):
    """Path of build/lab/cache/NAME-KEY, made by make(path, step) when it is not there yet."""
    path = os.path.join(CACHE, f"{name}-{key}")
    with exclusive():
        if os.path.exists(path):
            os.utime(path)
            return path
        fresh = tempfile.mkdtemp(prefix=f"new-{name}-", dir=CACHE)
        try:
            target = os.path.join(fresh, "made")
            if estimate_s:
                with PROGRESS.step(f"lab: {name}", estimate_s) as step:
                    make(target, step)
            else:
                make(target, None)
            os.rename(target, path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        for old in os.listdir(CACHE):
            old_path = os.path.join(CACHE, old)
            if old.rsplit("-", 1)[0] in (name, f"new-{name}") and os.stat(old_path).st_mtime < time.time() - UNUSED_S:
                shutil.rmtree(old_path) if os.path.isdir(old_path) else os.unlink(old_path)
    return path


# --- Debian -------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def debian_sources():
    """(suite, sources.list text) of Debian's own archives, as this machine's apt knows them."""
    with open("/etc/os-release") as f:
        suite = next(l.split("=")[1].strip().strip('"') for l in f if l.startswith("VERSION_CODENAME"))
    form = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)"
    ask = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    if "Debian|" not in run(ask):
        run(["apt-get", "update", "-q"])
    lines = []
    for line in sorted(set(run(ask).split())):
        origin, uri, codename, component = line.split("|")
        if origin == "Debian" and codename.split("-")[0] == suite and component == "main":
            lines.append(f"deb {uri} {codename} {component}\n")
    if not lines:
        raise LabError("apt knows no Debian archive: the lab takes dom0 from this machine's own sources")
    return suite, "".join(lines)


def _candidates(packages):
    """{package: candidate version} by apt."""
    out = run(["apt-cache", "policy"] + packages)
    versions, name = {}, None
    for line in out.splitlines():
        if line and not line.startswith(" "):
            name = line.rstrip(":")
        elif line.startswith("  Candidate:"):
            versions[name] = line.split()[1]
    missing = [p for p in packages if versions.get(p, "(none)") == "(none)"]
    if missing:
        raise LabError(f"apt does not know {' '.join(missing)}: run apt-get update")
    return versions


@functools.lru_cache(maxsize=None)
def base(extra=None):
    """dom0's user land: path of a compressed cpio. extra is a name of EXTRAS."""
    suite, sources = debian_sources()
    packages = DOM0_PACKAGES + EXTRAS.get(extra, [])
    drop = tuple(d for d in BASE_DROP if d not in KEEP.get(extra, ()))
    versions = _candidates(packages)
    key = _digest(suite, sources, sorted(versions.items()), drop,
                  inspect.getsource(base), inspect.getsource(compress), inspect.getsource(cpio.Writer))

    def make(path, step):
        work = os.path.dirname(path)
        with open(f"{work}/sources.list", "w") as f:
            f.write(sources)
        # essential, not minbase: apt itself is of no use in dom0.
        p = subprocess.Popen(
            ["mmdebstrap", "--variant=essential", "--include=" + ",".join(packages),
             '--aptopt=Apt::Install-Recommends "false"',
             "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
             "--dpkgopt=path-exclude=/usr/share/locale/*",
             suite, f"{work}/root.tar", f"{work}/sources.list"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        log = []
        for line in p.stdout:
            log.append(line)
            if line.startswith("I: "):
                step.note(line[3:].strip().rstrip("."))
        if p.wait() != 0:
            raise LabError("mmdebstrap failed:\n" + "".join(log[-25:]))
        step.note("packing")
        with open(f"{work}/base.cpio", "wb") as out:
            w = cpio.Writer(out)
            w.tar(f"{work}/root.tar", lambda n: not (n + "/").startswith(drop))
            w.finish()
        compress(f"{work}/base.cpio", path)

    return _cached(f"base-{extra}" if extra else "base", key, make, 40)


def unpacked(package):
    """Directory with the files of a Debian package, of which nothing is installed here."""
    version = _candidates([package])[package]

    def make(path, step):
        work = os.path.dirname(path)
        step.note("downloading")
        run(["apt-get", "download", "-q", f"{package}={version}"], cwd=work)
        deb = next(f for f in os.listdir(work) if f.endswith(".deb"))
        run(["dpkg-deb", "-x", f"{work}/{deb}", path])
        os.utime(path)  # else it is as old as the package, and swept as unused

    return _cached(package, _digest(package, version, inspect.getsource(unpacked)), make, 5)


VARLINKCTL_SUITE = "trixie"  # the first Debian whose systemd has varlinkctl


def varlinkctl():
    """The command, as a list, that runs varlinkctl of a newer Debian on this machine."""
    suite, sources = debian_sources()
    uri = next(words[1] for words in map(str.split, sources.splitlines()) if words[2] == suite)

    def make(path, step):
        root, libs = os.path.dirname(path) + "/root", "usr/lib/x86_64-linux-gnu"
        step.note(f"unpacking {VARLINKCTL_SUITE}'s systemd")
        run(["mmdebstrap", "--variant=extract", "--include=systemd", VARLINKCTL_SUITE, root, uri])
        os.mkdir(path)
        shutil.copy2(f"{root}/usr/bin/varlinkctl", path)
        for pattern in (f"{libs}/ld-linux-x86-64.so.2", f"{libs}/*.so.*", f"{libs}/systemd/*.so"):
            for lib in glob.glob(f"{root}/{pattern}"):
                shutil.copy2(lib, path)

    path = _cached("varlinkctl", _digest(uri, inspect.getsource(varlinkctl)), make, 20)
    return [f"{path}/ld-linux-x86-64.so.2", "--library-path", path, f"{path}/varlinkctl"]


def compress(src, dst):
    with open(dst, "wb") as out:
        if subprocess.call(["gzip", "-1", "-c", src], stdout=out) != 0:
            raise LabError(f"cannot compress {src}")


def vmlinux(image):
    """The ELF kernel inside a bzImage (offsets: Linux Documentation/arch/x86/boot.rst).

    Xen and libxl would unpack it themselves, in the emulated machine and for each guest."""
    setup_sectors = image[0x1f1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start:start + length]
    if not payload.startswith(b"\xfd7zXZ"):
        return image
    return lzma.LZMADecompressor().decompress(payload)


@functools.lru_cache(maxsize=None)
def kernel():
    """Directory with `vmlinux` and `modules/` (a tree below lib/modules, with modules.dep)."""
    meta = run(["apt-cache", "depends", "linux-image-amd64"])
    name = next((w for w in meta.split() if w.startswith("linux-image-6")), None)
    if not name:
        raise LabError("apt does not know linux-image-amd64: run apt-get update")
    version = _candidates([name])[name]
    key = _digest(name, version, DOM0_MODULES, GUEST_MODULES, inspect.getsource(kernel),
                  inspect.getsource(vmlinux))

    def make(path, step):
        work = os.path.dirname(path)
        step.note("downloading " + name)
        run(["apt-get", "download", "-q", f"{name}={version}"], cwd=work)
        deb = next(f for f in os.listdir(work) if f.endswith(".deb"))
        step.note("unpacking")
        with open(f"{work}/data.tar", "wb") as out:
            subprocess.check_call(["dpkg-deb", "--fsys-tarfile", f"{work}/{deb}"], stdout=out)
        os.makedirs(f"{path}/modules")
        release = name[len("linux-image-"):]
        with tarfile.open(f"{work}/data.tar") as tar:
            members = {os.path.normpath(m.name): m for m in tar}
            with open(f"{path}/vmlinux", "wb") as out:
                out.write(vmlinux(tar.extractfile(members[f"boot/vmlinuz-{release}"]).read()))
            by_name = {os.path.basename(n)[:-3].replace("-", "_"): n for n in members if n.endswith(".ko")}
            order = []

            def want(module):
                module = module.replace("-", "_")
                if module in order or module not in by_name:
                    return  # built in
                data = tar.extractfile(members[by_name[module]]).read()
                at = data.find(b"\0depends=") + len(b"\0depends=")
                for needed in data[at:data.index(b"\0", at)].decode().split(","):
                    if needed:
                        want(needed)
                order.append(module)
                target = f"{path}/modules/{by_name[module]}"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as out:
                    out.write(data)

            for m in DOM0_MODULES:
                want(m)
            order.clear()
            for m in GUEST_MODULES:
                want(m)
            with open(f"{path}/guest-modules", "w") as out:
                for m in order:
                    out.write(f"{by_name[m]}\n")
            for n in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
                m = members[f"lib/modules/{release}/{n}"]
                with open(f"{path}/modules/lib/modules/{release}/{n}", "wb") as out:
                    out.write(tar.extractfile(m).read())
        run(["depmod", "-b", f"{path}/modules", release])

    return _cached("kernel", key, make, 5)


# --- The lab's own pieces -----------------------------------------------------------------

SCRUB_CTL = os.path.join(ROOT, "hv-patch", "include", "scrub_ctl.h")


def compile_static(source, extra=(), headers=()):
    """Path of the static program made from one C file."""
    name = os.path.splitext(os.path.basename(source))[0]
    key = _digest(_file_digest(source, *headers), extra)

    def make(path, step):
        del step
        run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s",
             *(f"-I{os.path.dirname(h)}" for h in headers), "-o", path, source, *extra])

    return _cached(f"bin-{name}", key, make)


def compile_dom0(source, libs, headers=()):
    """Path of a program for dom0, linked against libraries that are there."""
    name = os.path.splitext(os.path.basename(source))[0]
    key = _digest(_file_digest(source, *headers), libs)

    def make(path, step):
        del step
        run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D__XEN_TOOLS__", "-s",
             *(f"-I{os.path.dirname(h)}" for h in headers), "-o", path, source, *libs])

    return _cached(f"bin-{name}", key, make)


def _busybox():
    path = shutil.which("busybox")
    if not path:
        raise LabError("busybox is missing: install busybox-static")
    return path


def guest_image(extra=None):
    """Initramfs of the guests. extra: {path in the guest: path here} of static programs."""
    extra = dict(extra or {})
    kern = kernel()
    programs = {name: compile_static(os.path.join(HERE, "guest", name + ".c"), extra_args, headers)
                for name, extra_args, headers in (("fill", (), ()), ("search", (), ()),
                                                  ("denied", ("-D__XEN_TOOLS__",), (SCRUB_CTL,)))}
    init = os.path.join(HERE, "guest", "init")
    key = _digest(kern, sorted(programs.values()), _file_digest(init, _busybox()), inspect.getsource(guest_image),
                  sorted((k, _file_digest(v)) for k, v in extra.items()))

    def make(path, step):
        del step
        with open(path + ".cpio", "wb") as out:
            w = cpio.Writer(out)
            for d in ("proc", "sys", "dev", "fill", "tmp", "sbin", "usr/bin", "usr/sbin"):
                w.directory(d)
            w.char_device("dev/console", 5, 1)
            w.data("init", open(init, "rb").read(), 0o755)
            w.file("bin/busybox", _busybox(), 0o755)
            w.symlink("bin/sh", "busybox")
            # What the kernel runs when the toolstack asks it to shut down.
            w.data("sbin/poweroff", "#!/bin/sh\nexec /bin/busybox poweroff -f\n", 0o755)
            for name, path_here in sorted(programs.items()):
                w.file("bin/" + name, path_here, 0o755)
            names = []
            with open(f"{kern}/guest-modules") as f:
                for rel in f.read().split():
                    names.append(os.path.basename(rel)[:-3])
                    w.file(f"modules/{os.path.basename(rel)}", f"{kern}/modules/{rel}", 0o644)
            w.data("modules.order", "\n".join(names) + "\n")
            # Not in that list: only who wants to make hypercalls loads it.
            privcmd, = glob.glob(f"{kern}/modules/lib/modules/*/kernel/drivers/xen/xen-privcmd.ko")
            w.file("modules/xen-privcmd.ko", privcmd, 0o644)
            for dst, src in sorted(extra.items()):
                w.file(dst, src, 0o755)
            w.finish()
        compress(path + ".cpio", path)

    return _cached("guest", key, make)


def lab_overlay(guest_extra=None):
    """What the lab adds to dom0: path of a cpio.gz to append to base."""
    kern = kernel()
    guest = guest_image(guest_extra)
    agent = compile_static(os.path.join(HERE, "dom0", "agent.c"))
    tools = {name: compile_dom0(os.path.join(HERE, "dom0", name + ".c"), libs, headers) for name, libs, headers in (
        ("labhv", ["-lxenctrl"], ()), ("labscrub", ["-lxencall"], (SCRUB_CTL,)),
        ("labstep", ["-lxencall", "-lxenctrl"], (SCRUB_CTL,)), ("labhold", ["-lxenforeignmemory"], ()),
        ("labfuzz", ["-lxencall", "-lxenctrl"], (SCRUB_CTL,)))}
    mine = [os.path.join(HERE, "dom0", f) for f in ("lib.sh", "lab-agent.service", "vif-lab")]
    key = _digest(kern, guest, agent, sorted(tools.values()), _file_digest(*mine), DOM0_MASKED, inspect.getsource(lab_overlay))

    def make(path, step):
        del step
        with open(path + ".cpio", "wb") as out:
            w = cpio.Writer(out)
            # The base archive has these; written again they would lose nothing but time.
            w.seen.update(("etc", "usr", "usr/lib", "usr/bin", "etc/systemd", "root", "var",
                           "etc/systemd/system", "etc/xen", "etc/xen/scripts", "etc/default", "lib"))
            w.symlink("init", "usr/lib/systemd/systemd")
            w.directory("dev")
            w.char_device("dev/console", 5, 1)
            w.file("usr/lib/lab/agent", agent, 0o755)
            for name, program in sorted(tools.items()):
                w.file("usr/bin/" + name, program, 0o755)
            w.file("usr/lib/lab/lib.sh", mine[0], 0o644)
            w.file("usr/lib/lab/vmlinux", f"{kern}/vmlinux", 0o644)
            w.file("usr/lib/lab/guest.img", guest, 0o644)
            w.file("etc/xen/scripts/vif-lab", mine[2], 0o755)
            w.file("etc/systemd/system/lab-agent.service", mine[1], 0o644)
            w.symlink("etc/systemd/system/multi-user.target.wants/lab-agent.service",
                      "../lab-agent.service")
            w.data("etc/modules-load.d/lab.conf", "\n".join(DOM0_MODULES) + "\n")
            w.data("etc/default/xen", 'XENCONSOLED_ARGS="--log=guest"\n')
            w.data("etc/hostname", "dom0\n")
            w.data("etc/fstab", "")
            w.symlink("etc/systemd/system/default.target", "/usr/lib/systemd/system/multi-user.target")
            w.data("etc/machine-id", "6c61623a646f6d306c61623a646f6d30\n")
            w.data("etc/systemd/journald.conf.d/lab.conf",
                   "[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\nRateLimitIntervalSec=0\n")
            # A root shell on the console, and nothing that wakes up by itself.
            w.data("etc/systemd/system/serial-getty@hvc0.service.d/lab.conf",
                   "[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear "
                   "--keep-baud 115200,57600,38400,9600 - $TERM\n")
            w.data("etc/systemd/system/systemd-udev-trigger.service.d/lab.conf",
                   "[Service]\nExecStart=\nExecStart=-udevadm trigger --action=add "
                   "--subsystem-match=tty --sysname-match=hvc0\n")
            for unit in DOM0_MASKED:
                w.symlink(f"etc/systemd/system/{unit}", "/dev/null")
            w.tree(f"{kern}/modules/lib", "usr/lib")
            w.finish()
        compress(path + ".cpio", path)

    return _cached("lab", key, make)


def scrubd_tree():
    """(directory that `meson install` of the project filled, path of contract-xen or None)"""
    build, dest = os.path.join(BUILD, "meson"), os.path.join(BUILD, "install")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        run(["meson", "setup", build, ROOT, "--prefix=/usr", "--sysconfdir=/etc",
             "--localstatedir=/var", "--buildtype=release"])
    run(["ninja", "-C", build, "build.ninja"])  # meson.build may have changed
    # What is installed, not the tests that run on this machine.
    targets = json.loads(run(["meson", "introspect", "--targets", build]))
    run(["ninja", "-C", build] + [os.path.relpath(f, build) for t in targets if t["installed"]
                                  for f in t["filename"]])
    shutil.rmtree(dest, ignore_errors=True)
    run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", dest])
    contract = next((t["filename"][0] for t in targets if t["name"] == "contract-xen"), None)
    if contract:
        run(["ninja", "-C", build, os.path.relpath(contract, build)])
    return dest, contract


@functools.lru_cache(maxsize=None)
def scrubd_overlay():
    """What the project installs, its units enabled, and what its tests need in dom0: path of a
    cpio.gz. Made once by each process, so that all its boots have the same."""
    path = os.path.join(BUILD, f"scrubd-{os.getpid()}.img")
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    with exclusive():
        dest, contract = scrubd_tree()
        with open(path + ".cpio", "wb") as out:
            w = cpio.Writer(out)
            w.seen.update(("etc", "usr", "usr/lib", "usr/bin", "usr/sbin", "usr/share", "lib", "var",
                           "usr/lib/systemd", "usr/lib/systemd/system", "usr/lib/x86_64-linux-gnu"))
            if contract:
                w.file("usr/lib/lab/contract-xen", contract, 0o755)
            for top in sorted(os.listdir(dest)):
                # Debian 12 has merged /usr: there lib is a link.
                w.tree(f"{dest}/{top}", "usr/lib" if top == "lib" else top)
            for unit, target in (("scrubd.socket", "sockets.target"),
                                 ("scrubd.service", "multi-user.target")):
                if f"usr/lib/systemd/system/{unit}" in w.seen:
                    w.symlink(f"etc/systemd/system/{target}.wants/{unit}",
                              f"/usr/lib/systemd/system/{unit}")
            w.finish()
        compress(path + ".cpio", path)
        os.unlink(path + ".cpio")
    return path


def deb():
    """Path of the project's Debian package."""
    with exclusive():
        return os.path.join(ROOT, run([os.path.join(ROOT, "dev"), "deb"]).split()[-1])


def newer_deb(work):
    """The same as a later version, made in the directory `work`: (path, version)."""
    run(["dpkg-deb", "-R", deb(), f"{work}/tree"])
    with open(f"{work}/tree/DEBIAN/control") as f:
        control = f.read()
    version = re.search(r"^Version: (.*)$", control, re.M).group(1) + "+lab1"
    with open(f"{work}/tree/DEBIAN/control", "w") as f:
        f.write(re.sub(r"^Version: .*$", f"Version: {version}", control, flags=re.M))
    run(["dpkg-deb", "--root-owner-group", "-b", f"{work}/tree", f"{work}/newer.deb"])
    return f"{work}/newer.deb", version


# --- Hypervisors --------------------------------------------------------------------------

# Those that boot another one, unpatched, and then get the patch as a live patch.
LIVE = {"livepatched": "stock", "livepatched-debug": "debug-stock"}
HYPERVISORS = ("stock", "patched", "debug", "debug-stock", *LIVE)


def hypervisor(kind):
    """Path of a hypervisor that QEMU can boot. SCRUBD_LAB_XEN_STOCK and the like override."""
    kind = LIVE.get(kind, kind)
    if kind not in HYPERVISORS:
        raise LabError(f"unknown hypervisor '{kind}': one of {', '.join(HYPERVISORS)}")
    given = os.environ.get(f"SCRUBD_LAB_XEN_{kind.upper().replace('-', '_')}")
    path = given or os.path.join(ROOT, "build", "hv", f"xen-{kind}")
    if not given and not os.path.exists(path):
        builder = os.path.join(ROOT, "hv-patch", "build")
        if not os.path.exists(builder):
            raise LabError(f"no {kind} hypervisor: {path} is missing")
        with exclusive(), PROGRESS.step(f"lab: {kind} hypervisor", 60):
            run([builder, kind])
    if not os.path.exists(path):
        raise LabError(f"no {kind} hypervisor: {path} is missing")
    return os.path.realpath(path)


def build_id(kind):
    """Of that hypervisor, in hexadecimal."""
    notes = run(["readelf", "-n", os.path.join(os.path.dirname(hypervisor(kind)), "xen-syms")])
    return re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)


LIVEPATCH_BUILD = os.path.join(ROOT, "hv-patch", "livepatch", "build")


@functools.lru_cache(maxsize=None)
def livepatch(kind):
    """Path of the payload that is the patch series for this unpatched hypervisor; its name is that
    which `scrubctl hypervisor load` looks for. SCRUBD_LAB_LIVEPATCH overrides."""
    hypervisor(kind)
    given = os.environ.get("SCRUBD_LAB_LIVEPATCH")
    if given:
        return given
    with exclusive(), PROGRESS.step(f"lab: live patch for {kind}", 30):
        run([LIVEPATCH_BUILD, "--variant", LIVE.get(kind, kind)])
    return os.path.join(ROOT, "build", "hv", "livepatch", build_id(kind) + ".livepatch")
