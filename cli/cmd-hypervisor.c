/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "cmd.h"
#include "hypervisor.h"
#include "output.h"

#define STATE_DIR "/var/lib/scrubd"
#define ASK_MS 5000
#define FINISH_MS 60000 /* teardowns under way have so long before the patch goes */

struct work {
    const struct cmd_args *args;
    struct hypervisor hv;
    struct json_object *steps;
};

__attribute__((format(printf, 2, 3))) static void step(struct work *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_object_array_add(w->steps, json_object_new_string(text));
    if (w->args->json)
        return;
    puts(text);
    fflush(stdout);
}

static const char *state_of(const struct hypervisor *h)
{
    return h->payload == HYPERVISOR_APPLIED ? "live-patched" : h->patched ? "patched" : "stock";
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Ask scrubd, if it is there. NULL: it is not, or does not answer, which *ret_err tells. */
static struct json_object *ask(const char *method, struct json_object *params, struct err *ret_err)
{
    struct json_object *reply = NULL;
    struct client *client;

    if (client_open(client_socket_path(), ASK_MS, &client, ret_err) < 0) {
        json_object_put(params);
        return NULL;
    }
    if (client_call(client, method, params, ASK_MS, &reply, ret_err) < 0)
        reply = NULL;
    client_close(client);
    return reply;
}

/* Have scrubd look: it would by itself, but later. */
static void tell_scrubd(struct work *w)
{
    struct err err = {0};
    struct json_object *reply = ask(WIRE_INTERFACE ".Probe", NULL, &err);

    if (reply == NULL)
        step(w, "scrubd was not told, it notices by itself: %s", err.text);
    else if (wire_error_name(reply) != NULL)
        step(w, "scrubd was not told, is it another version? %s", wire_error_name(reply));
    else
        step(w, "scrubd is %s now", wire_get_str(wire_params(reply), "state", "?"));
    json_object_put(reply);
}

static struct json_object *now_param(bool now)
{
    struct json_object *o = wire_object();

    wire_add_bool(o, "now", now);
    return o;
}

/* Before the patch goes: scrubd finishes what is under way, and uses it no longer. */
static void have_let_go(struct work *w)
{
    int64_t end_ms = now_ms() + FINISH_MS, jobs = 1;
    struct timespec pause = {0, 50000000};
    struct err err = {0};

    while (jobs > 0) {
        bool now = now_ms() > end_ms;
        struct json_object *reply = ask(WIRE_INTERFACE ".LetGo", now_param(now), &err);

        if (reply == NULL || wire_error_name(reply) != NULL) {
            step(w, "scrubd was not told: %s", reply == NULL ? err.text : wire_error_name(reply));
            json_object_put(reply);
            return;
        }
        jobs = wire_get_int(wire_params(reply), "jobs", 0);
        json_object_put(reply);
        if (now)
            break;
        if (jobs > 0)
            nanosleep(&pause, NULL);
    }
    step(w, "scrubd has let go: scrubbing is as on stock Xen");
    if (jobs > 0)
        step(w, "%lld teardowns are left to their callers; see scrubctl list", (long long)jobs);
}

static enum exit_code refuse(struct work *w, const struct err *err)
{
    return cmd_fail_after(w->args, w->steps, "%s", err->text);
}

/* Nothing is left half done because somebody pressed ^C. */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static enum exit_code put_in(struct work *w, const struct payload *p)
{
    struct err err = {0}, ignored = {0};
    int64_t start_ms;

    if (hypervisor_upload(&w->hv, p, &err) < 0)
        return refuse(w, &err);
    step(w, "uploaded");
    start_ms = now_ms();
    if (hypervisor_apply(&w->hv, &err) < 0) {
        if (hypervisor_unload(&w->hv, &ignored) == 0)
            step(w, "not applied: unloaded again");
        return refuse(w, &err);
    }
    step(w, "applied, in %lld ms", (long long)(now_ms() - start_ms));
    w->hv.payload = HYPERVISOR_APPLIED;
    tell_scrubd(w);
    return EXIT_OK;
}

static enum exit_code load(struct work *w, const char *file)
{
    char path[sizeof(STATE_DIR) + PAYLOAD_ID_TEXT + 16];
    enum exit_code code;
    struct payload p;
    struct err err = {0};
    int r;

    if (w->hv.payload == HYPERVISOR_APPLIED) {
        step(w, "the live patch is loaded already");
        return EXIT_OK;
    }
    if (w->hv.patched)
        return cmd_fail_after(w->args, w->steps,
                              "this hypervisor has the patch already, not by our live patch");
    if (w->hv.payload == HYPERVISOR_NO_LIVEPATCH || w->hv.id[0] == '\0')
        return cmd_fail_after(w->args, w->steps,
                              "this Xen cannot be patched while it runs: it was built without %s",
                              w->hv.id[0] == '\0' ? "a build-id" : "CONFIG_LIVEPATCH");
    snprintf(path, sizeof(path), STATE_DIR "/%s.livepatch", w->hv.id);
    r = payload_read(file != NULL ? file : path, &p, &err);
    if (r == -ENOENT && file == NULL)
        return cmd_fail_after(w->args, w->steps,
                              "there is no live patch for the hypervisor that runs: %s is missing; "
                              "hv-patch/livepatch/build makes it",
                              path);
    if (r < 0)
        return refuse(w, &err);
    step(w, "read %s, %u bytes", file != NULL ? file : path, p.size);
    if (strcmp(p.xen_id, w->hv.id) != 0) {
        code = cmd_fail_after(w->args, w->steps,
                              "the payload is for another hypervisor: of build-id %s, but %s runs",
                              p.xen_id, w->hv.id);
    } else {
        step(w, "checked, it is for the hypervisor that runs: build-id %s", w->hv.id);
        block_signals();
        if (w->hv.payload == HYPERVISOR_UPLOADED && hypervisor_unload(&w->hv, &err) < 0)
            code = refuse(w, &err);
        else
            code = put_in(w, &p);
    }
    free(p.data);
    return code;
}

static enum exit_code unload(struct work *w)
{
    struct err err = {0};

    if (w->hv.payload == HYPERVISOR_NO_PAYLOAD || w->hv.payload == HYPERVISOR_NO_LIVEPATCH) {
        step(w, "there is no live patch of scrubd in the hypervisor");
        return EXIT_OK;
    }
    block_signals();
    if (w->hv.payload == HYPERVISOR_APPLIED) {
        have_let_go(w);
        if (hypervisor_revert(&w->hv, &err) < 0) {
            tell_scrubd(w);
            return refuse(w, &err);
        }
        step(w, "reverted");
        w->hv.payload = HYPERVISOR_UPLOADED;
        w->hv.patched = false;
        tell_scrubd(w);
    }
    if (hypervisor_unload(&w->hv, &err) < 0)
        return refuse(w, &err);
    step(w, "unloaded");
    return EXIT_OK;
}

static enum exit_code status(struct work *w)
{
    static const char *const payloads[] = {"none", "uploaded, not applied", "applied",
                                           "not possible: built without CONFIG_LIVEPATCH"};

    if (w->args->json) {
        struct json_object *o = wire_object();

        wire_add_str(o, "state", state_of(&w->hv));
        wire_add_str(o, "payload", payloads[w->hv.payload]);
        wire_add_str_opt(o, "build_id", w->hv.id[0] != '\0' ? w->hv.id : NULL);
        output_json(o);
        json_object_put(o);
        return EXIT_OK;
    }
    printf("hypervisor  %s\nlive patch  %s\nbuild-id    %s\n", state_of(&w->hv),
           payloads[w->hv.payload], w->hv.id[0] != '\0' ? w->hv.id : "none");
    return EXIT_OK;
}

static enum exit_code run(const struct cmd_args *args)
{
    const char *verb = args->operands[0], *file = args->n_operands > 1 ? args->operands[1] : NULL;
    struct work w = {.args = args, .steps = json_object_new_array()};
    bool loads = strcmp(verb, "load") == 0, shows = strcmp(verb, "status") == 0;
    enum exit_code code = EXIT_USAGE;
    struct err err = {0};

    if (!loads && !shows && strcmp(verb, "unload") != 0)
        code = cmd_fail(args, EXIT_USAGE, NULL, "hypervisor: not \"%s\": status, load or unload",
                        verb);
    else if (file != NULL && !loads)
        code = cmd_fail(args, EXIT_USAGE, NULL, "hypervisor %s takes no file", verb);
    else if (hypervisor_open(&w.hv, &err) < 0)
        code = refuse(&w, &err);
    else {
        code = shows ? status(&w) : loads ? load(&w, file) : unload(&w);
        if (args->json && !shows && code == EXIT_OK) {
            struct json_object *o = wire_object();

            wire_add_str(o, "state", state_of(&w.hv));
            wire_add_obj(o, "steps", json_object_get(w.steps));
            output_json(o);
            json_object_put(o);
        }
        hypervisor_close(&w.hv);
    }
    json_object_put(w.steps);
    return code;
}

const struct cmd cmd_hypervisor = {
    .name = "hypervisor",
    .operands = "status|load [FILE]|unload",
    .min_operands = 1,
    .max_operands = 2,
    .completes = "status load unload",
    .summary = "patch the hypervisor while it runs",
    .details = "status: whether it has the patch, and its build-id. load: apply the live patch\n"
               "in FILE, or in " STATE_DIR "/BUILD-ID.livepatch; one for another\n"
               "hypervisor is refused. unload: take it out again, after scrubd has let go.\n"
               "How a live patch is made: hv-patch/livepatch/README.md.\n",
    .run = run,
};
