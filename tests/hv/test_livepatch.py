#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The build of the live patch, without Xen: functions taken out of a small source, and symbols that it must refuse.

usage: test_livepatch.py HV-PATCH/LIVEPATCH
"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = sys.argv.pop()
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import assembly  # noqa: E402
import compare  # noqa: E402
import elf  # noqa: E402

FLAGS = ["-O2", "-fpic", "-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"]

# What a hypervisor's source file may have: shared and private data, constants, a helper, a string.
SOURCE = r"""
#pragma GCC visibility push(hidden)
extern int printk(const char *fmt, ...);
extern int elsewhere;
static int counter, other[3];
static const int table[4] = { 3, 1, 4, 1 };
static __attribute__((noinline)) int helper(int x) { return x * table[x & 3] + counter++; }
__attribute__((noinline)) int exported(int x) { return x + elsewhere; }
static __attribute__((noinline)) int replaced(int x)
{
    static int calls;
    if ( x > 7 )
        printk("counter: %d of other\n", x);
    return helper(x) + exported(x) + ++calls;
}
int unrelated(int x) { return other[x] += replaced(x) + CHANGE; }
"""

# An image that says that it is Xen 4.17.5, with a build-id.
IMAGE = r"""
unsigned int xen_major_version(void) { return 4; }
unsigned int xen_minor_version(void) { return 17; }
const char *xen_extra_version(void) { return ".5"; }
"""


class Case(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def path(self, name, text=None):
        path = os.path.join(self.work, name)
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        return path

    def gcc(self, *args):
        subprocess.run(["gcc", *FLAGS, *args], check=True, cwd=self.work)

    def compiled(self, name, change=0, source=SOURCE):
        self.path("common/" + name + ".c", source)
        self.gcc(f"-DCHANGE={change}", "-c", "common/" + name + ".c", "-o", name + ".o")
        return elf.Elf(self.path(name + ".o"))


class Extraction(Case):
    def extract(self, *wanted):
        self.path("a.c", SOURCE)
        self.gcc("-DCHANGE=0", "-S", "a.c", "-o", "a.s")
        with open(self.path("a.s")) as f:
            return assembly.Extract(f.read(), wanted)

    def test_parts(self):
        e = self.extract("replaced")
        self.assertEqual(e.copied, ["helper"])
        self.assertEqual({n.split(".")[0]: size for n, size in e.theirs.items()}, {"counter": 4, "calls": 4})

    def test_object(self):
        """Has its functions and constants, nothing else, and leaves data to the hypervisor."""
        e = self.extract("replaced")
        self.path("b.s", e.text)
        self.gcc("-c", "b.s", "-o", "b.o")
        obj = elf.Elf(self.path("b.o"))
        self.assertEqual(set(compare.functions(obj)), {"replaced", "helper"})
        undefined = {s.name.split(".")[0] for s in obj.symbols if s.section == elf.SHN_UNDEF and s.name}
        self.assertEqual(undefined, {"printk", "exported", "counter", "calls"})
        self.assertFalse([s.name for s in obj.sections if s.size and s.name.startswith((".data", ".bss"))])
        self.assertIn(b"counter: %d of other\n\0", obj.contents(obj.section(".rodata.replaced.str1.1")))

    def test_missing(self):
        with self.assertRaisesRegex(assembly.ExtractError, "gone"):
            self.extract("replaced", "gone")


class Comparison(Case):
    def test_differing(self):
        a, b = self.compiled("a"), self.compiled("b", 5)
        self.assertEqual(compare.differing(a, a), [])
        self.assertEqual(compare.differing(a, b), ["unrelated"])

    def test_callers(self):
        a = self.compiled("a")
        self.assertEqual(compare.callers(a, ["replaced"]), {"unrelated"})
        self.assertTrue(compare.only_called_by(a, "helper", ["replaced"]))
        self.assertFalse(compare.only_called_by(a, "replaced", ["helper"]))
        # Others may call what is not static, from other source files.
        self.assertFalse(compare.only_called_by(a, "exported", ["replaced"]))
        self.assertFalse(compare.only_called_by(a, "unrelated", ["replaced"]))

    def test_linked(self):
        a, b = self.compiled("a"), self.compiled("b", 5)
        self.path("rest.c", "int elsewhere; int printk(const char *fmt, ...) { return 0; }\n")
        self.gcc("-static", "-nostdlib", "-no-pie", "-Wl,-e,0", "a.o", "rest.c", "-o", "linked")
        linked = elf.Elf(self.path("linked"))
        files = {s.file for s in linked.symbols if s.name == "replaced"}
        self.assertEqual(files, {"a.c"})
        self.assertEqual(compare.not_in(a, "a.c", linked), ([], 4))
        self.assertEqual(compare.not_in(b, "a.c", linked), (["unrelated"], 4))
        # Static functions of another source file are others.
        self.assertEqual(compare.not_in(a, "b.c", linked), (["helper", "replaced"], 4))


class Refusal(Case):
    def setUp(self):
        super().setUp()
        self.path("image.c", IMAGE)
        self.gcc("-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,--build-id=0x" + "ab" * 20, "image.c", "-o", "xen-syms")
        self.path(".config", "CONFIG_LIVEPATCH=y\n")

    def tree(self, version):
        self.path("tree/xen/Makefile", "export XEN_VERSION = 4\nexport XEN_SUBVERSION = %s\n"
                                  "export XEN_EXTRAVERSION ?= %s$(XEN_VENDORVERSION)\n" % version)
        return self.path("tree")

    def refused(self, *args):
        p = subprocess.run([os.path.join(HERE, "build"), "--output", self.path("out"), "--syms",
                            self.path("xen-syms"), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((p.returncode, p.stdout), (1, ""), p.stderr)
        return p.stderr

    def test_build_id(self):
        text = self.refused("--build-id", "cd" * 20)
        self.assertIn("ab" * 20, text)
        self.assertIn("cd" * 20, text)

    def test_version(self):
        self.assertIn("symbols are of Xen 4.17.5, and the source is that of 4.18.0",
                      self.refused("--source", self.tree(("18", ".0"))))
        self.assertIn("4.17.5, and the source is that of 4.17.50", self.refused("--source", self.tree(("17", ".50"))))

    def test_truncated(self):
        size = os.path.getsize(self.path("xen-syms"))
        for left in (size - 1, size // 2, 100, 3, 0):
            os.truncate(self.path("xen-syms"), left)
            self.assertRegex(self.refused(), "truncated|not a 64-bit ELF file")

    def test_missing(self):
        os.unlink(self.path("xen-syms"))
        self.assertIn("xen-hypervisor-4.17-amd64-dbg", self.refused())

    def test_no_livepatch(self):
        self.path(".config", "# CONFIG_LIVEPATCH is not set\n")
        self.assertIn("CONFIG_LIVEPATCH", self.refused())

    def test_no_build_id(self):
        self.gcc("-shared", "-nostdlib", "-Wl,--build-id=none", "image.c", "-o", "xen-syms")
        self.assertIn("no build-id", self.refused())


if __name__ == "__main__":
    unittest.main(verbosity=2)
