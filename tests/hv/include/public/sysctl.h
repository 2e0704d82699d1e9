/* SPDX-License-Identifier: GPL-2.0-only */
#include "mock.h"
#include "scrub_ctl.h"
