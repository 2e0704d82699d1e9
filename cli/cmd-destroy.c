/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libxl.h>

#include "cmd.h"
#include "domain.h"
#include "interpose.h"
#include "options.h"
#include "output.h"
#include "session.h"

/* What the progress line needs; lives in libxl's child too. */
struct progress {
    char label[DOMAIN_NAME_SIZE + 32];
    bool unicode;
};

/* For the handler of SIGINT. */
static struct interpose *interrupted;
static pid_t main_pid;

static void draw_progress(void *ctx, const char *json)
{
    const struct progress *progress = ctx;
    struct json_object *reply = NULL, *job;
    char bar[512], line[1024], left[OUTPUT_TEXT], rate[OUTPUT_TEXT], eta[OUTPUT_TEXT];
    size_t columns, lines, bar_columns;
    int64_t total;

    if (wire_parse(json, strlen(json), &reply, NULL) < 0)
        return;
    job = wire_get_obj(wire_params(reply), "job");
    total = wire_get_int(job, "pages_total", 0);
    if (job != NULL && total > 0) {
        double done = 1 - (double)wire_get_int(job, "pages_left", 0) / (double)total;
        bool known = wire_get_int(job, "eta_ms", -1) >= 0;

        output_terminal(STDERR_FILENO, &columns, &lines);
        bar_columns = columns > 75 ? columns - 50 < 40 ? columns - 50 : 40 : 10;
        snprintf(line, sizeof(line), "%s %3d%% %s, %s left, %s%s%s",
                 output_bar(done, bar_columns, progress->unicode, bar, sizeof(bar)),
                 (int)(done * 100), wire_get_str(job, "state", "?"),
                 output_pages(wire_get_int(job, "pages_left", 0), left),
                 output_rate(wire_get_int(job, "rate_kib_s", 0), rate), known ? ", " : "",
                 known ? output_duration(wire_get_int(job, "eta_ms", 0), eta) : "");
        output_clean(line, columns - 1, bar, sizeof(bar));
        dprintf(STDERR_FILENO, "\r%s\033[K", bar);
    }
    json_object_put(reply);
}

