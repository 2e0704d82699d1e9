# SPDX-License-Identifier: GPL-2.0-only
"""Compares functions by their code, leaving out what the linker fills in."""

import elf

SHF_EXECINSTR = 4


def functions(obj):
    """{name: symbol} of an object file."""
    return {s.name: s for s in obj.symbols if s.type == elf.STT_FUNC and s.section not in (elf.SHN_UNDEF, elf.SHN_ABS)}


def _masked(obj, symbol, code):
    code = bytearray(code)
    for r in obj.relocs(symbol.section):
        at = r.offset - symbol.value
        if 0 <= at < symbol.size:
            size = elf.RELOC_BYTES.get(r.type, 4)
            code[at:at + size] = bytes(size)
    return bytes(code)


def _shape(obj, symbol):
    """What the linker is to fill in, and where; of local labels only that they are such."""
    shape = []
    for r in obj.relocs(symbol.section):
        name = r.symbol.name or obj.sections[r.symbol.section].name
        shape.append((r.offset - symbol.value, r.type, "" if name.startswith((".L", ".rodata")) else name))
    return shape


def differing(a, b):
    """Names of functions that are in both object files and not the same."""
    fa, fb = functions(a), functions(b)
    return sorted(n for n in fa.keys() & fb.keys()
                  if _masked(a, fa[n], a.code(fa[n])) != _masked(b, fb[n], b.code(fb[n])) or
                  _shape(a, fa[n]) != _shape(b, fb[n]))


def not_in(obj, file, linked):
    """(names of functions of an object file that are not, or not so, in a linked one; how many it has)"""
    theirs = {}
    for s in linked.symbols:
        if s.type == elf.STT_FUNC:
            theirs.setdefault((s.name, s.file), s)
    bad, mine = [], functions(obj)
    for name, s in mine.items():
        t = theirs.get((name, file if s.local else ""))
        code = t and t.size == s.size and linked.bytes_at(t.value, t.size)
        if not code or _masked(obj, s, code) != _masked(obj, s, obj.code(s)):
            bad.append(name)
    return sorted(bad), len(mine)


def callers(obj, names):
    """Names of functions of an object file that refer to one of these."""
    found, wanted = set(), {s.section: n for n, s in functions(obj).items() if n in names}
    for name, s in functions(obj).items():
        for r in obj.relocs(s.section):
            if r.symbol.name in names or r.symbol.type == elf.STT_SECTION and r.symbol.section in wanted:
                found.add(name)
    return found - set(names)


def only_called_by(obj, name, names):
    """Is this static function of an object file of no use but to those?"""
    found = callers(obj, [name])
    return functions(obj)[name].local and bool(found) and found <= set(names)
