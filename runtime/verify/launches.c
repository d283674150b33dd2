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

static weft_status launch_broken(const program *p, weft_error *error, const char *rule, int index,
                                 const char *what) {
    const launch_entry *l = &p->launches[index];
    return error_set(error, WEFT_INTERNAL, "%s: graph %s, launch %d (%s, steps %d to %d): %s", rule,
                     p->graph->name, index, launch_name(l->kind), l->first, l->last, what);
}

static bool is_on_communication(const launch_entry *l) {
    return l->kind == LAUNCH_COLLECTIVE;
}

/* Look-ups. [0] is of the compute stream, [1] of the communication stream. */
typedef struct launch_index {
    verify_index x;
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

static bool index_open(launch_index *x, const program *p) {
    const weft_env *env = &p->plan->env;
    *x = (launch_index){0};
    bool good = verify_index_open(&x->x, p);
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->order >= x->n_orders) x->n_orders = n->order + 1;
    for (int k = 0; k < 2; k++) {
        x->launch[k] = mem_new_array(env, (size_t)x->n_orders, sizeof *x->launch[k]);
        x->times[k] = mem_new_array(env, (size_t)x->n_orders, sizeof *x->times[k]);
        x->waited[k] = mem_new_array(env, (size_t)p->n_launches, sizeof *x->waited[k]);
        good &= x->launch[k] && x->times[k] && x->waited[k];
    }
    x->waiter = mem_new_array(env, (size_t)x->x.n_variables + 1, sizeof *x->waiter);
    if (!good || !x->waiter) return false;
    for (int i = 0; i <= x->x.n_variables; i++) x->waiter[i] = INT_MAX;
    index_launches(x, p);
    return true;
}

static void index_close(launch_index *x) {
    const program *p = x->x.p;
    const weft_env *env = &p->plan->env;
    for (int k = 0; k < 2; k++) {
        mem_free(env, x->launch[k], (size_t)x->n_orders * sizeof *x->launch[k]);
        mem_free(env, x->times[k], (size_t)x->n_orders * sizeof *x->times[k]);
        mem_free(env, x->waited[k], (size_t)p->n_launches * sizeof *x->waited[k]);
    }
    mem_free(env, x->waiter, ((size_t)x->x.n_variables + 1) * sizeof *x->waiter);
    verify_index_close(&x->x);
}

/* The launch that contains a node; -1: not exactly one, or of another kind. */
static int find_launch(const launch_index *x, const weft_node *n, launch_kind kind) {
    bool stream = kind == LAUNCH_COLLECTIVE;
    if (n->order < 0 || x->times[stream][n->order] != 1) return -1;
    int found = x->launch[stream][n->order];
    return x->x.p->launches[found].kind == kind ? found : -1;
}

/* S1. The counts of nodes find a launch that claims more nodes than there are. */
static weft_status check_nodes(const launch_index *x, weft_error *error) {
    const program *p = x->x.p;
    int in_launches = 0, nodes = 0;
    for (int i = 0; i < p->n_launches; i++) in_launches += p->launches[i].n_nodes;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind)) continue;
        nodes++;
        if (find_launch(x, n, kind) < 0)
            return verify_broken(p, error, "S1", n, "it is not in exactly one launch of its kind");
    }
    if (nodes == in_launches) return WEFT_OK;
    return error_set(error, WEFT_INTERNAL, "S1: graph %s: %d nodes put work on streams, its launches hold %d",
                     p->graph->name, nodes, in_launches);
}

/* S5, launch by launch. A wait for the launch's own stream would be pointless, so it is an error too. */
static weft_status check_waits(const program *p, weft_error *error) {
    for (int i = 0; i < p->n_launches; i++) {
        const launch_entry *l = &p->launches[i];
        if (l->waits < 0) continue;
        if (l->waits >= i) return launch_broken(p, error, "S5", i, "it waits for one that is started later");
        if (!p->launches[l->waits].records)
            return launch_broken(p, error, "S5", i, "it waits for one that records no event");
        if (is_on_communication(l) == is_on_communication(&p->launches[l->waits]))
            return launch_broken(p, error, "S5", i, "it waits for one of its own stream");
    }
    return WEFT_OK;
}

/* Whether launch `from` has ended when `to`, after it on the other stream, begins: some launch of to's
 * stream, up to `to`, waits for `from` or for a later one of from's stream. */
static bool is_ordered(const launch_index *x, int from, int to) {
    return x->waited[is_on_communication(&x->x.p->launches[to])][to] >= from;
}

/* By bytes and stream: the node that touched them last. A node that is ordered after that one is ordered
 * after all before it. */
typedef struct touches {
    const launch_index *x;
    weft_error *error;
    verify_map stream[2];
} touches;

