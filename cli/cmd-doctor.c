/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "cmd.h"
#include "doctor.h"
#include "output.h"
#include "session.h"

#define TEXT_COLUMN 20
#define CLOCK_MS 200      /* over so long two clocks are compared */
#define CLOCK_PERMILLE 20 /* they may differ by so much */

/* A call whose failure is a finding, and no more; NULL if it fails. To be put. */
static struct json_object *ask(const char *method)
{
    struct json_object *reply = NULL, *params = NULL;
    struct client *client;

    if (client_open(client_socket_path(), SESSION_TIMEOUT_MS, &client, NULL) < 0)
        return NULL;
    if (client_call(client, method, NULL, SESSION_TIMEOUT_MS, &reply, NULL) == 0 &&
        wire_error_name(reply) == NULL)
        params = json_object_get(wire_params(reply));
    json_object_put(reply);
    client_close(client);
    return params;
}

/* The members called key of all replies; NULL if the call fails. */
static struct json_object *ask_list(const char *method, const char *key)
{
    struct json_object *list = wire_array(), *reply;
    struct client *client;
    bool more = true, good = true;

    if (client_open(client_socket_path(), SESSION_TIMEOUT_MS, &client, NULL) < 0) {
        json_object_put(list);
        return NULL;
    }
    good = client_send(client, method, NULL, true, NULL) == 0;
    while (good && more) {
        struct json_object *item;

        good = client_receive(client, SESSION_TIMEOUT_MS, &reply, NULL) == 0;
        if (!good)
            break;
        good = wire_error_name(reply) == NULL;
        item = wire_get_obj(wire_params(reply), key);
        if (item != NULL)
            json_object_array_add(list, json_object_get(item));
        more = wire_flag(reply, "continues");
        json_object_put(reply);
    }
    client_close(client);
    if (good)
        return list;
    json_object_put(list);
    return NULL;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * The lease runs by the hypervisor's clock, and is renewed by dom0's. A reading was made at some
 * time of its call, so the time between two readings has bounds.
 */
static void check_clocks(struct doctor *d, struct json_object *first, int64_t before_ms,
                         int64_t after_ms)
{
    int64_t again_ms, end_ms, least, most, passed;
    struct json_object *second;

    poll(NULL, 0, CLOCK_MS);
    again_ms = now_ms();
    second = ask(WIRE_INTERFACE ".GetHealth");
    end_ms = now_ms();
    if (second == NULL)
        return;
    passed = wire_get_int(second, "hypervisor_ms", 0) - wire_get_int(first, "hypervisor_ms", 0);
    json_object_put(second);
    least = (again_ms - after_ms) * (1000 - CLOCK_PERMILLE) / 1000 - 2;
    most = (end_ms - before_ms) * (1000 + CLOCK_PERMILLE) / 1000 + 2;
    if (passed < least || passed > most)
        doctor_say(d, DOCTOR_ERROR, "clock",
                   "set lease_s in /etc/scrubd/scrubd.conf to the maximum",
                   "%lld ms in Xen are %lld ms in dom0: the lease is not to be relied on",
                   (long long)passed, (long long)(end_ms - after_ms));
    else
        doctor_say(d, DOCTOR_OK, "clock", NULL, "that of Xen and that of dom0 agree");
}

static void examine_scrubd(struct doctor *d, struct doctor_scrubd *s)
{
    int64_t before_ms, after_ms;

    doctor_scrubd(d, s);
    before_ms = now_ms();
    s->health = ask(WIRE_INTERFACE ".GetHealth");
    after_ms = now_ms();
    s->protected = ask_list(WIRE_INTERFACE ".ListProtected", "protected");
    s->cpus = ask_list(WIRE_INTERFACE ".ListCpus", "cpu");
    doctor_settings(d, s);
    doctor_backlog(d, s);
    doctor_zombies(d, s);
    if (s->health != NULL)
        check_clocks(d, s->health, before_ms, after_ms);
}

static void examine(struct doctor *d)
{
    struct doctor_domains domains;
    struct doctor_scrubd s = {0};
    unsigned int dom0_vcpus = 0;

    doctor_host(d);
    doctor_domains_read(&domains);
    for (size_t i = 0; i < domains.n; i++) {
        if (domains.list[i].domid == 0)
            dom0_vcpus = domains.list[i].vcpus;
    }
    s.status = ask(WIRE_INTERFACE ".GetStatus");
    if (s.status != NULL)
        examine_scrubd(d, &s);
    else
        doctor_say(d, DOCTOR_ERROR, "scrubd", "systemctl start scrubd.socket",
                   "does not run, or does not answer");
    doctor_socket(d, client_socket_path());
    doctor_enabled(d);
    doctor_hook(d);
    doctor_kernel(d, dom0_vcpus);
    doctor_clocksource(d);
    doctor_dom0(d, &s, &domains);
    doctor_protected(d, &s, &domains);
    doctor_siblings(d, &s);
    doctor_domains_done(&domains);
    json_object_put(s.cpus);
    json_object_put(s.protected);
    json_object_put(s.health);
    json_object_put(s.status);
}

/* A finding and what mends it, on one line where that is wide enough. A command is never broken. */
static void print_finding(struct json_object *finding)
{
    const char *command = wire_get_str(finding, "command", NULL);
    size_t columns, lines, column;
    char mend[512];

    output_terminal(STDOUT_FILENO, &columns, &lines);
    printf("%-8s %-10s ", wire_get_str(finding, "severity", "?"),
           wire_get_str(finding, "check", "?"));
    column = output_wrapped(wire_get_str(finding, "text", ""), TEXT_COLUMN, TEXT_COLUMN, columns,
                            stdout);
    if (command != NULL) {
        output_clean(command, sizeof(mend) - 1, mend, sizeof(mend));
        if (column + 4 + output_width(mend) > columns)
            fputs("\n   ", stdout);
        printf(" -> %s", mend);
    }
    putchar('\n');
}

static enum exit_code run(const struct cmd_args *args)
{
    static const char *const worst[] = {"ok", "note", "warning", "error"};
    struct doctor d = {.findings = wire_array()};

    examine(&d);
    if (args->json) {
        struct json_object *document = wire_object();

        wire_add_str(document, "worst", worst[d.worst]);
        wire_add_obj(document, "findings", d.findings);
        output_json(document);
        json_object_put(document);
    } else {
        for (size_t i = 0; i < json_object_array_length(d.findings); i++)
            print_finding(json_object_array_get_idx(d.findings, i));
        json_object_put(d.findings);
    }
    return d.worst == DOCTOR_ERROR     ? EXIT_REFUSED
           : d.worst == DOCTOR_WARNING ? EXIT_WARNINGS
                                       : EXIT_OK;
}

const struct cmd cmd_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "what is wrong with this host, and what mends it",
    .details = "Checks the hypervisor, scrubd and its settings, dom0's kernel, clock and CPUs,\n"
               "protected domains, the hook, memory that stays dirty, and dead domains that\n"
               "stay. Each line is a finding: ok, note, warning or error, what was looked at,\n"
               "what was found, and after \"->\" what mends it. Changes nothing. Exits with 0 if\n"
               "there is no warning, 4 if there are, 1 if there is an error.\n",
    .run = run,
};
