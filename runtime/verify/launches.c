/* launches.c - proves a GPU program's launches: whatever two streams do at once, neither disturbs the other.
 * Rules:
 *   S1   every node that puts work on a stream is in exactly one launch, of its kind, in the order of the
 *        schedule
 *   S2   two nodes on different streams that touch the same bytes, one of them writing, are ordered by an
 *        event
 *   S3   when a run has ended on the compute stream, every collective has ended too, except gathers in flight
 *   S4   a launch that touches a bucket which a gather may still be filling waits for that gather
 *   S5   a launch waits only for one before it in the list (so no run can block itself), and that one records
 *        an event
 *   S6   the host reads the gate before it starts what follows: a launch ends with the gate and says so, and
 *        no other says so
 */
#include "runtime/plan/launches.h"
#include "runtime/verify/map.h"
#include "ops/kit/ops.h"
#include "runtime/plan/value.h"

#include <limits.h>

static bool launch_broken(verify_index *x, const char *rule, int index, const char *what) {
    const launch_entry *l = &x->p->launches[index];
    return !error_set(&x->error, WEFT_INTERNAL, "%s: graph %s, launch %d (%s, steps %d to %d): %s", rule,
                      x->p->graph->name, index, launch_name(l->kind), l->first, l->last, what);
}

static bool is_on_communication(const launch_entry *l) {
    return l->kind == LAUNCH_COLLECTIVE;
}

/* Look-ups. [0] is of the compute stream, [1] of the communication stream. */
typedef struct launch_index {
    verify_index *x;
    int n_orders;
    int *launch[2]; /* by order of a node: the last launch whose places contain it */
    int *times[2];  /* by order of a node: how many launches do */
    /* By launch: the last launch of the other stream that it waits for, or that one before it on its stream
     * does. */
    int *waited[2];
    /* by index of a bucket: the first compute launch that waits for a gather of it; INT_MAX: none */
    int *waiter;
} launch_index;

/* One walk over the launches; `last` has, by stream, the latest launch that has been waited for. */
static void index_launches(launch_index *x, const program *p) {
    int last[2] = {-1, -1};
    for (int i = 0; i < p->n_launches; i++) {
        const launch_entry *l = &p->launches[i];
        bool stream = is_on_communication(l);
        if (l->waits > last[stream]) last[stream] = l->waits;
        x->waited[0][i] = last[0];
        x->waited[1][i] = last[1];
        for (int at = l->first < 0 ? 0 : l->first; l->n_nodes && at <= l->last && at < x->n_orders; at++) {
            x->launch[stream][at] = i;
            x->times[stream][at]++;
        }
        for (int k = 0; k < l->n_in_flight && !stream; k++)
            if (x->waiter[l->in_flight[k]->index] == INT_MAX) x->waiter[l->in_flight[k]->index] = i;
    }
}

static bool index_open(launch_index *x, verify_index *of) {
    const program *p = of->p;
    *x = (launch_index){.x = of};
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->order >= x->n_orders) x->n_orders = n->order + 1;
    for (int k = 0; k < 2; k++) {
        x->launch[k] = verify_array(of, x->n_orders, sizeof *x->launch[k]);
        x->times[k] = verify_array(of, x->n_orders, sizeof *x->times[k]);
        x->waited[k] = verify_array(of, p->n_launches, sizeof *x->waited[k]);
        if (!x->launch[k] || !x->times[k] || !x->waited[k]) return false;
    }
    x->waiter = verify_array(of, of->n_variables, sizeof *x->waiter);
    for (int i = 0; x->waiter && i < of->n_variables; i++) x->waiter[i] = INT_MAX;
    if (x->waiter) index_launches(x, p);
    return x->waiter;
}

/* The launch that contains a node; -1: not exactly one, or of another kind. */
static int find_launch(const launch_index *x, const weft_node *n, launch_kind kind) {
    bool stream = kind == LAUNCH_COLLECTIVE;
    if (n->order < 0 || x->times[stream][n->order] != 1) return -1;
    int found = x->launch[stream][n->order];
    return x->x->p->launches[found].kind == kind ? found : -1;
}

/* S1. The counts of nodes find a launch that claims more nodes than there are. */
static bool check_nodes(const launch_index *x) {
    const program *p = x->x->p;
    int in_launches = 0, nodes = 0;
    for (int i = 0; i < p->n_launches; i++) in_launches += p->launches[i].n_nodes;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind)) continue;
        nodes++;
        if (find_launch(x, n, kind) < 0)
            return verify_broken(x->x, "S1", n, "it is not in exactly one launch of its kind");
    }
    return nodes == in_launches ||
           !error_set(&x->x->error, WEFT_INTERNAL,
                      "S1: graph %s: %d nodes put work on streams, its launches hold %d", p->graph->name,
                      nodes, in_launches);
}

