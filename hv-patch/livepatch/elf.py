# SPDX-License-Identifier: GPL-2.0-only
"""Reads 64-bit little-endian ELF files: what linking against a hypervisor that runs already takes."""

import collections
import struct

SHT_NOBITS, SHT_SYMTAB, SHT_RELA = 8, 2, 4
STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE = 1, 2, 3, 4
SHN_UNDEF, SHN_ABS = 0, 0xfff1
# How many bytes a relocation fills in.
RELOC_BYTES = {1: 8, 24: 8}

Section = collections.namedtuple("Section", "name type flags addr offset size link info")
# file: the source that a local symbol comes from, "" for a global one.
Symbol = collections.namedtuple("Symbol", "name type local section value size file")
Reloc = collections.namedtuple("Reloc", "offset type symbol addend")


class ElfError(Exception):
    """Says which file, and what is wrong with it."""


class Elf:
    """sections and symbols are in the file's order; a symbol's section is an index, or SHN_ABS."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:6] != b"\x7fELF\2\1":
            raise ElfError(f"{path}: not a 64-bit ELF file")
        shoff, = self._unpack("<Q", 0x28)
        count, names = self._unpack("<HH", 0x3c)
        raw = [self._unpack("<IIQQQQIIQQ", shoff + 64 * i)[:8] for i in range(count)]
        if not raw:
            raise ElfError(f"{path}: has no sections")
        strings = self._slice(raw[names][4], raw[names][5])
        self.sections = [Section(_string(strings, r[0]), *r[1:]) for r in raw]
        self.symbols = self._read_symbols()

    def _unpack(self, form, at):
        return struct.unpack(form, self._slice(at, struct.calcsize(form)))

    def _slice(self, at, size):
        if at + size > len(self.data):
            raise ElfError(f"{self.path}: truncated: {len(self.data)} bytes, but byte {at + size} is referred to")
        return self.data[at:at + size]

    def _read_symbols(self):
        table = next((s for s in self.sections if s.type == SHT_SYMTAB), None)
        if not table:
            raise ElfError(f"{self.path}: has no symbols")
        link = self.sections[table.link]
        strings, data = self._slice(link.offset, link.size), self._slice(table.offset, table.size)
        symbols, file = [], ""
        for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", data):
            name, kind, local = _string(strings, name), info & 15, info >> 4 == 0
            if kind == STT_FILE:
                file = name
            symbols.append(Symbol(name, kind, local, section, value, size, file if local else ""))
        return symbols

    def contents(self, section):
        return bytes(section.size) if section.type == SHT_NOBITS else self._slice(section.offset, section.size)

    def section(self, name):
        return next((s for s in self.sections if s.name == name), None)

    def bytes_at(self, addr, size):
        """Of a linked file, by address; None if nothing is there."""
        for s in self.sections:
            if s.flags & 2 and s.addr <= addr and addr + size <= s.addr + s.size:
                return self.contents(s)[addr - s.addr:addr - s.addr + size]
        return None

    def code(self, symbol):
        """The bytes of a function or object of an object file."""
        return self.contents(self.sections[symbol.section])[symbol.value:symbol.value + symbol.size]

    def relocs(self, section):
        """Those of a section, by its index."""
        found = []
        for s in self.sections:
            if s.type == SHT_RELA and s.info == section:
                for offset, info, addend in struct.iter_unpack("<QQq", self.contents(s)):
                    found.append(Reloc(offset, info & 0xffffffff, self.symbols[info >> 32], addend))
        return found

    def build_id(self):
        """The GNU build-id, and the note that it is in; None if there is none."""
        s = self.section(".note.gnu.build-id")
        if not s:
            return None
        note = self.contents(s)
        if len(note) < 16 or struct.unpack_from("<I", note, 8)[0] != 3:
            raise ElfError(f"{self.path}: its build-id cannot be read")
        names, size = struct.unpack_from("<II", note)
        at = 12 + (names + 3) // 4 * 4
        return note[at:at + size].hex(), note[:at + size]


def _string(strings, at):
    return strings[at:strings.index(b"\0", at)].decode(errors="replace")
