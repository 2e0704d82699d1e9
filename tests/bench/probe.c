/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe ADDRESS [PORT]: echo probe of the demo, runs in the neighbour guest (static: it is all
 * that the guest has beside busybox).
 *
 * Open loop: request k leaves at start + k * interval, whatever came back before, and its round
 * trip counts from that moment, so that neither a stall of dom0 nor one of the prober itself
 * hides behind requests that were not sent. ICMP echo, since dom0's kernel answers by itself.
 *
 * Idle until told what to do over TCP (port 7007); nothing is sent on that connection between
 * "start" and the last reply. All times are this guest's CLOCK_MONOTONIC, in ns.
 *
 *   > clock                              < clock NOW
 *   > window COUNT INTERVAL_US GRACE_MS EVERY  < start T0, later a line a wake-up, then end
 *
 * It wakes up COUNT times, and sends a request at each EVERYth wake-up, the first one included; 0:
 * never. The line of a wake-up is "SEQ LATE_US RTT_US", RTT_US "-" if no request was sent or its
 * reply was lost. LATE_US is how long after its moment it woke up (or the request really left). The
 * grace time, for stragglers, begins after the last wake-up and ends early when nothing is
 * outstanding.
 */
#define _GNU_SOURCE /* ppoll */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 7007
#define COUNT_MAX 60000
#define LEAD_NS 200000000LL /* from "start" to the first request: the client gets ready */

/* The linux/icmp.h filter, which glibc does not have. */
#define ICMP_FILTER_OPT 1

struct sample {
    int64_t late_ns;
    int64_t rtt_ns; /* -1: no reply (yet) */
};

struct payload {
    uint32_t nonce; /* of the window: a straggler of the last one is no reply in this one */
    uint32_t seq;
};

struct echo {
    struct icmphdr head;
    struct payload body;
    uint8_t pad[48];
};

struct probe {
    int icmp;
    struct sockaddr_in peer;
    uint16_t id;
    uint32_t nonce;
    int64_t t0, interval_ns;
    unsigned int count, every;
    unsigned int woken, sent, answered;
    struct sample *samples;
};

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint16_t checksum(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < len; i += 2)
        sum += (uint32_t)p[i] << 8 | p[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum += sum >> 16;
    return htons((uint16_t)~sum);
}

static void send_request(struct probe *p)
{
    struct echo echo = {.head = {.type = ICMP_ECHO}};

    echo.head.un.echo.id = htons(p->id);
    echo.head.un.echo.sequence = htons((uint16_t)p->woken);
    echo.body = (struct payload){.nonce = p->nonce, .seq = p->woken};
    echo.head.checksum = checksum(&echo, sizeof(echo));
    /* A request that cannot leave is a lost one. */
    (void)!sendto(p->icmp, &echo, sizeof(echo), MSG_DONTWAIT, (struct sockaddr *)&p->peer,
                  sizeof(p->peer));
    p->sent++;
}

static void on_wake(struct probe *p)
{
    struct sample *s = &p->samples[p->woken];

    s->rtt_ns = -1;
    s->late_ns = now_ns() - (p->t0 + p->woken * p->interval_ns);
    if (p->every && p->woken % p->every == 0)
        send_request(p);
    p->woken++;
}

