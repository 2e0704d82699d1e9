/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "sizes.h"

static enum exit_code parse(const struct cmd_args *args, int option, uint64_t *ret,
                            int (*by)(const char *text, uint64_t *ret, struct err *err))
{
    struct err err = {0};

    if (args->option[option] == NULL || by(args->option[option], ret, &err) == 0)
        return EXIT_OK;
    return cmd_fail(args, EXIT_USAGE, NULL, "--%s: %s", args->cmd->options[option].name, err.text);
}

enum exit_code option_ms(const struct cmd_args *args, int option, uint64_t *ret_ms)
{
    return parse(args, option, ret_ms, sizes_parse_ms);
}

enum exit_code option_kib(const struct cmd_args *args, int option, uint64_t *ret_kib)
{
    return parse(args, option, ret_kib, sizes_parse_kib);
}

enum exit_code option_priority(const struct cmd_args *args, const char *what, const char *text,
                               int64_t *ret)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || number < -10 || number > 10)
        return cmd_fail(args, EXIT_USAGE, NULL, "%s: not a number from -10 to 10", what);
    *ret = number;
    return EXIT_OK;
}

bool option_is_domid(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}