/* S2: node n of `stream` touches r, in launch `at`; the last touch by the other stream must have ended. */
static weft_status touch(touches *t, const weft_node *n, bool stream, int at, verify_range r) {
    verify_range rest = r;
    const verify_extent *last = NULL, *e;
    for (; (e = verify_map_first(&t->stream[!stream], rest)); rest.begin = e->range.end)
        if (!last || e->stamp > last->stamp) last = e;
    if (last) {
        const weft_node *other = last->owner;
        launch_kind kind;
        int from = launch_kind_of(other, &kind) ? find_launch(t->x, other, kind) : -1;
        if (!is_ordered(t->x, from, at))
            return verify_broken(t->x->x.p, t->error, "S2", stream ? other : n,
                                 "no event orders it and a collective on the same bytes");
        verify_map_drop(&t->stream[!stream], r); /* later nodes of this stream are ordered too */
    }
    verify_map_claim(&t->stream[stream], r, n);
    return t->stream[0].is_out_of_memory || t->stream[1].is_out_of_memory ? error_memory(t->error, "verify")
                                                                          : WEFT_OK;
}

/* A collective touches its results, in which it works in place; another node its operands, results and
 * workspace. */
static weft_status touch_all(touches *t, const weft_node *n, launch_kind kind) {
    verify_range r = {NULL, n->workspace_offset, n->workspace_offset + (int64_t)n->workspace_bytes};
    bool stream = kind == LAUNCH_COLLECTIVE;
    int at = find_launch(t->x, n, kind);
    weft_status status = n->workspace_bytes && !stream ? touch(t, n, stream, at, r) : WEFT_OK;
    for (int i = 0; i < n->n_in && !stream && !status; i++)
        if (n->in[i] && verify_locate(n->in[i], &r)) status = touch(t, n, stream, at, r);
    for (int k = 0; k < n->n_out && !status; k++)
        if (verify_locate(&n->out[k], &r)) status = touch(t, n, stream, at, r);
    return status;
}

/* S2, in the order of the schedule. */
static weft_status check_conflicts(const launch_index *x, weft_error *error) {
    const weft_env *env = &x->x.p->plan->env;
    touches t = {.x = x, .error = error, .stream = {{.env = env}, {.env = env}}};
    weft_status status = WEFT_OK;
    launch_kind kind;
    for (const weft_node *n = x->x.p->graph->first; n && !status; n = n->next)
        if (launch_kind_of(n, &kind)) status = touch_all(&t, n, kind);
    verify_map_free(&t.stream[0]);
    verify_map_free(&t.stream[1]);
    return status;
}

/* S3: the compute stream waits for the last sum. */
static weft_status check_end(const launch_index *x, weft_error *error) {
    const program *p = x->x.p;
    int awaited = -1;
    for (int i = 0; i < p->n_launches; i++)
        if (!is_on_communication(&p->launches[i]) && p->launches[i].waits > awaited)
            awaited = p->launches[i].waits;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!node_starts_collective(n) || verify_outlasts_run(&x->x, n)) continue;
        if (find_launch(x, n, LAUNCH_COLLECTIVE) > awaited)
            return verify_broken(p, error, "S3", n, "the run may end before it does");
    }
    return WEFT_OK;
}

/* The sharded bucket whose memory holds v; NULL: none. */
static const weft_variable *filled_bucket(const weft_value *v) {
    while (v && v->base) v = v->base;
    const weft_variable *s = v ? v->variable : NULL;
    if (s && s->bucket && variable_is_part(s)) s = s->bucket;
    return s && s->kind == VARIABLE_BUCKET && s->shards ? s : NULL;
}

/* S4: the first wait for a bucket's gather must not come after a launch that touches the bucket. */
static weft_status check_in_flight(const launch_index *x, weft_error *error) {
    const program *p = x->x.p;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind) || kind == LAUNCH_COLLECTIVE) continue;
        int at = find_launch(x, n, kind);
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_variable *s = filled_bucket(i < n->n_in ? n->in[i] : &n->out[i - n->n_in]);
            if (s && x->waiter[s->index] > at)
                return verify_broken(p, error, "S4", n, "a gather may still be filling what it touches");
        }
    }
    return WEFT_OK;
}

/* S6. */
static weft_status check_gate(const launch_index *x, weft_error *error) {
    const program *p = x->x.p;
    int gating = -1;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->op != &weft_op_gate) continue;
        gating = find_launch(x, n, LAUNCH_COMPUTE);
        if (gating < 0 || p->launches[gating].last != n->order || !p->launches[gating].gates)
            return verify_broken(p, error, "S6", n, "what follows is started before the host has read it");
    }
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].gates && i != gating)
            return launch_broken(p, error, "S6", i, "the host reads a gate that it has not");
    return WEFT_OK;
}

weft_status verify_launches(const program *p, weft_error *error) {
    if (p->plan->options.device == WEFT_DEVICE_CPU) return WEFT_OK;
    launch_index x;
    weft_status status = index_open(&x, p) ? check_nodes(&x, error) : error_memory(error, "verify");
    if (!status) status = check_waits(p, error);
    if (!status) status = check_end(&x, error);
    if (!status) status = check_conflicts(&x, error);
    if (!status) status = check_in_flight(&x, error);
    if (!status) status = check_gate(&x, error);
    index_close(&x);
    return status;
}
