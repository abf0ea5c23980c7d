/*
 * The path between two hosts, in user space: `path CONFIG LOG` makes the TUN devices wwan0 and core0 and carries
 * IPv4 packets between them until SIGTERM. `up` is wwan0 -> core0, `down` the other way.
 *
 * Each way is a policer, a queue that drops at the tail, a serializer, then a delay. CONFIG has a setting a line,
 * `WAY NAME NUMBER...`; times are ns (those with "at", "begin", "end" since the first packet), sizes bytes of IP:
 *
 *   seed N | queue BYTES | step AT RATE_BPS DELAY_NS (the first has AT 0) | loss P | gilbert P_BEGIN MEAN_NS P_LOSS
 *   size_loss BYTES P | outage BEGIN END | reorder P EXTRA_NS | policer RATE_BPS BYTES
 *   jitter MEAN_NS (packets come out together, at random instants so far apart, as Wi-Fi's aggregates)
 *   mark NS (CE on ECT packets that waited longer) | mtu BYTES AT | syn N (the first N SYNs vanish)
 *   idle NS (after a silence all is dropped) | cross BEGIN END RATE_BPS BYTES ON_NS OFF_NS
 *
 * LOG gets, at the end, a `struct record` for each packet; all times are CLOCK_REALTIME. causes/path.py reads it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MOST 64              /* steps, outages or cross flows of one way */
#define LARGEST 2048         /* bytes of a packet: the devices' MTU is 1500 */
#define READS_IN_A_ROW 16    /* then deliveries get their turn */
#define S 1000000000ull

typedef uint64_t ns_t;

enum fate { ON_ITS_WAY, DELIVERED, QUEUE, LOSS, OUTAGE, POLICER, MTU, SYN, IDLE };

struct record {
    ns_t enter, served, due, written; /* 0: it did not come so far */
    uint32_t seq, ack;
    uint16_t source, target, length, payload, ip_id, window;
    uint8_t flags, way, fate, ce, wscale, pad[3];
    uint32_t tsval;
};

struct packet {
    struct packet *next;
    long record; /* -1: cross traffic, of which nothing but its length exists */
    ns_t begin;  /* when it entered */
    unsigned length;
    unsigned char bytes[];
};

struct step { ns_t at; double rate, delay; };
struct outage { ns_t begin, end; };
struct cross { ns_t begin, end; double rate; unsigned bytes; ns_t on, off, next; };

struct way {
    int in, out;
    struct step steps[MOST];
    struct outage outages[MOST];
    struct cross crosses[MOST];
    int n_steps, n_outages, n_crosses, syns;
    uint64_t chance;
    unsigned queue_limit, size_loss_bytes, mtu;
    double loss, p_begin, bad_ns, p_loss, size_loss, reorder, reorder_ns, jitter, policer, bucket, tokens;
    ns_t mark, mtu_at, idle, filled, last_due, release, bad_until;
    struct packet *head, *tail;
    unsigned queued;
    ns_t head_done, free; /* when the head leaves the serializer; when the one before it did */
};

struct flying { ns_t due; uint64_t number; struct packet *packet; struct way *way; };

static struct way ways[2];
static struct record *records;
static long n_records, room_records;
static struct flying *heap;
static long n_heap, room_heap;
static uint64_t numbered;
static ns_t zero, last_seen; /* of the first packet; of the last one */
static int expired;
static volatile sig_atomic_t ended;

static void fail(const char *what)
{
    fprintf(stderr, "path: %s: %s\n", what, strerror(errno));
    exit(1);
}

static ns_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * S + t.tv_nsec;
}

