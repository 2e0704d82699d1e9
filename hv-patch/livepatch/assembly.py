# SPDX-License-Identifier: GPL-2.0-only
"""Takes functions out of what the compiler made of a source file: some replace those of a running hypervisor, and all else
that they refer to is to be the running hypervisor's own.

The input has a section for each function and object (-ffunction-sections -fdata-sections), as Xen is always compiled.
"""

import re

_SWITCH = re.compile(r"^\s*\.(?:section\s+([^\s,]+).*|text|data|bss)\s*$")
_LABEL = re.compile(r"^([.\w$]+):")
_WORD = re.compile(r"[.A-Za-z_$][\w.$]*")


class ExtractError(Exception):
    """The functions cannot be taken out."""


class _Chunk:
    """One section, up to the next switch. Sections that inline assembler pushes belong to the function around it."""

    def __init__(self, line, section):
        self.section, self.lines = section, [line]

    def words(self):
        # What the assembler itself includes (#APP) has comments, too, but words in those do no harm here.
        return {w for line in self.lines[1:] for w in _WORD.findall(re.sub(r'"(\\.|[^"\\])*"', "", line))}


class Assembly:
    def __init__(self, text):
        self.head, self.chunks, self.at = [], [], {}
        inline = False
        for line in text.splitlines(True):
            if line.startswith(("#APP", "#NO_APP")):
                inline = line.startswith("#APP")
            m = None if inline else _SWITCH.match(line)
            if m:
                self.chunks.append(_Chunk(line, m[1] or line.strip()))
            elif self.chunks:
                self.chunks[-1].lines.append(line)
            else:
                self.head.append(line)
        # Without code, the first one has the assembler's macros.
        if self.chunks and self.chunks[0].section == ".text":
            self.head += self.chunks.pop(0).lines
        for chunk in self.chunks:
            for line in chunk.lines:
                m = _LABEL.match(line)
                if m and not m[1].isdigit():
                    self.at.setdefault(m[1], chunk)
        self.exported = set(re.findall(r"^\s*\.globl\s+(\S+)", text, re.M))
        self.commons = {m[0]: int(m[1]) for m in re.findall(r"^\s*\.comm\s+([\w.$]+),(\d+)", text, re.M)}
        self.objects = set(re.findall(r"^\s*\.type\s+([\w.$]+),\s*@object", text, re.M)) | set(self.commons)
        self.sizes = {name: int(size) for name, size in re.findall(r"^\s*\.size\s+([\w.$]+),\s*(\d+)\s*$", text, re.M)}
        self.sizes.update(self.commons)


class Extract:
    """text: assembler source with the wanted functions, which become global. copied: static functions that came along.
    theirs: {static object: its size} of what stays where it is."""

    def __init__(self, text, wanted):
        a = Assembly(text)
        missing = [f for f in wanted if f not in a.at]
        if missing:
            raise ExtractError(f"not a function of its own: {', '.join(missing)}")
        kept, todo = set(), [a.at[f] for f in wanted]
        self.copied, self.theirs = [], {}
        while todo:
            chunk = todo.pop()
            if chunk in kept:
                continue
            kept.add(chunk)
            for word in sorted(chunk.words()):
                there = a.at.get(word)
                if word in a.exported or there in kept and word not in a.objects:
                    continue
                if there and (word.startswith(".L") or there.section.startswith((".text.", ".rodata"))):
                    # Labels and constants are the function's own. A static function may differ from the one that runs, in
                    # what it leaves in registers if nothing else.
                    todo.append(there)
                    if there.section.startswith(".text."):
                        self.copied.append(word)
                elif word in a.objects:
                    self.theirs[word] = a.sizes.get(word)
        for chunk in kept:
            if not chunk.section.startswith((".text.", ".rodata")):
                raise ExtractError(f"the functions have data of their own, in {chunk.section}")
        self.copied = sorted(set(self.copied) - set(wanted))
        self.text = "".join(a.head) + "".join(f"\t.globl {f}\n" for f in wanted) + \
            "".join(line for chunk in a.chunks if chunk in kept for line in chunk.lines) + \
            '\t.section .note.GNU-stack,"",@progbits\n'
