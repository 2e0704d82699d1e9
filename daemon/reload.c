/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reload.h"

#include <string.h>

#include "log.h"
#include "metrics-http.h"

static bool same_metrics(const struct config *a, const struct config *b)
{
    return a->metrics_port == b->metrics_port && !strcmp(a->metrics_address, b->metrics_address);
}

int reload_run(struct reload *r, struct config_change ret[CONFIG_KEYS], size_t *ret_n,
               struct err *err)
{
    struct config before = *r->conf, now;
    int e = config_load(r->path, &now, err);

    r->failed = e < 0;
    if (e < 0)
        return e;
    *ret_n = config_changes(&before, &now, ret);
    if (*ret_n) {
        *r->conf = now;
        engine_reconfigure(r->engine, &before);
        if (!same_metrics(&before, &now))
            metrics_http_listen(r->metrics);
    }
    return 0;
}

void reload_log(const struct reload *rl, int r, const struct config_change *changes, size_t n,
                const struct err *err)
{
    if (r < 0) {
        log_error("%s: the configuration stays as it was", err->text);
        return;
    }
    for (size_t i = 0; i < n; i++)
        log_notice("configuration: %s was %s, is now %s", changes[i].key, changes[i].from,
                   changes[i].to);
    log_notice("%s was read again: %zu key%s changed", rl->path, n, n == 1 ? " has" : "s have");
}
