/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "messages.h"

const char messages_interface[] =
    "# Tear down Xen domains without hurting their neighbours.\n"
    "interface org.scrubd\n"
    "\n"
    "# The teardown of one domain.\n"
    "type Job (\n"
    "  # of the job, counts from 1 since scrubd started\n"
    "  id: int,\n"
    "  domid: int,\n"
    "  uuid: string,\n"
    "  name: ?string,\n"
    "  # waiting: for the backlog to be scrubbed; scrubbing: dead, but not all of its pages are "
    "known to be clean\n"
    "  state: (queued, freeing, waiting, paused, scrubbing, clean),\n"
    "  # found dying, not asked for by a caller\n"
    "  adopted: bool,\n"
    "  # when the job began\n"
    "  pages_total: int,\n"
    "  pages_left: int,\n"
    "  steps: int,\n"
    "  # time of the steps on the CPU so far\n"
    "  hypervisor_us: int,\n"
    "  elapsed_ms: int,\n"
    "  # memory released per second, over the last seconds\n"
    "  rate_kib_s: int,\n"
    "  # until it is dead, by what was measured; absent while unknown\n"
    "  eta_ms: ?int,\n"
    "  # -10 to 10, higher first\n"
    "  priority: int,\n"
    "  # asked for, or because of its purpose\n"
    "  hurry: bool,\n"
    "  # how the domain shut down: poweroff, reboot, suspend, crash, watchdog, soft-reset; absent "
    "if "
    "it did not\n"
    "  purpose: ?string,\n"
    "  # until its deadline; until its pause ends by itself\n"
    "  deadline_ms: ?int,\n"
    "  paused_ms: ?int,\n"
    "  # where its time went: from the first sign of the end to the request; not in a step; in "
    "steps; "
    "since its death\n"
    "  toolstack_ms: ?int,\n"
    "  waiting_ms: int,\n"
    "  freeing_ms: int,\n"
    "  scrubbing_ms: ?int\n"
    ")\n"
    "\n"
    "# Scrubbing of a node: pages since the host booted, but for dirty_pages, which is now.\n"
    "type Node (\n"
    "  node: int,\n"
    "  ceiling_kib: int,\n"
    "  floor_kib: int,\n"
    "  dirty_pages: int,\n"
    "  dirtied: int,\n"
    "  idle: int,\n"
    "  alloc: int,\n"
    "  dropped: int,\n"
    "  floor: int,\n"
    "  throttled_ms: int\n"
    ")\n"
    "\n"
    "type Cpu (cpu: int, allowed: bool, scrubbed_pages: int)\n"
    "\n"
    "# A dead domain that something in the control domain holds on to.\n"
    "type Zombie (\n"
    "  domid: int,\n"
    "  uuid: string,\n"
    "  name: ?string,\n"
    "  # that it keeps\n"
    "  pages: int,\n"
    "  # since scrubd has seen it dead\n"
    "  dead_ms: int\n"
    ")\n"
    "\n"
    "type PlacedCpu (\n"
    "  cpu: int,\n"
    "  online: bool,\n"
    "  node: ?int,\n"
    "  socket: ?int,\n"
    "  core: ?int,\n"
    "  cpupool: ?int,\n"
    "  allowed: bool,\n"
    "  # free, everywhere (a protected domain may run on every CPU), node_needs_sibling, "
    "node_needs_soft, last (allowed for\n"
    "  # want of others), offline, hard, soft (which affinity), sibling; all, listed, not_listed "
    "if that was set\n"
    "  why: string,\n"
    "  domid: ?int,\n"
    "  uuid: ?string,\n"
    "  name: ?string,\n"
    "  sibling: ?int\n"
    ")\n"
    "\n"
    "# by: pin (no rule, it has CPUs of its own), name, uuid, pool, request (of Protect).\n"
    "type Protected (\n"
    "  by: (pin, name, uuid, pool, request),\n"
    "  rule: ?string,\n"
    "  domid: ?int,\n"
    "  uuid: ?string,\n"
    "  name: ?string,\n"
    "  cpus: ?string\n"
    ")\n"
    "\n"
    "type Status (\n"
    "  version: string,\n"
    "  # ready or degraded\n"
    "  state: string,\n"
    "  # of degraded, or what is wrong with the settings or xenstore\n"
    "  reason: ?string,\n"
    "  xen: string,\n"
    "  uptime_s: int,\n"
    "  jobs: int,\n"
    "  jobs_done: int,\n"
    "  # dirty pages above the baseline, and the baseline; absent when degraded\n"
    "  backlog_pages: ?int,\n"
    "  baseline_pages: ?int,\n"
    "  # CPUs that may scrub at present, like 0-3,6\n"
    "  mask: ?string,\n"
    "  nodes: []Node,\n"
    "  cpus: []Cpu,\n"
    "  zombies: []Zombie\n"
    ")\n"
    "\n"
    "method GetStatus() -> (\n"
    "  version: string,\n"
    "  state: string,\n"
    "  reason: ?string,\n"
    "  xen: string,\n"
    "  uptime_s: int,\n"
    "  jobs: int,\n"
    "  jobs_done: int,\n"
    "  backlog_pages: ?int,\n"
    "  baseline_pages: ?int,\n"
    "  mask: ?string,\n"
    "  nodes: []Node,\n"
    "  cpus: []Cpu,\n"
    "  zombies: []Zombie\n"
    ")\n"
    "\n"
    "# One reply a job (more). Without jobs a single one without a job.\n"
    "method ListJobs() -> (job: ?Job)\n"
    "\n"
    "# Tear a domain down; irrevocable. Replies (more): hello at once, then a heartbeat every "
    "second, at last dead, or decline:\n"
    "# scrubd does not want this one, the caller has to destroy it by itself. A second call for "
    "the same domain joins\n"
    "# the job; closing the connection does not end it. With uuid the domain must have this "
    "handle. deadline_ms: from\n"
    "# now, 1 to 86400000; reason in hello says if it cannot be met. wait_clean: after dead "
    "comes clean, when every page\n"
    "# is known to be scrubbed: each node was seen without a dirty page after the last one was "
    "freed.\n"
    "method Destroy(\n"
    "  domid: int,\n"
    "  uuid: ?string,\n"
    "  name: ?string,\n"
    "  priority: ?int,\n"
    "  deadline_ms: ?int,\n"
    "  wait_clean: ?bool\n"
    ") -> (\n"
    "  event: (hello, heartbeat, dead, clean, decline),\n"
    "  job: ?Job,\n"
    "  reason: ?string\n"
    ")\n"
    "\n"
    "# Hold a job; ends by itself after max_pause_s.\n"
    "method Pause(domid: int, uuid: ?string) -> (job: Job)\n"
    "method Resume(domid: int, uuid: ?string) -> (job: Job)\n"
    "\n"
    "# As fast as can be, or by a deadline; ends a pause. reason: why that cannot be met.\n"
    "method Hurry(domid: int, uuid: ?string, deadline_ms: ?int) -> (job: Job, reason: ?string)\n"
    "method SetPriority(domid: int, uuid: ?string, priority: int) -> (job: Job)\n"
    "\n"
    "# Wait (more) until so much memory is free, or until no teardown is under way and nothing "
    "awaits scrubbing, or both;\n"
    "# meanwhile all goes as fast as it can. Replies: waiting at once and every second, at last "
    "done, or timeout.\n"
    "method Wait(free_mib: ?int, clean: ?bool, timeout_ms: ?int) -> (\n"
    "  event: (waiting, done, timeout),\n"
    "  free_mib: int,\n"
    "  backlog_pages: int,\n"
    "  eta_ms: ?int\n"
    ")\n"
    "\n"
    "# To be asked before a domain is created. Replies (more): hello at once, with how long it may "
    "take, then a heartbeat every\n"
    "# second, at last go: memory is clean, or that time is over, or it is the domain (uuid) of a "
    "quick teardown that comes back.\n"
    "method AwaitMemory(uuid: ?string) -> (event: (hello, heartbeat, go), wait_ms: ?int)\n"
    "\n"
    "# Status and jobs every interval (more), default 250 ms, 50 to 60000.\n"
    "method Watch(interval_ms: ?int) -> (status: Status, jobs: []Job)\n"
    "\n"
    "# Until scrubd ends, or Reset. What is not given stays. ceiling_kib: per node and second, 0 = "
    "none; mask: a CPU list, all or auto.\n"
    "method SetLimit(ceiling_kib: ?int, mask: ?string) -> (ceiling_kib: int, mask: string)\n"
    "\n"
    "# One reply a CPU (more), as the host is now. Because of which domain it is allowed to scrub "
    "or not: domid, uuid, name;\n"
    "# sibling: the CPU of the domain that shares the core.\n"
    "method ListCpus() -> (cpu: PlacedCpu)\n"
    "\n"
    "# Keep a domain's CPUs clear (on), until scrubd ends, or Reset, or on is false. pattern: of "
    "names, uuid:UUID or pool:NAME;\n"
    "# domains: how many it protects at present.\n"
    "method Protect(domid: ?int, pattern: ?string, on: bool) -> (domains: int)\n"
    "\n"
    "# One reply a domain (more), and one for each rule that protects none; a single one without "
    "protected if there is nothing.\n"
    "method ListProtected() -> (protected: ?Protected)\n"
    "\n"
    "# Back to what the configuration file says.\n"
    "method Reset() -> ()\n"
    "\n"
    "# Read the configuration file again. One with a mistake changes nothing.\n"
    "type Change (key: string, from: string, to: string)\n"
    "method ReloadConfig() -> (changed: []Change)\n"
    "\n"
    "error NoSuchDomain (domid: int)\n"
    "error NoSuchJob (domid: int)\n"
    "error NotAllowed (domid: int, reason: string)\n"
    "error InvalidLimit (field: string, reason: string)\n"
    "# reason: file:line: what is wrong\n"
    "error InvalidConfig (reason: string)\n"
    "error Degraded (reason: string)\n"
    "error Refused (reason: string)\n"
    "error PermissionDenied ()\n";

