# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of a whole Xen host in QEMU, and the channel into its dom0."""

import base64
import contextlib
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import assets
import cpio
from assets import BUILD, LabError

LOGS = os.path.join(BUILD, "logs")
RUN = os.path.join(BUILD, "run")

NIC_NET, NIC_ADDRESS = "10.97.0.0/24", "10.97.0.15"
NIC_UP = (f"dev=$(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/*) && dev=${{dev##*/}} && "
          f"ip addr add {NIC_ADDRESS}/24 dev $dev && ip link set $dev up")

LIB = ". /usr/lib/lab/lib.sh\n"
LIVE_UNIT = "scrubd-livepatch.service"


class Channel:
    """Frames to and from the agent in dom0 (see dom0/agent.c)."""

    def __init__(self, path, deadline):
        self.sock = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.sock.connect(path)
                break
            except OSError as e:
                if time.monotonic() > deadline:
                    raise LabError(f"no channel to the emulator: {e}") from e
                time.sleep(0.05)
        self.lock = threading.Lock()
        self.hello = threading.Event()
        self.closed = threading.Event()
        self.queues = {}
        self.next_id = 1
        threading.Thread(target=self._reader, daemon=True).start()

    def _read(self, n):
        data = bytearray()
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _reader(self):
        try:
            while True:
                kind, _, ident, length = struct.unpack("<cBHI", self._read(8))
                payload = self._read(length)
                if kind == b"H":
                    self.hello.set()
                elif ident in self.queues:
                    self.queues[ident].put((kind, payload))
        except (OSError, EOFError):
            pass
        self.closed.set()
        for q in list(self.queues.values()):
            q.put((b"!", b""))

    def send(self, kind, ident, payload):
        try:
            with self.lock:
                self.sock.sendall(struct.pack("<cBHI", kind, 0, ident, len(payload)) + payload)
        except OSError as e:
            raise LabError(f"the host is gone: {e}") from e

    def start(self, script):
        with self.lock:
            ident = self.next_id
            self.next_id = self.next_id % 65000 + 1
        self.queues[ident] = queue.Queue()
        self.send(b"R", ident, script)
        return ident


class Command:
    """A script that runs in dom0. wait() collects it."""

    def __init__(self, boot, script, on_output=None):
        self.boot = boot
        self.script = script
        self.on_output = on_output
        self.out = bytearray()
        self.err = bytearray()
        self.ident = boot.channel.start(script if isinstance(script, bytes) else script.encode())

    def wait(self, timeout_s=120):
        """(exit status, stdout, stderr) as (int, bytes, bytes)."""
        channel = self.boot.channel
        deadline = min(time.monotonic() + timeout_s, self.boot.deadline)
        while True:
            try:
                kind, data = channel.queues[self.ident].get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                channel.send(b"K", self.ident, b"")
                raise LabError(f"dom0 did not finish in {timeout_s} s: {self._short()}\n"
                               f"{self.out.decode(errors='replace')[-800:]}"
                               f"{self.err.decode(errors='replace')[-800:]}") from None
            if kind == b"!":
                raise LabError(f"the host went down during: {self._short()}; see {self.boot.log_path}")
            if kind == b"X":
                del channel.queues[self.ident]
                return struct.unpack("<i", data)[0], bytes(self.out), bytes(self.err)
            (self.out if kind == b"O" else self.err).extend(data)
            if self.on_output:
                self.on_output(kind, data)

    def _short(self):
        text = self.script if isinstance(self.script, str) else self.script.decode(errors="replace")
        return " ".join(text.replace(LIB, "").split())[:160]


