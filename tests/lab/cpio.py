# SPDX-License-Identifier: GPL-2.0-or-later
"""Writer of "newc" cpio archives: what Linux unpacks as its first file system.

Archives are made straight from tar files, directories or bytes in memory, so that no root file
system is ever laid out on this machine. Times and inode numbers are fixed: equal input gives an
equal archive.
"""

import os
import stat
import tarfile


class Writer:
    """Appends members to an open binary file. Parents are the caller's business, except in
    `data` and `symlink`, which make missing ones."""

    def __init__(self, out):
        self.out = out
        self.inode = 0
        self.seen = set()

    def _member(self, name, mode, data=b"", uid=0, gid=0, rdev=(0, 0)):
        name = name.strip("/")
        self.inode += 1
        fields = (self.inode, mode, uid, gid, 1, 0, len(data), 0, 0, rdev[0], rdev[1],
                  len(name.encode()) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        self.out.write(head + b"\0" * (-len(head) % 4))
        self.out.write(data)
        self.out.write(b"\0" * (-len(data) % 4))
        self.seen.add(name)

    def _parents(self, name):
        parts = name.strip("/").split("/")[:-1]
        for i in range(1, len(parts) + 1):
            parent = "/".join(parts[:i])
            if parent not in self.seen:
                self._member(parent, stat.S_IFDIR | 0o755)

    def directory(self, name, mode=0o755):
        self._parents(name)
        self._member(name, stat.S_IFDIR | mode)

    def data(self, name, content, mode=0o644):
        self._parents(name)
        if isinstance(content, str):
            content = content.encode()
        self._member(name, stat.S_IFREG | mode, content)

    def file(self, name, path, mode=None):
        with open(path, "rb") as f:
            content = f.read()
        self.data(name, content, stat.S_IMODE(os.stat(path).st_mode) if mode is None else mode)

    def symlink(self, name, target):
        self._parents(name)
        self._member(name, stat.S_IFLNK | 0o777, target.encode())

    def char_device(self, name, major, minor, mode=0o600):
        self._parents(name)
        self._member(name, stat.S_IFCHR | mode, rdev=(major, minor))

    def tree(self, path, prefix=""):
        """Everything below directory `path`, owned by root. Directories are not written
        again where the archive (or the one it is appended to) has a link of that name:
        `usr_merged` names are rewritten by the caller."""
        for root, dirs, files in os.walk(path):
            dirs.sort()
            rel = os.path.relpath(root, path)
            for name in sorted(files) + [d for d in dirs if os.path.islink(f"{root}/{d}")]:
                src = os.path.join(root, name)
                dst = os.path.normpath(os.path.join(prefix, rel, name))
                if os.path.islink(src):
                    self.symlink(dst, os.readlink(src))
                else:
                    self.file(dst, src)
            for name in dirs:
                dst = os.path.normpath(os.path.join(prefix, rel, name))
                if not os.path.islink(f"{root}/{name}") and dst not in self.seen:
                    self.directory(dst)

    def tar(self, path, keep):
        """The members of tar file `path` for which keep(name) holds."""
        with tarfile.open(path) as tar:
            for m in tar:
                name = os.path.normpath(m.name)
                if name == "." or not keep(name):
                    continue
                mode = m.mode & 0o7777
                if m.isdir():
                    self._member(name, stat.S_IFDIR | mode, uid=m.uid, gid=m.gid)
                elif m.issym():
                    self._member(name, stat.S_IFLNK | 0o777, m.linkname.encode(), m.uid, m.gid)
                elif m.isfile() or m.islnk():
                    self._member(name, stat.S_IFREG | mode, tar.extractfile(m).read(), m.uid, m.gid)
                elif m.ischr():
                    self._member(name, stat.S_IFCHR | mode, b"", m.uid, m.gid,
                                 (m.devmajor, m.devminor))

    def finish(self):
        self._member("TRAILER!!!", 0)