const char messages_service[] =
    "interface org.varlink.service\n"
    "\n"
    "method GetInfo() -> (\n"
    "  vendor: string,\n"
    "  product: string,\n"
    "  version: string,\n"
    "  url: string,\n"
    "  interfaces: []string\n"
    ")\n"
    "\n"
    "method GetInterfaceDescription(interface: string) -> (description: string)\n"
    "\n"
    "error InterfaceNotFound (interface: string)\n"
    "error MethodNotFound (method: string)\n"
    "error MethodNotImplemented (method: string)\n"
    "error InvalidParameter (parameter: string)\n"
    "error PermissionDenied ()\n"
    "error ExpectedMore ()\n";

static int64_t ms_until(uint64_t then_us, uint64_t now_us)
{
    return then_us > now_us ? (int64_t)((then_us - now_us) / 1000) : 0;
}

struct json_object *messages_job(const struct job *job, uint64_t now_us, int64_t eta_us)
{
    struct json_object *o = wire_object();
    char uuid[IDENT_UUID_TEXT];

    wire_add_int(o, "id", (int64_t)job->id);
    wire_add_int(o, "domid", job->ident.domid);
    wire_add_str(o, "uuid", ident_uuid_text(&job->ident, uuid));
    wire_add_str_opt(o, "name", job->name[0] ? job->name : NULL);
    wire_add_str(o, "state", job_state_name(job->state));
    wire_add_bool(o, "adopted", job->adopted);
    wire_add_int(o, "pages_total", (int64_t)job->pages_total);
    wire_add_int(o, "pages_left", (int64_t)job->pages_left);
    wire_add_int(o, "steps", (int64_t)job->steps);
    wire_add_int(o, "hypervisor_us", (int64_t)job->cpu_us);
    wire_add_int(o, "elapsed_ms", (int64_t)((now_us - job->started_us) / 1000));
    wire_add_int(o, "rate_kib_s", (int64_t)job_rate_kib_s(job, now_us));
    wire_add_int_opt(o, "eta_ms", eta_us < 0 ? -1 : eta_us / 1000);
    wire_add_int(o, "priority", job->priority);
    wire_add_bool(o, "hurry", job->hurry || job->quick);
    wire_add_str_opt(o, "purpose", job->purpose);
    wire_add_int_opt(o, "deadline_ms", job->deadline_us ? ms_until(job->deadline_us, now_us) : -1);
    wire_add_int_opt(o, "paused_ms",
                     job->paused_until_us ? ms_until(job->paused_until_us, now_us) : -1);
    wire_add_int_opt(o, "toolstack_ms", job->toolstack_us < 0 ? -1 : job->toolstack_us / 1000);
    wire_add_int(o, "waiting_ms", (int64_t)(job_waiting_us(job, now_us) / 1000));
    wire_add_int(o, "freeing_ms", (int64_t)(job_freeing_us(job) / 1000));
    wire_add_int_opt(o, "scrubbing_ms",
                     job->dead_us ? (int64_t)(job_scrubbing_us(job, now_us) / 1000) : -1);
    return o;
}

