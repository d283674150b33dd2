/* collectives.c - proves the use of the communication stream in a scheduled program. The stream runs its
 * collectives one after the other, beside the compute stream; only `wait` orders the two. Rules:
 *   L1   a wait names the results of one collective before it, and every collective has exactly one wait,
 *        except an all_gather that outlasts the run, which has none
 *   L2   collectives are in the order of their numbers, 0, 1, 2 ..., as many as the program counts
 *   L3   while a collective is in flight, from its start to its wait, no other node touches its buffer or
 *        scratch
 *   L6   an all_gather sends what this rank's update has made; no later node of the program touches the
 *        bucket, unless the program waits for the gather
 *   L10  a collective goes over the ranks of its subgraph, or those that its op names, sums gradients in
 *        that subgraph's wire type and all else exactly, and has enough scratch
 *   L24  a gather of values sends this rank's part of axis 0; only this rank's part of a scattered sum of
 *        values is read
 */
#include "runtime/verify/map.h"
#include "runtime/plan/value.h"

#include "ops/kit/basic_attrs.h"
#include "ops/kit/ops.h"
#include "ops/structure/collective.h"

#include <string.h>

/* The state of the walk along a schedule. */
typedef struct collectives {
    verify_index *x;
    verify_map writers; /* by bytes of variables: the node that wrote them last */
    /* bytes that a collective in flight works on; a gather that outlasts the run keeps them */
    verify_map busy;
    int64_t next; /* number of the next collective */
} collectives;

/* ---- L3, L6 ---- */

/* Whether the gather sends the newest value of this rank's range: its update's; on a rank without a range,
 * the result of the wait that the update would have read. */
static bool sends_update(const collectives *l, const weft_node *gather) {
    int64_t begin, end, latest = 0;
    verify_own(l->x, gather->variable, &begin, &end);
    verify_range own = {gather->variable, begin * 4, end * 4};
    const weft_node *last = NULL;
    for (const verify_extent *e = verify_map_first(&l->writers, own); e;
         e = verify_map_first(&l->writers, own)) {
        if (e->stamp > latest) last = e->owner;
        if (e->stamp > latest) latest = e->stamp;
        own.begin = e->range.end;
    }
    const weft_node *sent = gather->in[0]->node;
    if (begin != end) return last && sent == last;
    return sent->op == &weft_op_wait && sent->in[0]->node->variable == gather->variable;
}

/* L3 and L6: n touches range r. */
static bool check_range(const collectives *l, const weft_node *n, verify_range r) {
    const verify_extent *e = verify_map_first(&l->busy, r);
    if (!e) return true;
    bool is_gather = verify_outlasts_run(l->x, e->owner);
    return verify_broken(l->x, is_gather ? "L6" : "L3", n,
                         is_gather ? "touches a bucket after its all_gather"
                                   : "uses the buffer of a running collective");
}

static bool check_touch(const collectives *l, const weft_node *n) {
    verify_range r;
    for (int i = 0; i < verify_touches(n); i++)
        if (verify_touched(n, i, &r) && !check_range(l, n, r)) return false;
    return true;
}

/* The buffer and the scratch of a collective are its own from here to its wait. */
static bool occupy(collectives *l, const weft_node *start) {
    verify_range buffer, scratch = {start, 0, 0};
    bool has_places = verify_locate(&start->out[0], &buffer) && buffer.begin >= 0;
    if (start->n_out > 1) has_places &= verify_locate(&start->out[1], &scratch) && scratch.begin >= 0;
    if (!has_places || ranges_meet(buffer, scratch))
        return verify_broken(l->x, "L3", start, "its buffer and scratch overlap or have no place");
    verify_map_claim(&l->busy, buffer, start);
    if (start->n_out > 1) verify_map_claim(&l->busy, scratch, start);
    return true;
}

