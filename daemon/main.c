/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scrubd.h"

int main(int argc, char **argv)
{
    return scrubd_main(argc, argv, xen_real_open);
}
