/* SPDX-License-Identifier: GPL-2.0-only */
#include "heap.h"

#define BUDDY 512 /* pages */
#define TURN 32   /* pages */

struct heap heap;

void heap_init(unsigned int nodes, unsigned int cpus_per_node)
{
    heap_done();
    host_init(nodes, cpus_per_node);
    heap.page_ns = 1000;
}

void heap_done(void)
{
    for (unsigned int i = 0; i < MAX_NUMNODES; i++)
        free(heap.node[i].events);
    memset(&heap, 0, sizeof(heap));
}

void heap_free(nodeid_t node, uint64_t pages)
{
    heap.node[node].dirty += pages;
    heap.node[node].dirtied += pages;
}

/* scrub_ctl_count() nests in heap_lock. */
static void count(nodeid_t node, enum scrub_kind kind, unsigned int pages)
{
    struct heap_node *n = &heap.node[node];

    assert_true(pages <= n->dirty);
    assert_int_equal(host.locks_held, 0);
    n->dirty -= pages;
    scrub_ctl_count(node, kind, pages, n->dirty);
    assert_int_equal(host.locks_held, 0);
}

void heap_alloc(nodeid_t node, uint64_t pages, bool no_scrub)
{
    count(node, no_scrub ? SCRUB_DROPPED : SCRUB_ALLOC, pages);
}

void heap_scrubbed(nodeid_t node, uint64_t pages)
{
    struct heap_node *n = &heap.node[node];

    if (!pages)
        return;
    heap.by_cpu[host.current] += pages;
    heap.on_node[host.current][node] += pages;
    if (heap.log) {
        if (!(n->nr_events & (n->nr_events - 1)))
            n->events =
                realloc(n->events, (n->nr_events ? n->nr_events * 2 : 1) * sizeof(*n->events));
        n->events[n->nr_events++] = (struct heap_event){host.cpu[host.current].clock, pages};
    }
    count(node, SCRUB_IDLE, pages);
}

uint64_t heap_most_in(nodeid_t node, s_time_t window)
{
    const struct heap_node *n = &heap.node[node];
    uint64_t sum = 0, most = 0;

    for (size_t first = 0, i = 0; i < n->nr_events; i++) {
        sum += n->events[i].pages;
        while (n->events[i].time - n->events[first].time >= window)
            sum -= n->events[first++].pages;
        most = max(most, sum);
    }
    return most;
}

unsigned long heap_dirty(nodeid_t node, bool *scrubbing)
{
    *scrubbing = heap.node[node].scrubbing;
    return heap.node[node].dirty;
}

/* Takes heap_lock, which is never taken inside of the other. */
void heap_read_scrub(nodeid_t node, struct xen_scrub_node *info)
{
    assert_int_equal(host.locks_held, 0);
    scrub_ctl_read(node, heap.node[node].dirty, info);
}

static bool grab(nodeid_t node)
{
    bool was = heap.node[node].scrubbing;

    heap.node[node].scrubbing = true;
    return !was;
}

static nodeid_t node_to_scrub(bool get_node)
{
    nodeid_t node = cpu_to_node(host.current), local, closest = NUMA_NO_NODE;
    uint8_t dist, shortest = 0xff;

    if (node == NUMA_NO_NODE)
        node = 0;
    if (scrub_ctl_may(node, heap.node[node].dirty) && (!get_node || grab(node)))
        return node;

    local = node;
    for (;;) {
        do {
            unsigned int next = mask_next(node, node_online_map.bits, MAX_NUMNODES);

            node = next < MAX_NUMNODES ? next : mask_next(-1, node_online_map.bits, MAX_NUMNODES);
        } while ((!scrub_ctl_active ? !cpumask_empty(&node_to_cpumask(node))
                                    : scrub_ctl_node_served(node)) &&
                 node != local);
        if (node == local)
            break;
        if (!scrub_ctl_may(node, heap.node[node].dirty))
            continue;
        if (!get_node)
            return node;
        dist = __node_distance(local, node);
        if ((dist < shortest || closest == NUMA_NO_NODE) && grab(node)) {
            if (closest != NUMA_NO_NODE)
                heap.node[closest].scrubbing = false;
            shortest = dist;
            closest = node;
        }
    }
    return closest;
}