static void release(collectives *l, const weft_node *start) {
    verify_range r;
    for (int k = 0; k < start->n_out; k++)
        if (verify_locate(&start->out[k], &r)) verify_map_drop(&l->busy, r);
}

/* ---- L10 ---- */

/* A bucket's collective is over the bucket's subgraph; an op's over the process groups that it names; another
 * one over the subgraph that its path names. */
static bool goes_over_group(const collectives *l, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    const weft_plan *plan = l->x->plan;
    if (a->group >= plan->n_groups) return false;
    const subgraph *g = &plan->subgraphs[a->group];
    if (a->over) return a->group >= plan->n_subgraphs && strcmp(a->over, g->name) == 0;
    if (a->group >= plan->n_subgraphs)
        return a->group == plan->n_subgraphs && n->in[0]->node->op == &weft_op_guard;
    bool is_bucket = n->variable && n->variable->kind == VARIABLE_BUCKET;
    const char *owner = is_bucket ? n->variable->members[0]->path : a->path;
    return (!is_bucket && strcmp(owner, g->name) == 0) || verify_subgraph(l->x, owner) == g;
}

/* The second result is the scratch, as large as the communicator asks for. */
static bool has_room(const collectives *l, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    if (n->op == &weft_op_all_gather) return n->n_out == 1;
    if (n->n_out != 2 || n->out[1].type.dtype != WEFT_U8 || type_elements(&n->out[1].type) != a->scratch)
        return false;
    weft_collective_kind kind = n->op == &weft_op_broadcast           ? WEFT_COLLECTIVE_BROADCAST
                                : n->op == &weft_op_all_gather_values ? WEFT_COLLECTIVE_ALL_GATHER
                                : n->op == &weft_op_all_reduce        ? WEFT_COLLECTIVE_ALL_REDUCE
                                                                      : WEFT_COLLECTIVE_REDUCE_SCATTER;
    size_t count = (size_t)type_elements(&n->out[0].type);
    return (size_t)a->scratch >= weft_collective_scratch(kind, n->out[0].type.dtype,
                                                         a->bf16 ? WEFT_BF16 : (weft_dtype)0, count,
                                                         l->x->plan->subgraphs[a->group].n_ranks);
}

/* What parameters follow (weft_moving_mean) is not a gradient. */
static bool is_followed(const collectives *l, const weft_node *n) {
    const weft_variable *s = variable_find(l->x->plan->model, ((const collective_attrs *)n->attrs)->path);
    return s && s->kind == VARIABLE_BUCKET && s->members[0]->follows;
}

/* L10. */
static bool check_way(const collectives *l, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    bool is_gradient = verify_sums_gradients(n) && !is_followed(l, n);
    if (!goes_over_group(l, n)) return verify_broken(l->x, "L10", n, "goes over ranks of another subgraph");
    const ddp_attrs *ddp = &l->x->plan->subgraphs[a->group].ddp;
    if (a->bf16 != (is_gradient && ddp->bf16_wire) ||
        a->unordered != (is_gradient && l->x->plan->options.reduce == WEFT_REDUCE_FAST))
        return verify_broken(l->x, "L10", n, "sums in another way than its subgraph says");
    if (!has_room(l, n)) return verify_broken(l->x, "L10", n, "has not the scratch that it needs");
    return true;
}

/* ---- L24 ---- */

/* Whether [begin, end) of axis 0 of a buffer of `length` is this rank's part. */
static bool is_own_part(const subgraph *g, int64_t length, int64_t begin, int64_t end) {
    int64_t each = length / g->n_ranks;
    return length == each * g->n_ranks && begin == each * g->rank && end == begin + each;
}

/* What is gathered lies in this rank's part, and nothing else does. */
static bool gives_own_part(const subgraph *g, const weft_node *start) {
    const weft_node *made = start->in[0]->node;
    if (made->op != &weft_op_pad || !made->in[0]->type.ndim) return false;
    const pad_attrs *a = made->attrs;
    int64_t length = made->in[0]->type.shape[0];
    return a->axis == 0 && a->between == 0 &&
           is_own_part(g, start->out[0].type.shape[0], a->before, a->before + length);
}