static struct json_object *node(unsigned int number, const struct xen_node *n)
{
    struct json_object *o = wire_object();

    wire_add_int(o, "node", number);
    wire_add_int(o, "ceiling_kib", (int64_t)n->ceiling_kib);
    wire_add_int(o, "floor_kib", (int64_t)n->floor_kib);
    wire_add_int(o, "dirty_pages", (int64_t)n->dirty);
    wire_add_int(o, "dirtied", (int64_t)n->dirtied);
    wire_add_int(o, "idle", (int64_t)n->idle);
    wire_add_int(o, "alloc", (int64_t)n->alloc);
    wire_add_int(o, "dropped", (int64_t)n->dropped);
    wire_add_int(o, "floor", (int64_t)n->floor);
    wire_add_int(o, "throttled_ms", (int64_t)n->throttled_ms);
    return o;
}

/* Node ids may have holes: an id without memory that never had dirty pages tells nobody anything.
 */
static bool node_is_used(const struct status *s, unsigned int number)
{
    const struct xen_node *n = &s->scrub.nodes[number];

    return number == 0 || n->dirtied || n->dirty;
}

static void add_cpus(const struct status *s, struct json_object *cpus)
{
    for (unsigned int cpu = 0; s->scrub.cpu_scrubbed && cpu < s->scrub.n_cpus; cpu++) {
        uint64_t pages = s->scrub.cpu_scrubbed[cpu];
        struct json_object *o;

        if (!cpulist_has(&s->online, cpu) && !pages)
            continue;
        o = wire_object();
        wire_add_int(o, "cpu", cpu);
        wire_add_bool(o, "allowed", cpulist_has(&s->scrub.mask, cpu));
        wire_add_int(o, "scrubbed_pages", (int64_t)pages);
        json_object_array_add(cpus, o);
    }
}