/* S5, launch by launch. A wait for the launch's own stream would be pointless, so it is an error too. */
static bool check_waits(verify_index *x) {
    const launch_entry *list = x->p->launches;
    for (int i = 0; i < x->p->n_launches; i++) {
        int waits = list[i].waits;
        if (waits < 0) continue;
        if (waits >= i) return launch_broken(x, "S5", i, "it waits for one that is started later");
        if (!list[waits].records) return launch_broken(x, "S5", i, "it waits for one that records no event");
        if (is_on_communication(&list[i]) == is_on_communication(&list[waits]))
            return launch_broken(x, "S5", i, "it waits for one of its own stream");
    }
    return true;
}

/* Whether launch `from` has ended when `to`, after it on the other stream, begins: some launch of to's
 * stream, up to `to`, waits for `from` or for a later one of from's stream. */
static bool is_ordered(const launch_index *x, int from, int to) {
    return x->waited[is_on_communication(&x->x->p->launches[to])][to] >= from;
}

/* By bytes and stream: the node that touched them last. A node that is ordered after that one is ordered
 * after all before it. */
typedef struct touches {
    const launch_index *x;
    verify_map stream[2];
} touches;

/* S2: node n of `stream` touches r, in launch `at`; the last touch by the other stream must have ended. */
static bool touch(touches *t, const weft_node *n, bool stream, int at, verify_range r) {
    verify_range rest = r;
    const verify_extent *last = NULL, *e;
    for (; (e = verify_map_first(&t->stream[!stream], rest)); rest.begin = e->range.end)
        if (!last || e->stamp > last->stamp) last = e;
    if (last) {
        const weft_node *other = last->owner;
        launch_kind kind;
        int from = launch_kind_of(other, &kind) ? find_launch(t->x, other, kind) : -1;
        if (!is_ordered(t->x, from, at))
            return verify_broken(t->x->x, "S2", stream ? other : n,
                                 "no event orders it and a collective on the same bytes");
        verify_map_drop(&t->stream[!stream], r); /* later nodes of this stream are ordered too */
    }
    verify_map_claim(&t->stream[stream], r, n);
    return !t->stream[0].is_out_of_memory && !t->stream[1].is_out_of_memory;
}

/* A collective touches its results, in which it works in place; another node its operands, results and
 * workspace. */
static bool touch_all(touches *t, const weft_node *n, launch_kind kind) {
    verify_range r;
    bool stream = kind == LAUNCH_COLLECTIVE;
    int at = find_launch(t->x, n, kind);
    for (int i = stream ? verify_touches(n) - n->n_out : 0; i < verify_touches(n); i++)
        if (verify_touched(n, i, &r) && !touch(t, n, stream, at, r)) return false;
    return true;
}

/* S2, in the order of the schedule. */
static bool check_conflicts(const launch_index *x) {
    arena *memory = &x->x->memory;
    touches t = {.x = x, .stream = {{.memory = memory}, {.memory = memory}}};
    launch_kind kind;
    for (const weft_node *n = x->x->p->graph->first; n; n = n->next)
        if (launch_kind_of(n, &kind) && !touch_all(&t, n, kind)) return false;
    return true;
}

/* S3: the compute stream waits for the last sum. */
static bool check_end(const launch_index *x) {
    const program *p = x->x->p;
    int awaited = -1;
    for (int i = 0; i < p->n_launches; i++)
        if (!is_on_communication(&p->launches[i]) && p->launches[i].waits > awaited)
            awaited = p->launches[i].waits;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!node_starts_collective(n) || verify_outlasts_run(x->x, n)) continue;
        if (find_launch(x, n, LAUNCH_COLLECTIVE) > awaited)
            return verify_broken(x->x, "S3", n, "the run may end before it does");
    }
    return true;
}

/* S4: the first wait for a bucket's gather must not come after a launch that touches the bucket. */
static bool check_in_flight(const launch_index *x) {
    for (const weft_node *n = x->x->p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind) || kind == LAUNCH_COLLECTIVE) continue;
        int at = find_launch(x, n, kind);
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_variable *s = verify_sharded(node_value_at(n, i));
            if (s && x->waiter[s->index] > at)
                return verify_broken(x->x, "S4", n, "a gather may still be filling what it touches");
        }
    }
    return true;
}

/* S6. */
static bool check_gate(const launch_index *x) {
    const program *p = x->x->p;
    int gating = -1;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->op != &weft_op_gate) continue;
        gating = find_launch(x, n, LAUNCH_COMPUTE);
        if (gating < 0 || p->launches[gating].last != n->order || !p->launches[gating].gates)
            return verify_broken(x->x, "S6", n, "what follows is started before the host has read it");
    }
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].gates && i != gating)
            return launch_broken(x->x, "S6", i, "the host reads a gate that it has not");
    return true;
}

bool verify_streams(verify_index *x) {
    launch_index at;
    if (x->plan->options.device == WEFT_DEVICE_CPU) return true;
    return index_open(&at, x) && check_nodes(&at) && check_waits(x) && check_end(&at) &&
           check_conflicts(&at) && check_in_flight(&at) && check_gate(&at);
}

weft_status verify_launches(const program *p, weft_error *error) {
    verify_index x;
    bool good = verify_index_open(&x, p->plan, p) && verify_streams(&x);
    return verify_index_close(&x, good, error);
}