class Boot:
    """A running host. Use as a context manager.

        with Boot("stock") as boot:
            rc, out = boot.run("xl list")

    hypervisor    stock | patched | debug | debug-stock | livepatched | livepatched-debug
    payload       True: the live patch for this hypervisor is where `scrubctl hypervisor load` looks for it;
                  a livepatched one has it, and scrubd's unit loads it at boot
    smp, mem_mib  of the emulated machine
    smt           threads a core
    cpu           QEMU's name of the CPU. Xen sees an AMD's threads only with a feature that QEMU does not emulate
    extra         what else dom0 has: "hvm" (it can run HVM guests), "libvirt" or "apt"
    numa          [(its CPUs as "0-1" or None, MiB), ..] for each node; mem_mib and ram_file do not count
    dom0_mib, dom0_vcpus
    xen_args, dom0_args  appended to the two command lines (no comma in dom0_args)
    pin           each emulated CPU on its own core of this machine, QEMU's main thread SCHED_RR:
                  for measuring latency
    prealloc      touch all memory first, so that no measurement does (4 s for 8 GiB)
    ram_file      path of a file (a memfd's, say) of mem_mib that is the machine's memory: later boots
                  find it allocated, and others may look into it
    scrubd        install the project into dom0 and let systemd start it
    guest_extra   {path in the guest: static program here}
    dom0_extra    {path in dom0: file here}
    time_limit_s  the whole host is killed after that
    forward       a TCP port of dom0: it has a network card then, with the address NIC_ADDRESS, and nobody beyond
                  this machine can be reached through it; `forwarded` is the port of 127.0.0.1 that leads there
    console       True: the console is this terminal (stdin and stdout)
    """

    count = 0

    def __init__(self, hypervisor="stock", name=None, smp=2, mem_mib=8192, dom0_mib=1024, dom0_vcpus=1,
                 xen_args="", dom0_args="", pin=False, prealloc=True, scrubd=True, guest_extra=None,
                 dom0_extra=None, time_limit_s=600, console=False, boot_limit_s=120, ram_file=None, smt=1, numa=None,
                 extra=None, cpu="qemu64,+svm,+npt", forward=None, payload=False):
        Boot.count += 1
        self.hypervisor = hypervisor
        self.name = name or f"{hypervisor}-{os.getpid()}-{Boot.count}"
        self.smp, self.mem_mib = smp, mem_mib
        self.smt, self.numa, self.extra, self.cpu = smt, numa, extra, cpu
        self.forward, self.forwarded = forward, None
        self.payload = payload or hypervisor in assets.LIVE
        self.dom0_mib, self.dom0_vcpus = dom0_mib, dom0_vcpus
        self.xen_args, self.dom0_args = xen_args, dom0_args
        self.pin, self.prealloc, self.console = pin, prealloc, console
        self.time_limit_s, self.boot_limit_s = time_limit_s, boot_limit_s
        self.scrubd, self.guest_extra, self.dom0_extra = scrubd, guest_extra, dom0_extra
        self.ram_file = ram_file
        self.log_path = os.path.join(LOGS, self.name + ".log")
        self.dir = os.path.join(RUN, f"{self.name}-{os.getpid()}")
        self.qemu = None
        self.channel = None
        self.deadline = None
        self.boot_s = None

    # --- Life ---

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _image(self):
        parts = [assets.base(self.extra), assets.lab_overlay(self.guest_extra)]
        if self.scrubd:
            parts.append(assets.scrubd_overlay())
        dom0_extra = dict(self.dom0_extra or {})
        if self.payload:
            kind = assets.LIVE.get(self.hypervisor, self.hypervisor)
            dom0_extra[f"var/lib/scrubd/{assets.build_id(kind)}.livepatch"] = assets.livepatch(kind)
        if dom0_extra:
            with open(f"{self.dir}/extra.cpio", "wb") as out:
                w = cpio.Writer(out)
                w.seen.update(("usr", "usr/lib", "usr/bin", "usr/sbin", "etc", "root", "var"))
                for dst, src in sorted(dom0_extra.items()):
                    w.file(dst, src)
                if self.hypervisor in assets.LIVE:
                    w.symlink(f"etc/systemd/system/multi-user.target.wants/{LIVE_UNIT}",
                              f"/usr/lib/systemd/system/{LIVE_UNIT}")
                w.finish()
            parts.append(f"{self.dir}/extra.cpio")
        with open(f"{self.dir}/dom0.img", "wb") as out:
            for part in parts:
                with open(part, "rb") as f:
                    shutil.copyfileobj(f, out, 1 << 20)
                out.write(b"\0" * (-out.tell() % 4))

    def _memory(self):
        if self.numa:
            args = ["-machine", "pc", "-m", str(sum(mib for _, mib in self.numa))]
            for node, (cpus, mib) in enumerate(self.numa):
                args += ["-object", f"memory-backend-ram,id=m{node},size={mib}M",
                         "-numa", f"node,nodeid={node},memdev=m{node}" + (f",cpus={cpus}" if cpus else "")]
            return args
        ram = f"file,mem-path={self.ram_file},share=on" if self.ram_file else "ram"
        return ["-m", str(self.mem_mib),
                "-object", f"memory-backend-{ram},id=ram,size={self.mem_mib}M"
                           + (",prealloc=on,prealloc-threads=2" if self.prealloc else ""),
                "-machine", "pc,memory-backend=ram"]

    def _nic(self):
        if not self.forward:
            return "none"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.forwarded = s.getsockname()[1]
        return (f"user,model=virtio-net-pci,restrict=on,net={NIC_NET},dhcpstart={NIC_ADDRESS},"
                f"hostfwd=tcp:127.0.0.1:{self.forwarded}-{NIC_ADDRESS}:{self.forward}")

    def gdb_path(self):
        """The socket of QEMU's gdb server; the machine is stopped while someone is connected."""
        return f"{self.dir}/gdb.sock"

    def _command(self):
        xen = (f"dom0_mem={self.dom0_mib}M,max:{self.dom0_mib}M console=com1 com1=115200,8n1 "
               f"loglvl=all guest_loglvl=all dom0_max_vcpus={self.dom0_vcpus} dom0_vcpus_pin "
               f"{self.xen_args}").strip()
        dom0 = f"console=hvc0 quiet systemd.show_status=0 {self.dom0_args}".strip()
        if "," in dom0:
            raise LabError("no comma in dom0's arguments: QEMU would split them")
        args = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", self.cpu,
                "-name", f"{self.name},debug-threads=on", *self._memory(),
                "-smp", f"{self.smp},threads={self.smt},cores={self.smp // self.smt},sockets=1",
                "-display", "none", "-no-reboot", "-nic", self._nic(),
                "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=lab.agent",
                "-chardev", f"socket,id=agent,path={self.dir}/agent.sock,server=on,wait=off",
                "-gdb", f"unix:{self.gdb_path()},server=on,wait=off"]
        if self.console:
            args += ["-chardev", f"stdio,id=com1,mux=on,signal=off,logfile={self.log_path}",
                     "-mon", "chardev=com1"]
        else:
            args += ["-chardev", f"file,id=com1,path={self.log_path}", "-monitor", "none"]
        args += ["-serial", "chardev:com1", "-kernel", assets.hypervisor(self.hypervisor),
                 "-append", xen, "-initrd", f"{assets.kernel()}/vmlinux {dom0},{self.dir}/dom0.img"]
        return args

    def start(self):
        os.makedirs(LOGS, exist_ok=True)
        for old in os.listdir(RUN) if os.path.isdir(RUN) else ():
            pid = old.rsplit("-", 1)[1]
            if not (pid.isdigit() and os.path.exists(f"/proc/{pid}")):  # a run that was killed
                shutil.rmtree(os.path.join(RUN, old), ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self._image()
        began = time.monotonic()
        self.deadline = began + self.time_limit_s
        # A pinned boot measures: whatever else runs on this machine comes after it. Where sessions
        # are scheduled as groups, only the group's nice value counts against other sessions.
        self.qemu = subprocess.Popen(["nice", "-n", "-20" if self.pin else "0", *self._command()],
                                     start_new_session=self.pin,
                                     stdin=None if self.console else subprocess.DEVNULL,
                                     stderr=None if self.console else open(f"{self.dir}/qemu.err", "wb"))
        if self.pin:
            with contextlib.suppress(OSError), open(f"/proc/{self.qemu.pid}/autogroup", "w") as f:
                f.write("-20")
        threading.Thread(target=self._watchdog, daemon=True).start()
        self.channel = Channel(f"{self.dir}/agent.sock", began + 20)
        if self.pin:
            self._pin()
        limit = began + self.boot_limit_s
        while not self.channel.hello.wait(0.2):
            if self.qemu.poll() is not None:
                with open(f"{self.dir}/qemu.err", errors="replace") as f:
                    raise LabError(f"the emulator ended: {f.read().strip()}; see {self.log_path}")
            if time.monotonic() > limit:
                raise LabError(f"dom0 was not up after {self.boot_limit_s} s; see {self.log_path}")
        self.check("poll 60 sh -c 'xl list >/dev/null 2>&1' || { systemctl --failed >&2; "
                   "systemctl status xen.service >&2; exit 1; }", 90)
        if self.forward:
            self.check(NIC_UP)
        if self.hypervisor in assets.LIVE:
            self.check(f"poll 60 live_loaded || {{ systemctl status {LIVE_UNIT} >&2; exit 1; }}", 90)
        self.boot_s = time.monotonic() - began

    def _watchdog(self):
        try:
            self.qemu.wait(self.time_limit_s)
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"lab: {self.name}: over its limit of {self.time_limit_s} s, killed\n")
            self.qemu.kill()

    def _threads(self):
        base = f"/proc/{self.qemu.pid}/task"
        for tid in os.listdir(base):
            with contextlib.suppress(OSError), open(f"{base}/{tid}/comm") as f:  # it may have ended
                yield int(tid), f.read().strip()

    def _pin(self):
        """Needs root: a vCPU thread per core, and timers and devices ahead of both."""
        cores = sorted(os.sched_getaffinity(0))
        end = time.monotonic() + self.boot_limit_s
        while True:
            cpus = {int(n[4:].split("/")[0]): t for t, n in self._threads() if n.startswith("CPU ")}
            if len(cpus) == self.smp:
                break
            # Not before: threads made afterwards would be SCHED_RR as well, in turns of 100 ms with
            # the main thread, and all timers late by that much.
            if time.monotonic() > end or self.qemu.poll() is not None:
                raise LabError("the emulator has no CPU threads to pin")
            time.sleep(0.05)
        for n, tid in cpus.items():
            os.sched_setaffinity(tid, {cores[n % len(cores)]})
        os.sched_setscheduler(self.qemu.pid, os.SCHED_RR, os.sched_param(10))

    def stop(self):
        if self.qemu and self.qemu.poll() is None:
            self.qemu.kill()
            self.qemu.wait()
        if self.channel:
            self.channel.sock.close()
        if os.path.isdir(self.dir):
            shutil.rmtree(self.dir, ignore_errors=True)

    # --- Work in dom0 ---

    def start_command(self, script, on_output=None, lib=True):
        """Starts a shell script in dom0 and returns at once; the lab's functions are at hand."""
        return Command(self, (LIB if lib else "") + script, on_output)

    def run(self, script, timeout_s=120, on_output=None):
        """(exit status, stdout and stderr as one text) of a shell script in dom0."""
        rc, out, err = self.start_command(script, on_output).wait(timeout_s)
        return rc, (out + err).decode(errors="replace")

    def check(self, script, timeout_s=120):
        """stdout of a script that must succeed."""
        rc, out, err = self.start_command(script).wait(timeout_s)
        if rc != 0:
            raise LabError(f"dom0: exit status {rc}: {' '.join(script.split())[:160]}\n"
                           f"{out.decode(errors='replace')}{err.decode(errors='replace')}")
        return out.decode(errors="replace")

    def put(self, path, content, mode=0o644):
        if isinstance(content, str):
            content = content.encode()
        # A script is one argument of the shell, and Linux bounds that.
        for at in range(0, len(content) or 1, 65536):
            text = base64.encodebytes(content[at:at + 65536]).decode()
            self.check(f"mkdir -p \"$(dirname '{path}')\" && base64 -d {'>>' if at else '>'} '{path}' <<'LAB-EOF'\n"
                       f"{text}LAB-EOF\n")
        self.check(f"chmod {mode:o} '{path}'")

    def get(self, path):
        """The bytes of a file in dom0."""
        rc, out, err = self.start_command(f"exec cat '{path}'", lib=False).wait()
        if rc != 0:
            raise LabError(f"dom0: {path}: {err.decode(errors='replace').strip()}")
        return out

    def interact(self):
        """Until the host is powered off; the console is this terminal (console=True)."""
        self.qemu.wait()

    def power_off(self, timeout_s=30):
        self.channel.send(b"R", 0, b"echo o > /proc/sysrq-trigger")
        try:
            self.qemu.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.qemu.send_signal(signal.SIGKILL)

    def serial_log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()
