/* A way of the path: policer, queue, serializer, air. What it is told and what it logs is in way.h and path.c. */
#include "way.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct way ways[2], seconds[2];
struct record *records;
long n_records;
static long room_records;
static struct flying *heap;
static long n_heap, room_heap;
static uint64_t numbered;
static ns_t zero, last_seen; /* of the first packet; of the last one */
static int expired;

void fail(const char *what)
{
    fprintf(stderr, "path: %s: %s\n", what, strerror(errno));
    exit(1);
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

static ns_t traced(struct way *w, ns_t begin, double bits) /* when so many bits are through that begin then */
{
    for (;;) {
        int last = w->slot + 1 == w->n_slots;
        const struct slot *s = &w->slots[w->slot];
        ns_t end = last ? UINT64_MAX : s[1].at + zero;
        double carries = last ? INFINITY : end > begin ? (end - begin) * s->rate / 1e9 : 0;
        if (bits <= carries && s->rate > 0)
            return begin + (ns_t)(bits * 1e9 / s->rate);
        bits -= carries;
        begin = end > begin ? end : begin;
        w->slot++;
    }
}

static void begin_service(struct way *w, ns_t begin)
{
    double bits = w->head->length * 8.0;
    w->head_done = w->n_slots ? traced(w, begin, bits) : begin + (ns_t)(bits * 1e9 / step_at(w, begin)->rate);
}

/* --- active queue management --- */

static void drop(struct packet *p)
{
    if (p->record >= 0)
        records[p->record].fate = QUEUE;
    free(p);
}

/* On the packet at the head of a queue, whose service is to begin. */
static int codel_acts(struct aqm *a, const struct packet *head, unsigned queued, ns_t now)
{
    int above = 0;
    if (now - head->begin < a->codel || queued <= FULL)
        a->first_above = 0;
    else if (!a->first_above)
        a->first_above = now + a->interval;
    else
        above = now >= a->first_above;
    int begins = above && !a->dropping;
    a->dropping = above;
    if (!above || (!begins && now < a->drop_next))
        return 0;
    if (begins) {
        int lately = a->drop_next && now < a->drop_next + 16 * a->interval;
        a->count = lately && a->count > 2 ? a->count - 2 : 1;
        a->drop_next = now;
    } else {
        a->count++;
    }
    a->drop_next += (ns_t)(a->interval / sqrt(a->count));
    return 1;
}

static double rate_of(const struct way *w, ns_t now)
{
    return w->n_slots ? w->slots[w->slot].rate : step_at(w, now)->rate;
}

static double eased(double p) /* the less is dropped the finer are the steps: RFC 8033, section 4.2 */
{
    return p < 1e-6 ? 1.0 / 2048 : p < 1e-5 ? 1.0 / 512 : p < 1e-4 ? 1.0 / 128 : p < 1e-3 ? 1.0 / 32
         : p < 1e-2 ? 1.0 / 8 : p < 0.1 ? 1.0 / 2 : 1;
}

static void pie_updates(struct way *w, ns_t now)
{
    struct aqm *a = &w->aqm;
    if (!a->updated)
        a->updated = now, a->allowance_s = 0.15;
    for (; a->updated + PIE_NS <= now; a->updated += PIE_NS) {
        double rate = rate_of(w, now), delay_s = rate > 0 ? w->queued * 8 / rate : a->delay_s;
        a->p += eased(a->p) * (0.125 * (delay_s - a->pie) + 1.25 * (delay_s - a->delay_s));
        if (delay_s == 0 && a->delay_s == 0)
            a->p *= 0.98;
        a->p = a->p < 0 ? 0 : a->p > 1 ? 1 : a->p;
        a->allowance_s -= a->allowance_s > 0 ? PIE_NS / 1e9 : 0;
        if (a->p == 0 && delay_s < a->pie / 2 && a->delay_s < a->pie / 2)
            a->allowance_s = 0.15;
        a->delay_s = delay_s;
    }
}

static int pie_acts(struct way *w, ns_t now)
{
    struct aqm *a = &w->aqm;
    pie_updates(w, now);
    if (a->allowance_s > 0 || (a->delay_s < a->pie / 2 && a->p < 0.2) || w->queued <= 2 * FULL)
        return 0;
    return uniform(w) < a->p;
}

static int mark_congestion(struct packet *p);

static int is_marked(struct way *w, struct packet *p) /* in place of being dropped */
{
    return w->aqm.ecn && p->record >= 0 && mark_congestion(p);
}

/* --- a fair queue --- */

static void join(struct line *line, struct flow *f)
{
    f->next = NULL;
    if (line->first)
        line->last = line->last->next = f;
    else
        line->first = line->last = f;
}

static struct packet *first_of(struct flow *f)
{
    struct packet *p = f->head;
    if (!p)
        return NULL;
    f->head = p->next;
    f->queued -= p->length;
    p->next = NULL;
    return p;
}

static struct packet *managed_first(struct way *w, struct flow *f, ns_t now)
{
    while (f->head && codel_acts(&f->aqm, f->head, f->queued, now) && !is_marked(w, f->head)) {
        w->queued -= f->head->length;
        drop(first_of(f));
    }
    return first_of(f);
}

static struct packet *fair_next(struct way *w, ns_t now)
{
    struct line *fresh = &w->fair->fresh, *others = &w->fair->others;
    for (;;) {
        struct line *line = fresh->first ? fresh : others;
        struct flow *f = line->first;
        if (!f)
            return NULL;
        struct packet *p = f->credit > 0 ? managed_first(w, f, now) : NULL;
        if (p) {
            f->credit -= p->length;
            return p;
        }
        int waits = f->credit <= 0;
        f->credit += waits ? FULL : 0;
        line->first = f->next;
        if (waits || (line == fresh && others->first)) /* an empty one that was fresh keeps its turn once */
            join(others, f);
        else
            f->listed = 0;
    }
}

static int make_room(struct way *w, unsigned length) /* at the cost of the longest queue */
{
    while (w->queued + length > w->queue_limit) {
        struct flow *longest = w->fair->flows;
        for (struct flow *f = longest; f < w->fair->flows + FLOWS; f++)
            if (f->queued > longest->queued)
                longest = f;
        if (!longest->head)
            return 0;
        w->queued -= longest->head->length;
        drop(first_of(longest));
    }
    return 1;
}

static void join_flow(struct way *w, struct packet *p)
{
    struct flow *f = &w->fair->flows[p->flow % FLOWS];
    f->queued += p->length;
    if (f->head)
        f->tail = f->tail->next = p;
    else
        f->head = f->tail = p;
    if (f->listed)
        return;
    f->listed = 1;
    f->credit = FULL;
    f->aqm.codel = w->aqm.codel;
    f->aqm.interval = w->aqm.interval;
    join(&w->fair->fresh, f);
}

/* --- queue and serializer --- */

static struct packet *managed_head(struct way *w, ns_t now)
{
    while (w->head && w->aqm.codel && codel_acts(&w->aqm, w->head, w->queued, now) && !is_marked(w, w->head)) {
        struct packet *p = w->head;
        w->head = p->next;
        w->queued -= p->length;
        drop(p);
    }
    return w->head;
}

static void serve_next(struct way *w, ns_t now)
{
    w->head = w->fair ? fair_next(w, now) : managed_head(w, now);
    if (w->head)
        begin_service(w, now);
}

static int enqueue(struct way *w, struct packet *p, ns_t now)
{
    if (w->fair ? !make_room(w, p->length) : w->queued + p->length > w->queue_limit)
        return 0;
    if (w->aqm.pie > 0 && pie_acts(w, now) && !(w->aqm.p < 0.1 && is_marked(w, p)))
        return 0;
    p->next = NULL;
    p->begin = now;
    w->queued += p->length;
    if (w->fair) {
        join_flow(w, p);
        if (!w->head)
            serve_next(w, now > w->free ? now : w->free);
    } else if (w->head) {
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
    if (w->grant)
        due = zero + (due - zero + w->grant - 1) / w->grant * w->grant;
    if (uniform(w) < w->reorder)
        return due + (ns_t)w->reorder_ns;
    if (due < w->last_due)
        due = w->last_due; /* the air keeps the order */
    return w->last_due = due;
}

static void sum_header(unsigned char *ip)
{
    ip[10] = ip[11] = 0;
    uint32_t sum = 0;
    for (int i = 0; i < (ip[0] & 15) * 4; i += 2)
        sum += ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    ip[10] = sum >> 8;
    ip[11] = sum;
}

static int mark_congestion(struct packet *p)
{
    unsigned char *ip = p->bytes;
    unsigned char ect = ip[0] >> 4 == 6 ? 0x30 : 3;
    if ((ip[1] & ect) == 0)
        return 0;
    ip[1] |= ect;
    records[p->record].ce = 1;
    if (ect == 3)
        sum_header(ip);
    return 1;
}

static void into_air(struct way *w, struct packet *p, ns_t served);

static void leave_serializer(struct way *w)
{
    struct packet *p = w->head;
    ns_t served = w->free = w->head_done;
    w->head = p->next;
    w->queued -= p->length;
    serve_next(w, served);
    if (p->record < 0) {
        free(p);
        return;
    }
    if (w->second) {
        advance(w->second, served);
        if (!enqueue(w->second, p, served))
            drop(p);
        return;
    }
    into_air(w->air ? w->air : w, p, served);
}

static void into_air(struct way *w, struct packet *p, ns_t served)
{
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
    p->flow = 1 + c - w->crosses;
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

void advance(struct way *w, ns_t now)
{
    for (;;) {
        struct cross *c = next_cross(w);
        int arrives = c && c->next <= now, leaves = w->head && w->head_done <= now;
        if (leaves && (!arrives || w->head_done <= c->next))
            leave_serializer(w);
        else if (arrives)
            cross_arrives(w, c);
        else
            break;
    }
    if (w->second)
        advance(w->second, now);
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
    int is6 = ip[0] >> 4 == 6;
    unsigned header = is6 ? 40 : (ip[0] & 15) * 4;
    r->length = length;
    r->ip_id = is6 ? 0 : big(ip + 4, 2);
    r->wscale = 255;
    if (ip[is6 ? 6 : 9] != 6 || length < header + 20)
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

/* --- in and out --- */

void accept_packet(struct way *w, const unsigned char *bytes, unsigned length)
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
    p->flow = r->source * 31u + r->target;
    p->record = n_records++;
    if (r->fate == ON_ITS_WAY && !enqueue(w, p, now))
        r->fate = QUEUE;
    if (r->fate != ON_ITS_WAY)
        free(p);
}

ns_t next_event(void)
{
    ns_t next = n_heap ? heap[0].due : UINT64_MAX;
    for (struct way *w = ways; w < ways + 2; w++) {
        const struct way *second = &seconds[w - ways];
        if (w->head && w->head_done < next) /* cross traffic alone can wait until a packet of ours comes */
            next = w->head_done;
        if (second->head && second->head_done < next)
            next = second->head_done;
    }
    return next;
}

struct flying *first_due(ns_t now)
{
    return n_heap && heap[0].due <= now ? &heap[0] : NULL;
}

void forget(void)
{
    free(pop().packet);
}
