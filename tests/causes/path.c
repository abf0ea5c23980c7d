/*
 * The path between two hosts, in user space: `path CONFIG LOG` makes the TUN devices wwan0 and core0 and carries
 * IPv4 packets, and TCP over IPv6, between them until SIGTERM. `up` is wwan0 -> core0, `down` the other way.
 *
 * Each way is a policer, a queue that drops at the tail, a serializer, perhaps a second queue and serializer, then
 * a delay. CONFIG has a setting a line,
 * `WAY NAME NUMBER...`; times are ns (those with "at", "begin", "end" since the first packet), sizes bytes of IP:
 *
 *   seed N | queue BYTES | step AT RATE_BPS DELAY_NS (the first has AT 0) | loss P | gilbert P_BEGIN MEAN_NS P_LOSS
 *   size_loss BYTES P | outage BEGIN END | reorder P EXTRA_NS | policer RATE_BPS BYTES
 *   jitter MEAN_NS (packets come out together, at random instants so far apart, as Wi-Fi's aggregates)
 *   mark NS (CE on ECT packets that waited longer) | mtu BYTES AT | syn N (the first N SYNs vanish)
 *   idle NS (after a silence all is dropped) | cross BEGIN END RATE_BPS BYTES ON_NS OFF_NS
 *   trace AT RATE_BPS (the serializer's rate from then on, 0: it stands still; the last one stays)
 *   grant NS (packets come out at multiples of it, as where a scheduler grants a turn)
 *   codel TARGET_NS INTERVAL_NS ECN | pie TARGET_NS ECN (ECN: 1 marks what asks for it)
 *   fair TARGET_NS INTERVAL_NS ECN (FQ-CoDel: a queue for each flow, of which each cross is one) | second RATE_BPS BYTES
 *
 * LOG gets, at the end, a `struct record` for each packet; all times are CLOCK_REALTIME. causes/path.py reads it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "way.h"

static volatile sig_atomic_t ended;

/* --- between the devices --- */

static int is_carried(const unsigned char *ip, ssize_t length) /* of IPv6 TCP alone: no router is sought here */
{
    return (length >= 20 && ip[0] >> 4 == 4) || (length >= 40 && ip[0] >> 4 == 6 && ip[6] == 6);
}

static int read_device(struct way *w) /* returns whether there may be more */
{
    static unsigned char bytes[LARGEST];
    for (int i = 0; i < READS_IN_A_ROW; i++) {
        ssize_t length = read(w->in, bytes, sizeof bytes);
        if (length < 0)
            return 0;
        if (is_carried(bytes, length))
            accept_packet(w, bytes, length);
    }
    return 1;
}

static void deliver(void)
{
    struct flying *f;
    while ((f = first_due(clock_ns(CLOCK_MONOTONIC)))) {
        struct record *r = &records[f->packet->record];
        if (write(f->way->out, f->packet->bytes, f->packet->length) < 0)
            fail("write to a TUN device");
        r->written = clock_ns(CLOCK_MONOTONIC);
        r->fate = DELIVERED;
        forget();
    }
}

static void carry(void)
{
    struct pollfd fds[2] = {{ways[0].in, POLLIN, 0}, {ways[1].in, POLLIN, 0}};
    sigset_t none;
    sigemptyset(&none);
    int more = 0;
    while (!ended) {
        ns_t now = clock_ns(CLOCK_MONOTONIC);
        advance(&ways[0], now);
        advance(&ways[1], now);
        deliver();
        ns_t next = next_event(), wait = next > now && !more ? next - now : 0;
        struct timespec patience = {wait / S, wait % S};
        ppoll(fds, 2, next == UINT64_MAX && !more ? NULL : &patience, &none);
        more = read_device(&ways[0]);
        more |= read_device(&ways[1]);
    }
}

/* --- begin and end --- */

