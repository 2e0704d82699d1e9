#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""embed.py OUTPUT NAME=FILE...: a C source that has each text file as the string NAME."""
import json
import sys

with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write('#include "messages.h"\n')
    for name, path in (arg.split("=", 1) for arg in sys.argv[2:]):
        with open(path, encoding="ascii") as f:
            # What JSON escapes in ASCII, C does in the same way.
            lines = "\n    ".join(json.dumps(line) for line in f)
        out.write(f"\nconst char {name}[] =\n    {lines};\n")