/* The job goes on without us, which is worth knowing. */
static void on_interrupt(int sig)
{
    static const char text[] = "\nscrubd goes on destroying the domain; see scrubctl list\n";

    if (interrupted != NULL && getpid() == main_pid && interrupted->begun && !interrupted->done)
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Unless whoever started us wants it ignored. */
static void catch_signal(int sig)
{
    struct sigaction action;

    if (sigaction(sig, NULL, &action) < 0 || action.sa_handler == SIG_IGN)
        return;
    action = (struct sigaction){.sa_handler = on_interrupt};
    sigaction(sig, &action, NULL);
}

static int destroy(libxl_ctx *ctx, uint32_t domid, struct interpose *ip)
{
    int rc;

    main_pid = getpid();
    interrupted = ip;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    rc = libxl_domain_destroy(ctx, domid, NULL);
    return rc;
}

/* "NoSuchDomain" of "org.scrubd.NoSuchDomain". */
static const char *last_part(const char *name)
{
    const char *dot = name != NULL ? strrchr(name, '.') : NULL;

    return dot != NULL ? dot + 1 : name;
}

/* Why scrubd did not do it, NULL if it did. reply is the last one, or NULL. */
static const char *why_not_scrubd(const struct interpose *ip, struct json_object *reply, char *buf,
                                  size_t size)
{
    const char *reason = wire_get_str(wire_params(reply), "reason", NULL);

    if (!ip->done)
        return "libxl did not ask it";
    switch (ip->verdict) {
    case SCRUBHOOK_DEAD:
        return NULL;
    case SCRUBHOOK_ABSENT:
        if (ip->verdict_errno == ENOENT || ip->verdict_errno == ECONNREFUSED)
            return "scrubd is not running";
        snprintf(buf, size, "%s: %s", ip->verdict_text, strerror(ip->verdict_errno));
        return buf;
    case SCRUBHOOK_DECLINED:
    case SCRUBHOOK_REFUSED:
        if (reason == NULL)
            reason = last_part(wire_error_name(reply));
        snprintf(buf, size, "%s%s%s", ip->verdict_text, reason != NULL ? ": " : "",
                 reason != NULL ? reason : "");
        return buf;
    default:
        return ip->verdict_text;
    }
}

static void report_json(const struct domain *domain, const char *why, struct json_object *job)
{
    struct json_object *document = wire_object();

    wire_add_int(document, "domid", domain->domid);
    wire_add_str_opt(document, "name", domain->name[0] != '\0' ? domain->name : NULL);
    wire_add_bool(document, "destroyed", true);
    wire_add_str(document, "by", why == NULL ? "scrubd" : "libxl");
    wire_add_str_opt(document, "reason", why);
    if (why == NULL && job != NULL)
        wire_add_obj(document, "job", json_object_get(job));
    output_json(document);
    json_object_put(document);
}

/* What scrubd said when it began, about a deadline that cannot be met. */
static void report_note(const struct interpose *ip)
{
    struct json_object *reply = NULL, *params;
    const char *reason;

    if (wire_parse(ip->first, strlen(ip->first), &reply, NULL) < 0)
        return;
    params = wire_params(reply);
    reason = wire_get_str(params, "reason", NULL);
    if (reason != NULL && strcmp(wire_get_str(params, "event", ""), "hello") == 0)
        fprintf(stderr, "scrubctl: %s\n", reason);
    json_object_put(reply);
}

static void report(const struct cmd_args *args, const struct domain *domain,
                   const struct interpose *ip)
{
    struct json_object *reply = NULL, *job;
    char label[DOMAIN_NAME_SIZE + 32], buf[512], pages[OUTPUT_TEXT], took[OUTPUT_TEXT];
    const char *why;

    if (ip->reply[0] != '\0')
        wire_parse(ip->reply, strlen(ip->reply), &reply, NULL);
    job = wire_get_obj(wire_params(reply), "job");
    why = why_not_scrubd(ip, reply, buf, sizeof(buf));
    domain_label(domain, label, sizeof(label));
    report_note(ip);
    if (why != NULL)
        fprintf(stderr, "scrubctl: %s. The domain was destroyed at full speed.\n", why);
    if (args->json)
        report_json(domain, why, job);
    else if (why == NULL && job != NULL)
        output_say("destroyed %s: %s in %s", label,
                   output_pages(wire_get_int(job, "pages_total", 0), pages),
                   output_duration(wire_get_int(job, "elapsed_ms", 0), took));
    else
        output_say("destroyed %s", label);
    json_object_put(reply);
}

/* What the options say, as parameters of the request. */
static enum exit_code parse_options(const struct cmd_args *args, char *params, size_t size)
{
    int64_t priority = 0;
    uint64_t ms = 0;
    enum exit_code code = option_ms(args, 0, &ms);
    int len = 0;

    if (code == EXIT_OK && args->option[1] != NULL)
        code = option_priority(args, "--priority", args->option[1], &priority);
    if (code != EXIT_OK)
        return code;
    *params = '\0';
    if (ms > 0)
        len = snprintf(params, size, ",\"deadline_ms\":%llu", (unsigned long long)ms);
    if (args->option[1] != NULL)
        snprintf(params + len, size - (size_t)len, ",\"priority\":%lld", (long long)priority);
    return EXIT_OK;
}

/*
 * Wait until the memory of a domain that is dead now is known to be clean: a second destroy joins
 * its job, if there still is one.
 */
static enum exit_code await_clean(const struct cmd_args *args, const struct interpose *ip)
{
    struct json_object *reply = NULL, *job, *params;
    enum exit_code code = EXIT_OK;
    struct client *client;
    struct err err = {0};
    bool more = true;

    wire_parse(ip->reply, strlen(ip->reply), &reply, NULL);
    job = wire_get_obj(wire_params(reply), "job");
    if (ip->verdict != SCRUBHOOK_DEAD || job == NULL) {
        json_object_put(reply);
        return cmd_fail(args, EXIT_REFUSED, NULL,
                        "when its memory is clean is not known: scrubd did not destroy it");
    }
    params = wire_object();
    wire_add_int(params, "domid", wire_get_int(job, "domid", 0));
    wire_add_str(params, "uuid", wire_get_str(job, "uuid", ""));
    wire_add_bool(params, "wait_clean", true);
    json_object_put(reply);
    code = session_open(args, &client);
    if (code != EXIT_OK) {
        json_object_put(params);
        return code;
    }
    if (client_send(client, WIRE_INTERFACE ".Destroy", params, true, &err) < 0)
        code = session_fail(args, &err);
    while (code == EXIT_OK && more) {
        if (client_receive(client, SESSION_TIMEOUT_MS, &reply, &err) < 0) {
            code = session_fail(args, &err);
            break;
        }
        more = wire_flag(reply, "continues");
        if (strcmp(wire_error_name(reply) != NULL ? wire_error_name(reply) : "",
                   WIRE_INTERFACE ".NoSuchDomain") != 0) /* else it is clean already */
            code = session_check(args, reply);
        json_object_put(reply);
    }
    client_close(client);
    return code;
}

static enum exit_code run_with(const struct cmd_args *args, libxl_ctx *ctx, const char *params)
{
    struct progress progress = {.unicode = output_unicode()};
    struct interpose *ip;
    struct domain domain;
    enum exit_code code = domain_find(args, ctx, args->operands[0], &domain);
    int rc;

    if (code != EXIT_OK)
        return code;
    ip = interpose_begin();
    if (ip == NULL)
        return cmd_fail(args, EXIT_REFUSED, NULL, "out of memory");
    snprintf(ip->params, sizeof(ip->params), "%s", params);
    domain_label(&domain, progress.label, sizeof(progress.label));
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "destroying %s\n", progress.label);
        ip->on_reply = draw_progress;
        ip->ctx = &progress;
    }
    fflush(stdout);
    rc = destroy(ctx, domain.domid, ip);
    if (ip->on_reply != NULL)
        fputs("\r\033[K", stderr);
    if (rc == 0)
        report(args, &domain, ip);
    if (rc == 0 && args->option[2] != NULL)
        code = await_clean(args, ip);
    else if (rc == 0)
        code = EXIT_OK;
    else if (rc == ERROR_DOMAIN_NOTFOUND)
        code = cmd_fail(args, EXIT_REFUSED, "NoSuchDomain", "%s is gone already", progress.label);
    else
        code = cmd_fail(args, EXIT_REFUSED, NULL, "cannot destroy %s: libxl error %d",
                        progress.label, rc);
    interrupted = NULL;
    interpose_end(ip);
    return code;
}

static enum exit_code run(const struct cmd_args *args)
{
    char params[96];
    struct xen xen;
    enum exit_code code = parse_options(args, params, sizeof(params));

    if (code == EXIT_OK)
        code = xen_open(args, &xen);
    if (code != EXIT_OK)
        return code;
    code = run_with(args, xen.ctx, params);
    xen_close(&xen);
    return code;
}

const struct cmd cmd_destroy = {
    .name = "destroy",
    .operands = "DOMAIN",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "@domains",
    .summary = "destroy a domain, its memory in small steps",
    .details = "DOMAIN is a name, a domid or a uuid. Does what `xl destroy` does, and hands the\n"
               "domain's memory to scrubd. Ends when the domain is dead. If scrubd does not run\n"
               "or cannot do it, the domain is destroyed all the same, and a message says so.\n"
               "There is no way back, and interrupting scrubctl does not save the domain.\n",
    .options = {{"deadline", "TIME", "be done in so much time, as in 30s or 2m, comfort or not"},
                {"priority", "NUMBER", "-10 to 10, before others that are lower; 0 if not given"},
                {"clean", NULL, "end when the memory is known to be scrubbed, too"}},
    .run = run,
};
