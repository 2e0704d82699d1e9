#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""extract.py PATCHES FILE=OUTPUT...: write files that a patch series creates to OUTPUT.

A file that one patch creates and later ones change needs no other source than the patches.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def extract(patches, wanted):
    with tempfile.TemporaryDirectory() as tree:
        with open(os.path.join(patches, "series"), encoding="utf-8") as f:
            series = [line.strip() for line in f if line.strip() and not line.startswith("#")]
        for name in series:
            with open(os.path.join(patches, name), encoding="utf-8") as f:
                text = f.read()
            for part in re.split(r"(?m)^(?=diff --git )", text)[1:]:
                path = re.match(r"diff --git a/(\S+)", part).group(1)
                if path in wanted:
                    subprocess.run(["patch", "-s", "-p1", "-F0", "-d", tree], input=part.encode(),
                                   check=True)
        for path, output in wanted.items():
            shutil.copyfile(os.path.join(tree, path), output)


if __name__ == "__main__":
    extract(sys.argv[1], dict(arg.split("=", 1) for arg in sys.argv[2:]))
