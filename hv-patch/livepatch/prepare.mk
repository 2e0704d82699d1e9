# SPDX-License-Identifier: GPL-2.0-only
# Read after Xen's own xen/Makefile: makes what its sources include, without compiling the hypervisor.
.PHONY: livepatch-prepare
livepatch-prepare: outputmakefile FORCE
	$(Q)$(MAKE) $(build)=tools
	$(Q)$(MAKE) $(build)=. include/xen/compile.h
	$(Q)$(MAKE) $(build)=include all
	$(Q)$(MAKE) $(build)=arch/$(SRCARCH) include
	$(Q)$(MAKE) $(build)=. arch/$(SRCARCH)/include/asm/asm-offsets.h
