/* SPDX-License-Identifier: GPL-2.0-only */
/* What the series installs, made from it at build time. */
#include "xen-scrub_ctl.h"