/*
 * An idle CPU gets so far in one turn and no farther, so that it does not run ahead of the others;
 * its next turn is the same call. What the caller of the real one hears is "more to do".
 */
bool scrub_free_pages(void)
{
    struct host_cpu *c = &host.cpu[host.current];
    struct heap_run *run = &heap.run[host.current];
    bool preempt = false, turn_over = false;
    unsigned int turn = 0;

    if (!c->in_run) {
        heap.calls++;
        if (scrub_ctl_active && scrub_ctl_denied(host.current))
            return false;
        run->node = node_to_scrub(true);
        if (run->node == NUMA_NO_NODE)
            return false;
        run->budget = scrub_ctl_may(run->node, heap.node[run->node].dirty);
        run->cnt = 0;
    }
    c->in_run = false;

    while (run->budget && !preempt && !turn_over && heap.node[run->node].dirty) {
        uint64_t done = 0, buddy = min_t(uint64_t, heap.node[run->node].dirty, BUDDY);

        while (done < buddy && !preempt && !turn_over) {
            c->clock += heap.page_ns;
            done++;
            run->budget--;
            run->cnt += 100;
            preempt = !cpu_online(host.current) || scrub_ctl_over(host.current, run->budget) ||
                      (run->cnt > 800 && host_softirq_pending());
            turn_over = ++turn >= TURN && !host.in_tasklet;
        }
        heap_scrubbed(run->node, done);
    }
    if (run->budget && !preempt && heap.node[run->node].dirty) {
        c->in_run = true;
        return true;
    }
    heap.node[run->node].scrubbing = false;
    return node_to_scrub(false) != NUMA_NO_NODE;
}

/* The callers' side. Buffers are of the exact size, for sanitizers to watch. */

int ctl_set(const struct settings *s)
{
    unsigned int nodes = last_node(node_online_map) + 1, bytes = (nr_cpu_ids + 7) / 8;
    struct xen_scrub_node *rates = calloc(nodes, sizeof(*rates));
    uint8_t *mask = malloc(bytes);
    struct xen_sysctl_scrub_control op = {
        .version = XEN_SCRUB_CTL_VERSION,
        .op = XEN_SCRUB_SET,
        .lease_ms = s->lease_ms,
        .nr_nodes = nodes,
        .mask = {{mask}, nr_cpu_ids},
        .nodes = {rates},
    };
    uint64_t bits = s->mask ? s->mask : UINT64_MAX;
    int rc;

    memcpy(mask, &bits, bytes);
    for (unsigned int i = 0; i < nodes; i++) {
        rates[i].ceiling_kib = s->nodes ? s->nodes[i].ceiling_kib : s->ceiling_kib;
        rates[i].floor_kib = s->nodes ? s->nodes[i].floor_kib : s->floor_kib;
    }
    rc = scrub_control(&op);
    assert_int_equal(host.locks_held, 0);
    free(rates);
    free(mask);
    return rc;
}

int ctl_reset(void)
{
    struct xen_sysctl_scrub_control op = {.version = XEN_SCRUB_CTL_VERSION, .op = XEN_SCRUB_RESET};
    int rc = scrub_control(&op);

    assert_int_equal(host.locks_held, 0);
    return rc;
}

void ctl_get(struct ctl_state *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->op = (struct xen_sysctl_scrub_control){
        .version = XEN_SCRUB_CTL_VERSION,
        .op = XEN_SCRUB_GET,
        .nr_nodes = MAX_NUMNODES,
        .nr_cpus = NR_CPUS,
        .mask = {{(uint8_t *)&ret->mask}, NR_CPUS},
        .nodes = {ret->nodes},
        .cpus = {ret->cpus},
    };
    assert_int_equal(scrub_control(&ret->op), 0);
    assert_int_equal(host.locks_held, 0);
}