static void add_zombies(const struct status *s, struct json_object *zombies)
{
    const struct registry_domain *d;
    char uuid[IDENT_UUID_TEXT];

    if (!s->registry)
        return;
    TAILQ_FOREACH (d, &s->registry->list, link) {
        struct json_object *o;

        if (!d->zombie)
            continue;
        o = wire_object();
        wire_add_int(o, "domid", d->ident.domid);
        wire_add_str(o, "uuid", ident_uuid_text(&d->ident, uuid));
        wire_add_str_opt(o, "name", d->name[0] ? d->name : NULL);
        wire_add_int(o, "pages", (int64_t)d->pages);
        wire_add_int(o, "dead_ms", (int64_t)((s->now_us - d->dead_us) / 1000));
        json_object_array_add(zombies, o);
    }
}

struct json_object *messages_status(const struct status *s)
{
    struct json_object *o = wire_object(), *nodes = wire_array(), *cpus = wire_array();
    struct json_object *zombies = wire_array();
    char mask[CPULIST_TEXT];

    wire_add_str(o, "version", SCRUBD_VERSION);
    wire_add_str(o, "state", s->degraded ? "degraded" : "ready");
    wire_add_str_opt(o, "reason", s->reason);
    wire_add_str(o, "xen", s->xen);
    wire_add_int(o, "uptime_s", (int64_t)(s->uptime_us / 1000000));
    wire_add_int(o, "jobs", s->jobs);
    wire_add_int(o, "jobs_done", (int64_t)s->jobs_done);
    if (s->has_scrub) {
        wire_add_int(o, "backlog_pages", (int64_t)s->backlog_pages);
        wire_add_int(o, "baseline_pages", (int64_t)s->baseline_pages);
        wire_add_str(o, "mask", cpulist_format(&s->scrub.mask, mask, sizeof(mask)));
        for (unsigned int i = 0; i < s->scrub.n_nodes; i++) {
            if (node_is_used(s, i))
                json_object_array_add(nodes, node(i, &s->scrub.nodes[i]));
        }
        add_cpus(s, cpus);
    }
    wire_add_obj(o, "nodes", nodes);
    wire_add_obj(o, "cpus", cpus);
    add_zombies(s, zombies);
    wire_add_obj(o, "zombies", zombies);
    return o;
}