static void set(struct way *w, const char *name, const double *v)
{
    if (!strcmp(name, "seed")) w->chance = (uint64_t)v[0];
    else if (!strcmp(name, "queue")) w->queue_limit = v[0];
    else if (!strcmp(name, "step") && w->n_steps < MOST) w->steps[w->n_steps++] = (struct step){v[0], v[1], v[2]};
    else if (!strcmp(name, "loss")) w->loss = v[0];
    else if (!strcmp(name, "gilbert")) w->p_begin = v[0], w->bad_ns = v[1], w->p_loss = v[2];
    else if (!strcmp(name, "size_loss")) w->size_loss_bytes = v[0], w->size_loss = v[1];
    else if (!strcmp(name, "outage") && w->n_outages < MOST) w->outages[w->n_outages++] = (struct outage){v[0], v[1]};
    else if (!strcmp(name, "reorder")) w->reorder = v[0], w->reorder_ns = v[1];
    else if (!strcmp(name, "jitter")) w->jitter = v[0];
    else if (!strcmp(name, "policer")) w->policer = v[0], w->bucket = v[1];
    else if (!strcmp(name, "mark")) w->mark = v[0];
    else if (!strcmp(name, "mtu")) w->mtu = v[0], w->mtu_at = v[1];
    else if (!strcmp(name, "syn")) w->syns = v[0];
    else if (!strcmp(name, "idle")) w->idle = v[0];
    else if (!strcmp(name, "trace") && w->n_slots < MOST_SLOTS) w->slots[w->n_slots++] = (struct slot){v[0], v[1]};
    else if (!strcmp(name, "grant")) w->grant = v[0];
    else if (!strcmp(name, "codel")) w->aqm.codel = v[0], w->aqm.interval = v[1], w->aqm.ecn = v[2];
    else if (!strcmp(name, "pie")) w->aqm.pie = v[0] / 1e9, w->aqm.ecn = v[1];
    else if (!strcmp(name, "fair")) {
        w->aqm.codel = v[0], w->aqm.interval = v[1], w->aqm.ecn = v[2];
        w->fair = calloc(1, sizeof *w->fair);
        if (!w->fair)
            fail("calloc");
    }
    else if (!strcmp(name, "second")) {
        w->second = &seconds[w - ways];
        *w->second = (struct way){.air = w, .queue_limit = v[1], .n_steps = 1, .steps = {{0, v[0], 0}}};
    }
    else if (!strcmp(name, "cross") && w->n_crosses < MOST)
        w->crosses[w->n_crosses++] = (struct cross){v[0], v[1], v[2], v[3], v[4], v[5], 0};
    else {
        fprintf(stderr, "path: no setting %s, or too many of it\n", name);
        exit(1);
    }
}

static void configure(const char *file)
{
    char line[512], way[8], name[16];
    FILE *config = fopen(file, "r");
    if (!config)
        fail(file);
    while (fgets(line, sizeof line, config)) {
        double v[6] = {0};
        if (sscanf(line, "%7s %15s %lf %lf %lf %lf %lf %lf", way, name, v, v + 1, v + 2, v + 3, v + 4, v + 5) > 2)
            set(&ways[strcmp(way, "up") != 0], name, v);
    }
    fclose(config);
}

static int open_tun(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
        fail("TUN device");
    return fd;
}

static void write_log(const char *file, ns_t to_realtime)
{
    FILE *log = fopen(file, "w");
    if (!log)
        fail(file);
    for (struct record *r = records; r < records + n_records; r++)
        for (ns_t *t = &r->enter; t <= &r->written; t++)
            *t += *t ? to_realtime : 0;
    fwrite(records, sizeof *records, n_records, log);
    if (fclose(log))
        fail(file);
}

static void on_term(int number)
{
    (void)number;
    ended = 1;
}

static void be_punctual(void) /* as far as the machine allows */
{
    struct sched_param urgent = {.sched_priority = 10};
    if (sched_setscheduler(0, SCHED_FIFO, &urgent) || mlockall(MCL_CURRENT | MCL_FUTURE))
        fprintf(stderr, "path: no real-time scheduling or locked memory here: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: path CONFIG LOG\n");
        return 2;
    }
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    configure(argv[1]);
    ways[0].in = ways[1].out = open_tun("wwan0");
    ways[1].in = ways[0].out = open_tun("core0");
    be_punctual();
    ns_t to_realtime = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    puts("ready");
    fflush(stdout);
    carry();
    write_log(argv[2], to_realtime);
    return 0;
}
