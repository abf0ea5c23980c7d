/* One way of the path: what it is told, what becomes of a packet, and the log of all packets. */
#ifndef WAY_H
#define WAY_H
#include <stdint.h>
#include <time.h>

#define MOST 64              /* steps, outages or cross flows of one way */
#define MOST_SLOTS 4096      /* of a capacity trace */
#define LARGEST 2048         /* bytes of a packet: the devices' MTU is 1500 */
#define READS_IN_A_ROW 16    /* then deliveries get their turn */
#define S 1000000000ull
#define FULL 1500             /* bytes of a full packet */
#define PIE_NS 15000000       /* between two updates: RFC 8033 */
#define FLOWS 1024            /* of a fair queue: RFC 8290, section 5.2 */

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
    unsigned flow; /* where flows have queues of their own */
    ns_t begin;  /* when it entered */
    unsigned length;
    unsigned char bytes[];
};

struct step { ns_t at; double rate, delay; };
struct slot { ns_t at; double rate; };
struct outage { ns_t begin, end; };
struct cross { ns_t begin, end; double rate; unsigned bytes; ns_t on, off, next; };

/* Active queue management: CoDel (RFC 8289) drops as packets leave, PIE (RFC 8033) as they come. 0 targets: none. */
struct aqm {
    ns_t codel, interval, first_above, drop_next;
    double pie, p, delay_s, allowance_s;
    ns_t updated;
    unsigned count;
    int dropping, ecn;
};

/* A fair queue, FQ-CoDel (RFC 8290): flows take turns by bytes, those that were silent first; CoDel acts on each. */
struct flow {
    struct packet *head, *tail;
    struct flow *next;
    struct aqm aqm;
    unsigned queued;
    int credit, listed;
};

struct line { struct flow *first, *last; };

struct fair {
    struct flow flows[FLOWS];
    struct line fresh, others;
};

struct way {
    int in, out;
    struct way *second, *air; /* a second queue and serializer behind these, if any; whose air follows, NULL: its own */
    struct step steps[MOST];
    struct slot slots[MOST_SLOTS]; /* rates over time, 0 for none; they rule instead of the steps' rate */
    int n_slots, slot;
    struct aqm aqm;
    struct fair *fair; /* NULL: one queue for all; else `head` is the packet in service alone */
    struct outage outages[MOST];
    struct cross crosses[MOST];
    int n_steps, n_outages, n_crosses, syns;
    uint64_t chance;
    unsigned queue_limit, size_loss_bytes, mtu;
    double loss, p_begin, bad_ns, p_loss, size_loss, reorder, reorder_ns, jitter, policer, bucket, tokens;
    ns_t mark, mtu_at, idle, filled, last_due, release, bad_until, grant;
    struct packet *head, *tail;
    unsigned queued;
    ns_t head_done, free; /* when the head leaves the serializer; when the one before it did */
};

struct flying { ns_t due; uint64_t number; struct packet *packet; struct way *way; };

extern struct way ways[2], seconds[2];
extern struct record *records;
extern long n_records;

void fail(const char *what);
void accept_packet(struct way *w, const unsigned char *bytes, unsigned length); /* it has come in, now */
void advance(struct way *w, ns_t now); /* all that happened by now, in the order it did */
ns_t next_event(void);
struct flying *first_due(ns_t now); /* the packet to write next, until `forget` it; NULL: none is due */
void forget(void);

#ifdef CLOCK_BY_HAND /* for tests */
extern ns_t clock_by_hand;
#endif

static inline ns_t clock_ns(clockid_t clock)
{
#ifdef CLOCK_BY_HAND
    if (clock == CLOCK_MONOTONIC)
        return clock_by_hand;
#endif
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * S + t.tv_nsec;
}

#endif