static void receive_replies(struct probe *p)
{
    uint8_t buf[512];
    ssize_t n;

    while ((n = recv(p->icmp, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        int64_t now = now_ns();
        const struct iphdr *ip = (const struct iphdr *)buf;
        size_t head = ip->ihl * 4u;
        struct echo echo;
        struct sample *s;

        if ((size_t)n < head + sizeof(echo))
            continue;
        memcpy(&echo, buf + head, sizeof(echo));
        if (ip->saddr != p->peer.sin_addr.s_addr || echo.head.type != ICMP_ECHOREPLY ||
            echo.head.un.echo.id != htons(p->id) || echo.body.nonce != p->nonce ||
            echo.body.seq >= p->woken)
            continue;
        s = &p->samples[echo.body.seq];
        if (s->rtt_ns >= 0)
            continue;
        s->rtt_ns = now - (p->t0 + echo.body.seq * p->interval_ns);
        p->answered++;
    }
}

static void wait_until(struct probe *p, int64_t when)
{
    int64_t left = when - now_ns();
    struct timespec ts = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    struct pollfd fd = {.fd = p->icmp, .events = POLLIN};

    if (left > 0 && ppoll(&fd, 1, &ts, NULL) < 0 && errno != EINTR)
        die("ppoll");
    receive_replies(p);
}

static void run_window(struct probe *p, int64_t grace_ns)
{
    int64_t end;

    while (p->woken < p->count) {
        int64_t due = p->t0 + p->woken * p->interval_ns;

        if (now_ns() >= due)
            on_wake(p);
        else
            wait_until(p, due);
    }
    end = p->t0 + p->count * p->interval_ns + grace_ns;
    while (p->answered < p->sent && now_ns() < end)
        wait_until(p, end);
}

static void report(const struct probe *p, FILE *out)
{
    for (unsigned int i = 0; i < p->count; i++) {
        const struct sample *s = &p->samples[i];

        if (s->rtt_ns < 0)
            fprintf(out, "%u %" PRId64 " -\n", i, s->late_ns / 1000);
        else
            fprintf(out, "%u %" PRId64 " %" PRId64 "\n", i, s->late_ns / 1000, s->rtt_ns / 1000);
    }
    fprintf(out, "end\n");
}

static void serve(struct probe *p, FILE *in, FILE *out)
{
    char line[128];
    unsigned int count, interval_us, grace_ms, every;

    while (fgets(line, sizeof(line), in)) {
        if (strcmp(line, "clock\n") == 0) {
            fprintf(out, "clock %" PRId64 "\n", now_ns());
        } else if (sscanf(line, "window %u %u %u %u", &count, &interval_us, &grace_ms, &every) ==
                       4 &&
                   count > 0 && count <= COUNT_MAX && interval_us >= 100 &&
                   interval_us <= 1000000 && grace_ms <= 60000) {
            p->count = count;
            p->every = every;
            p->woken = p->sent = p->answered = 0;
            p->nonce++;
            p->interval_ns = interval_us * 1000LL;
            p->t0 = now_ns() + LEAD_NS;
            fprintf(out, "start %" PRId64 "\n", p->t0);
            fflush(out);
            run_window(p, grace_ms * 1000000LL);
            report(p, out);
        } else {
            fprintf(out, "error: clock, or window COUNT INTERVAL_US GRACE_MS EVERY\n");
        }
        fflush(out);
    }
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(fd, 4) != 0)
        die("listen");
    return fd;
}

static int open_icmp(void)
{
    uint32_t all_but_replies = ~(1u << ICMP_ECHOREPLY);
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), size = 4 << 20;

    /* Room for seconds of requests and replies that queue up behind a stall. */
    if (fd < 0 ||
        setsockopt(fd, SOL_RAW, ICMP_FILTER_OPT, &all_but_replies, sizeof(all_but_replies)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
        die("ICMP socket");
    return fd;
}

int main(int argc, char **argv)
{
    struct probe p = {.peer = {.sin_family = AF_INET}, .id = (uint16_t)getpid()};
    struct sched_param rt = {.sched_priority = 50};
    int listener;

    if (argc < 2 || argc > 3 || inet_pton(AF_INET, argv[1], &p.peer.sin_addr) != 1) {
        fprintf(stderr, "usage: probe ADDRESS [PORT]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    p.nonce = (uint32_t)now_ns();
    p.samples = calloc(COUNT_MAX, sizeof(*p.samples));
    if (!p.samples)
        die("memory");
    p.icmp = open_icmp();
    listener = listen_on(argc == 3 ? (uint16_t)atoi(argv[2]) : PORT);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 || sched_setscheduler(0, SCHED_FIFO, &rt) != 0)
        die("real-time priority");
    printf("PROBE-READY\n");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL), one = 1;
        FILE *in, *out;

        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        in = fdopen(fd, "r");
        out = fdopen(dup(fd), "w");
        if (in && out)
            serve(&p, in, out);
        if (in)
            fclose(in);
        if (out)
            fclose(out);
    }
}