/* What is read of a scattered sum is this rank's part: the rest is undefined. */
static bool reads_own_part(const collectives *l, const subgraph *g, const weft_value *sum) {
    for (const weft_node *n = sum->node->next; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            slice_attrs r;
            if (n->in[i] != sum) continue;
            if (n->op != &weft_op_slice || !slice_range(n->attrs, &sum->type, &r) || r.axis != 0 ||
                r.step != 1 || !is_own_part(g, sum->type.shape[0], r.begin, r.end))
                return false;
        }
    for (const graph_output *o = l->x->p->graph->outputs; o; o = o->next)
        if (o->value == sum) return false;
    return true;
}

static bool check_part(const collectives *l, const weft_node *n, const weft_node *wait) {
    const subgraph *g = &l->x->plan->subgraphs[((const collective_attrs *)n->attrs)->group];
    if (n->op == &weft_op_all_gather_values && !gives_own_part(g, n))
        return verify_broken(l->x, "L24", n, "does not send this rank's part");
    if (n->op == &weft_op_reduce_scatter_values && !reads_own_part(l, g, &wait->out[0]))
        return verify_broken(l->x, "L24", n, "is read past this rank's part");
    return true;
}

/* ---- L1, L2 ---- */

/* L1 and L2 for a start, then L10 and L6; then it occupies its bytes. */
static bool check_start(collectives *l, const weft_node *n) {
    int waits;
    const weft_node *wait = verify_wait_of(l->x, n, &waits);
    bool is_in_flight = n->op == &weft_op_all_gather && waits == 0;
    int64_t number = l->next++;
    if (!is_in_flight && (waits != 1 || wait->order <= n->order))
        return verify_broken(l->x, "L1", n, "does not have one wait after it");
    if (((const collective_attrs *)n->attrs)->order != number || number >= l->x->p->n_collectives)
        return verify_broken(l->x, "L2", n, "is not in the order of collectives");
    if (!check_way(l, n) || !check_part(l, n, wait)) return false;
    if (n->op == &weft_op_all_gather && !(n->variable && n->variable->shards && sends_update(l, n)))
        return verify_broken(l->x, "L6", n, "does not send what this rank has updated");
    return occupy(l, n);
}

/* Whether a wait reads all results of one collective and nothing else. */
static bool waits_well(const weft_node *wait) {
    const weft_node *start = wait->in[0]->node;
    if (!node_starts_collective(start) || wait->n_in != start->n_out) return false;
    for (int i = 0; i < wait->n_in; i++)
        if (wait->in[i] != &start->out[i]) return false;
    return true;
}

/* A wait releases its collective before it is itself checked as a node that touches these bytes. */
static bool check_collective_node(collectives *l, const weft_node *n) {
    verify_range r;
    if (n->op == &weft_op_wait && !waits_well(n))
        return verify_broken(l->x, "L1", n, "waits for a node that is not a collective");
    if (n->op == &weft_op_wait) release(l, n->in[0]->node);
    if (!node_is_silent(n) && !check_touch(l, n)) return false;
    if (node_starts_collective(n) && !check_start(l, n)) return false;
    if (n->op->writes & 1 && n->in[0] && verify_locate(n->in[0], &r)) verify_map_claim(&l->writers, r, n);
    return !l->writers.is_out_of_memory && !l->busy.is_out_of_memory;
}

bool verify_collectives(verify_index *x) {
    collectives l = {.x = x, .writers = {.memory = &x->memory}, .busy = {.memory = &x->memory}};
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (!check_collective_node(&l, n)) return false;
    return l.next == x->p->n_collectives ||
           !error_set(&x->error, WEFT_INTERNAL, "L2: graph %s has %jd collectives and counts %d",
                      x->p->graph->name, l.next, x->p->n_collectives);
}
