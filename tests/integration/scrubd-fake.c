/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scrubd, all of it, on the fake host. */
#include "fake-host.h"
#include "scrubd.h"

int main(int argc, char **argv)
{
    return scrubd_main(argc, argv, fake_open_env);
}
