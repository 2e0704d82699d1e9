# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab: a whole Xen host under emulation. See README.md beside this file.

    sys.path.insert(0, ".../tests/lab"); import lab
    with lab.Boot("stock", guest_extra={"bin/echo-probe": path}) as boot:
        boot.check("guest_start neighbour --ip 10.99.1.2 --run '/bin/echo-probe 10.99.1.1'")
"""

from assets import (BUILD, CACHE, EXTRAS, HERE, HYPERVISORS, PROGRESS, ROOT, LabError, compile_dom0,
                    compile_static, hypervisor, livepatch)
from boot import LOGS, Boot, Command

__all__ = ["BUILD", "CACHE", "EXTRAS", "HERE", "HYPERVISORS", "LOGS", "PROGRESS", "ROOT", "Boot", "Command",
           "LabError", "compile_dom0", "compile_static", "hypervisor", "livepatch"]