static double uniform(struct way *w) /* splitmix64 */
{
    uint64_t z = (w->chance += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static void *grown(void *array, long *room, long used, size_t size)
{
    if (used < *room)
        return array;
    *room = *room ? 2 * *room : 1 << 14;
    array = realloc(array, *room * size);
    if (!array)
        fail("realloc");
    return array;
}

/* --- the packets in the air: a heap by due time, then by number --- */

static int earlier(const struct flying *a, const struct flying *b)
{
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void swap(long i, long j)
{
    struct flying kept = heap[i];
    heap[i] = heap[j];
    heap[j] = kept;
}

static void push(struct way *w, struct packet *p, ns_t due)
{
    heap = grown(heap, &room_heap, n_heap, sizeof *heap);
    heap[n_heap] = (struct flying){due, numbered++, p, w};
    for (long i = n_heap++; i && earlier(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static struct flying pop(void)
{
    struct flying top = heap[0];
    heap[0] = heap[--n_heap];
    for (long i = 0, least; (least = 2 * i + 1) < n_heap; i = least) {
        least += least + 1 < n_heap && earlier(&heap[least + 1], &heap[least]);
        if (!earlier(&heap[least], &heap[i]))
            break;
        swap(i, least);
    }
    return top;
}

/* --- one way: in, through the serializer, into the air --- */

static const struct step *step_at(const struct way *w, ns_t now)
{
    const struct step *found = &w->steps[0];
    for (int i = 1; i < w->n_steps && w->steps[i].at + zero <= now; i++)
        found = &w->steps[i];
    return found;
}

static void begin_service(struct way *w, ns_t begin)
{
    w->head_done = begin + (ns_t)(w->head->length * 8e9 / step_at(w, begin)->rate);
}

static int enqueue(struct way *w, struct packet *p, ns_t now)
{
    if (w->queued + p->length > w->queue_limit)
        return 0;
    p->next = NULL;
    p->begin = now;
    w->queued += p->length;
    if (w->head) {
        w->tail = w->tail->next = p;
    } else {
        w->head = w->tail = p;
        begin_service(w, now > w->free ? now : w->free);
    }
    return 1;
}

static int is_lost(struct way *w, unsigned length, ns_t now)
{
    if (now >= w->bad_until && uniform(w) < w->p_begin)
        w->bad_until = now + (ns_t)(-log(1 - uniform(w)) * w->bad_ns);
    int lost = uniform(w) < w->loss;
    lost |= now < w->bad_until && uniform(w) < w->p_loss;
    lost |= length > w->size_loss_bytes && uniform(w) < w->size_loss;
    return lost;
}

static int in_outage(const struct way *w, ns_t now)
{
    for (int i = 0; i < w->n_outages; i++)
        if (w->outages[i].begin + zero <= now && now < w->outages[i].end + zero)
            return 1;
    return 0;
}

static ns_t due_of(struct way *w, ns_t served)
{
    ns_t due = served + (ns_t)step_at(w, served)->delay;
    while (w->jitter > 0 && w->release < due) /* now and then a long one, as when a station scans */
        w->release += (ns_t)(-log(1 - uniform(w)) * w->jitter * (uniform(w) < 0.01 ? 10 : 1)) + 1;
    if (w->jitter > 0)
        due = w->release;
    if (uniform(w) < w->reorder)
        return due + (ns_t)w->reorder_ns;
    if (due < w->last_due)
        due = w->last_due; /* the air keeps the order */
    return w->last_due = due;
}

static void mark_congestion(struct packet *p)
{
    unsigned char *ip = p->bytes;
    if ((ip[1] & 3) == 0)
        return;
    ip[1] |= 3;
    ip[10] = ip[11] = 0;
    uint32_t sum = 0;
    for (int i = 0; i < (ip[0] & 15) * 4; i += 2)
        sum += ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    ip[10] = sum >> 8;
    ip[11] = sum;
    records[p->record].ce = 1;
}

static void leave_serializer(struct way *w)
{
    struct packet *p = w->head;
    ns_t served = w->free = w->head_done;
    w->head = p->next;
    w->queued -= p->length;
    if (w->head)
        begin_service(w, served);
    if (p->record < 0) {
        free(p);
        return;
    }
    struct record *r = &records[p->record];
    r->served = served;
    int lost = is_lost(w, p->length, served);
    r->fate = in_outage(w, served) ? OUTAGE : lost ? LOSS : ON_ITS_WAY;
    if (r->fate != ON_ITS_WAY) {
        free(p);
        return;
    }
    if (w->mark && served - p->begin > w->mark)
        mark_congestion(p);
    push(w, p, r->due = due_of(w, served));
}

static void cross_arrives(struct way *w, struct cross *c)
{
    struct packet *p = calloc(1, sizeof *p);
    p->record = -1;
    p->length = c->bytes;
    if (!enqueue(w, p, c->next))
        free(p);
    c->next += (ns_t)(c->bytes * 8e9 / c->rate);
    ns_t period = c->on + c->off, since = c->next - c->begin - zero;
    if (c->off && since % period >= c->on)
        c->next += period - since % period;
}

static struct cross *next_cross(struct way *w)
{
    struct cross *first = NULL;
    for (struct cross *c = w->crosses; zero && c < w->crosses + w->n_crosses; c++) {
        if (!c->next)
            c->next = c->begin + zero;
        if (c->next < c->end + zero && (!first || c->next < first->next))
            first = c;
    }
    return first;
}

static void advance(struct way *w, ns_t now) /* all that happened by now, in the order it did */
{
    for (;;) {
        struct cross *c = next_cross(w);
        int arrives = c && c->next <= now, leaves = w->head && w->head_done <= now;
        if (leaves && (!arrives || w->head_done <= c->next))
            leave_serializer(w);
        else if (arrives)
            cross_arrives(w, c);
        else
            return;
    }
}

static int is_policed(struct way *w, unsigned length, ns_t now)
{
    if (w->policer <= 0)
        return 0;
    w->tokens = w->filled ? w->tokens + (now - w->filled) * w->policer / 8e9 : w->bucket;
    w->tokens = w->tokens > w->bucket ? w->bucket : w->tokens;
    w->filled = now;
    if (w->tokens < length)
        return 1;
    w->tokens -= length;
    return 0;
}

static int refused(struct way *w, const struct record *r)
{
    if (w->idle && r->enter - last_seen > w->idle && last_seen)
        expired = 1;
    if (expired)
        return IDLE;
    if (r->flags & 2 && w->syns > 0 && w->syns--)
        return SYN;
    if (w->mtu && r->length > w->mtu && r->enter >= w->mtu_at + zero)
        return MTU;
    return is_policed(w, r->length, r->enter) ? POLICER : ON_ITS_WAY;
}

/* --- reading what a packet says --- */

static uint32_t big(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    while (bytes--)
        value = value << 8 | *at++;
    return value;
}

static void read_options(struct record *r, const unsigned char *at, const unsigned char *end)
{
    while (at < end && *at) {
        if (*at == 1) {
            at++;
            continue;
        }
        if (at + 1 >= end || at[1] < 2 || at + at[1] > end)
            return;
        if (at[0] == 3)
            r->wscale = at[2];
        if (at[0] == 8)
            r->tsval = big(at + 2, 4);
        at += at[1];
    }
}

static void read_headers(struct record *r, const unsigned char *ip, unsigned length)
{
    unsigned header = (ip[0] & 15) * 4;
    r->length = length;
    r->ip_id = big(ip + 4, 2);
    r->wscale = 255;
    if (ip[9] != 6 || length < header + 20)
        return;
    const unsigned char *tcp = ip + header;
    unsigned offset = (tcp[12] >> 4) * 4;
    r->source = big(tcp, 2);
    r->target = big(tcp + 2, 2);
    r->seq = big(tcp + 4, 4);
    r->ack = big(tcp + 8, 4);
    r->flags = tcp[13];
    r->window = big(tcp + 14, 2);
    r->payload = length - header - offset;
    if (length >= header + offset)
        read_options(r, tcp + 20, tcp + offset);
}

/* --- between the devices --- */

static void accept_packet(struct way *w, const unsigned char *bytes, unsigned length)
{
    ns_t now = clock_ns(CLOCK_MONOTONIC);
    if (!zero)
        zero = ways[0].release = ways[1].release = now;
    advance(w, now);
    records = grown(records, &room_records, n_records, sizeof *records);
    struct record *r = memset(&records[n_records], 0, sizeof *r);
    r->way = w - ways;
    r->enter = now;
    read_headers(r, bytes, length);
    r->fate = refused(w, r);
    last_seen = now;
    struct packet *p = malloc(sizeof *p + length);
    memcpy(p->bytes, bytes, length);
    p->length = length;
    p->record = n_records++;
    if (r->fate == ON_ITS_WAY && !enqueue(w, p, now))
        r->fate = QUEUE;
    if (r->fate != ON_ITS_WAY)
        free(p);
}

static int read_device(struct way *w) /* returns whether there may be more */
{
    static unsigned char bytes[LARGEST];
    for (int i = 0; i < READS_IN_A_ROW; i++) {
        ssize_t length = read(w->in, bytes, sizeof bytes);
        if (length < 0)
            return 0;
        if (length >= 20 && bytes[0] >> 4 == 4)
            accept_packet(w, bytes, length);
    }
    return 1;
}

static void deliver(void)
{
    while (n_heap && heap[0].due <= clock_ns(CLOCK_MONOTONIC)) {
        struct flying f = pop();
        struct record *r = &records[f.packet->record];
        if (write(f.way->out, f.packet->bytes, f.packet->length) < 0)
            fail("write to a TUN device");
        r->written = clock_ns(CLOCK_MONOTONIC);
        r->fate = DELIVERED;
        free(f.packet);
    }
}

static ns_t next_event(void)
{
    ns_t next = n_heap ? heap[0].due : UINT64_MAX;
    for (struct way *w = ways; w < ways + 2; w++)
        if (w->head && w->head_done < next) /* cross traffic alone can wait until a packet of ours comes */
            next = w->head_done;
    return next;
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
