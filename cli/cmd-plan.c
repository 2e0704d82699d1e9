/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "domain.h"
#include "output.h"
#include "session.h"

static void print_steps(struct json_object *plan)
{
    long long steps = wire_get_int(plan, "steps", 0), before = wire_get_int(plan, "jobs_before", 0),
              duty = wire_get_int(plan, "duty_percent", 0);
    int64_t clean_ms = wire_get_int(plan, "clean_ms", -1);
    char text[OUTPUT_TEXT], rate[OUTPUT_TEXT], scrub[OUTPUT_TEXT];

    output_say("  steps      %lld of %.4g ms, %s in the hypervisor, %lld%% of a CPU%s", steps,
               (double)wire_get_int(plan, "step_us", 0) / 1000,
               output_duration(wire_get_int(plan, "hypervisor_ms", 0), text), duty,
               wire_get_bool(plan, "quick", false) ? ": no pauses" : "");
    output_say("  dead       after %s%s", output_duration(wire_get_int(plan, "dead_ms", -1), text),
               wire_get_bool(plan, "held", false) ? ", the scrubber decides" : "");
    if (before > 0)
        output_say("  before it  %lld other%s, which it takes turns with", before,
                   before == 1 ? "" : "s");
    output_say("  memory     %s, back at %s on average",
               output_pages(wire_get_int(plan, "pages", -1), text),
               output_rate(wire_get_int(plan, "rate_kib_s", -1), rate));
    if (clean_ms >= 0)
        output_say("  clean      after %s, scrubbed at %s", output_duration(clean_ms, text),
                   output_rate(wire_get_int(plan, "scrub_kib_s", -1), scrub));
    else
        output_say("  clean      not known: scrubbing was not measured yet");
    output_say("  scrubbing  on CPUs %s", wire_get_str(plan, "mask", "?"));
    if (!wire_get_bool(plan, "measured", false))
        output_say("No teardown was measured yet: these are figures of a slow host.");
}

static void print_plan(struct json_object *plan, const struct domain *domain)
{
    const char *way = wire_get_str(plan, "way", ""), *purpose = wire_get_str(plan, "purpose", NULL);
    int64_t dead_ms = wire_get_int(plan, "dead_ms", -1);
    char label[DOMAIN_NAME_SIZE + 32], shown[128], what[200], text[OUTPUT_TEXT];

    output_clean(domain_label(domain, label, sizeof(label)), 40, shown, sizeof(shown));
    snprintf(what, sizeof(what), "%s%s%s%s", shown, purpose != NULL ? " (" : "",
             purpose != NULL ? purpose : "", purpose != NULL ? ")" : "");
    if (strcmp(way, "steps") == 0) {
        output_say("%s: scrubd would tear it down in steps", what);
        print_steps(plan);
    } else if (strcmp(way, "running") == 0) {
        output_say("%s: is being torn down%s%s", what, dead_ms >= 0 ? ", dead in " : "",
                   dead_ms >= 0 ? output_duration(dead_ms, text) : "");
    } else {
        output_say("%s: left to its caller, in one go:", what);
        output_say("%s", wire_get_str(plan, "reason", "?"));
    }
}

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *params, *reply, *plan;
    struct domain domain;
    enum exit_code code;
    struct xen xen;

    code = xen_open(args, &xen);
    if (code != EXIT_OK)
        return code;
    code = domain_find(args, xen.ctx, args->operands[0], &domain);
    xen_close(&xen);
    if (code != EXIT_OK)
        return code;
    params = wire_object();
    wire_add_int(params, "domid", domain.domid);
    code = session_call(args, WIRE_INTERFACE ".Plan", params, &reply);
    if (code != EXIT_OK)
        return code;
    plan = wire_get_obj(wire_params(reply), "plan");
    if (args->json)
        output_json(wire_params(reply));
    else
        print_plan(plan, &domain);
    json_object_put(reply);
    return EXIT_OK;
}

const struct cmd cmd_plan = {
    .name = "plan",
    .operands = "DOMAIN",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "@domains",
    .summary = "what a destroy would be like, without it",
    .details = "Shows how scrubd would tear the domain down if that were asked for now: in how\n"
               "many steps, how long it would take until it is dead and until its memory is\n"
               "clean, and how fast memory would come back, by what was measured of teardowns\n"
               "since scrubd started. Nothing is done.\n",
    .run = run,
};
