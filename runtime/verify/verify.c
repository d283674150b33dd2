/* verify.c - proves a scheduled program right, with code of its own: it plays the schedule on a map of
 * memory.
 *
 * The map says for every byte of the arena and of each variable which value was written there last. When a
 * node is played, every operand must find its own value in all bytes that it reads; then the node's results
 * claim theirs. A buffer that is reused too early, a read before its write, a lost in-place result and an
 * update that overtakes a reader all show in the same way: an operand finds another value. n nodes take about
 * n log n steps. Rules:
 *   V1  operands are made before they are read, in the order of the schedule
 *   V2  every byte that an operand reads holds that operand's value
 *   V3  results and workspace of a node overlap neither each other nor its operands (except results that are
 *       declared to be in an operand's place, which nothing else in the node reads), and stay in the arena
 *   V4  a variable is read in the version that the building order gives: parameters before any update, state
 *       and assigned parameters after exactly the assigns built before; assigns run in the order in which
 *       they were built, and none where updates are; nothing else writes into a variable, but what a `renew`
 *       puts there may be there already
 *   V5  at the end, outputs hold their values
 */
#include "runtime/verify/map.h"
#include "runtime/plan/value.h"
#include "ops/kit/ops.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A node writes a variable, or the bucket that contains it. */
typedef struct writing {
    int owner; /* index of the variable */
    int id;    /* of the node; ids grow in the order of building */
} writing;

typedef struct prover {
    verify_index *x;
    verify_map map;    /* an extent's owner is a value; NULL: a workspace */
    writing *writings; /* sorted by owner, then id */
    int n_writings;
    int64_t *versions;  /* by index of a variable: how many writes have been played */
    bool assigns_parts; /* there is an assign to a parameter in a bucket */
    /* Outputs are being checked: failures are V5's. */
    bool is_at_end;
} prover;

/* The value whose bytes a value reads: a view's are those of the value that it views. */
static const weft_value *content(const weft_value *v) {
    while (v->node->op->flags & OP_VIEW && v->base == v->node->in[0]) v = v->base;
    return v;
}

/* ---- the map ---- */

/* Whether `renew` finds what it puts into the place of its first operand there. */
static bool is_renewed(const weft_node *renew, const weft_value *v) {
    return renew->op == &weft_op_renew && v == renew->in[2] && v->base == renew->in[0] && !v->base_offset &&
           type_equal(&v->type, &v->base->type);
}

/* Whether an extent of `owner` still holds `wanted`: a bucket's node claims the whole bucket, with its
 * members' values in it, and a `renew` what was there already. */
static bool holds(const weft_value *owner, const weft_value *wanted) {
    if (owner == wanted || !owner) return owner == wanted;
    return (owner->node->op == &weft_op_bucket && wanted->base == owner) || is_renewed(owner->node, wanted);
}

/* The first value in r that does not hold `wanted`; NULL: none. *none: some bytes were never written. A
 * workspace counts as a made-up value. */
static const weft_value *intruder(const prover *p, verify_range r, const weft_value *wanted, bool *none) {
    static const weft_node nobody_node = {.op = &weft_op_bucket, .scope = ""};
    static const weft_value scratch = {.node = (weft_node *)&nobody_node, .id = -1};
    *none = false;
    for (const verify_extent *e = verify_map_first(&p->map, r); e; e = verify_map_first(&p->map, r)) {
        if (!holds(e->owner, wanted)) return e->owner ? e->owner : &scratch;
        *none |= e->range.begin > r.begin;
        r.begin = e->range.end;
    }
    *none |= r.begin < r.end;
    return NULL;
}

static bool memory_broken(prover *p, const char *rule, const weft_node *n, const weft_value *v,
                          const char *what, const weft_value *other) {
    char node[200], maker[200] = "nobody";
    node_show(n, node);
    if (other) node_show(other->node, maker);
    return !error_set(&p->x->error, WEFT_INTERNAL, "%s: graph %s, step %d, %s: value %%%d %s%s%s",
                      p->is_at_end ? "V5" : rule, p->x->p->graph->name, n->order, node, v ? v->id : -1, what,
                      other ? " " : "", other ? maker : "");
}

/* ---- rules ---- */

/* A result in the place of what a variable held, which no view is: only a pointwise node may, for a later
 * `renew` of that variable, which counts as the write. */
static bool is_unasked_write(const weft_node *n, const weft_value *v) {
    const weft_value *root = v;
    while (root->base) root = root->base;
    if (root == v || !(root->node->op->flags & OP_IS_VARIABLE)) return false;
    if (n->op->flags & OP_VIEW || n->op->writes) return false;
    if (!(n->op->flags & OP_POINTWISE) && n->op != &weft_op_fused) return true;
    const weft_node *to = n->next;
    while (to && !is_renewed(to, v)) to = to->next;
    return !to;
}

/* A view with gaps reads less than its span, but the whole span is checked: a view's bytes are its base's,
 * whose claim covers them all. */
static bool check_read(prover *p, const weft_node *n, const weft_value *v) {
    verify_range r;
    bool none;
    const weft_value *mine = content(v);
    if (!verify_locate(v, &r)) return true;
    if (n->op == &weft_op_renew && v == n->in[0] && is_renewed(n, n->in[2])) mine = n->in[2];
    if (r.begin < 0) return memory_broken(p, "V1", n, v, "has no place in memory", NULL);
    const weft_value *other = intruder(p, r, mine, &none);
    if (other) return memory_broken(p, "V2", n, v, "is overwritten by", other);
    if (none && !r.space) return memory_broken(p, "V1", n, v, "is read before it is written", NULL);
    return true;
}

/* Whether an operand of n is inside the bytes of result `v`, except as a part of v (a bucket's members). */
static bool reads_bytes(const weft_node *n, const weft_value *v, verify_range range) {
    verify_range r;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !verify_lies_in(n->in[i], v) && verify_locate(n->in[i], &r) && ranges_meet(r, range))
            return true;
    return false;
}

/* Whether result `v` is in the place of an operand that n also reads as another one. A node that computes
 * element by element may: it reads each element before it writes there. */
static bool is_read_twice(const weft_node *n, const weft_value *v, verify_range range) {
    verify_range r;
    int meeting = 0;
    if (!v->base || n->op->flags & (OP_VIEW | OP_POINTWISE) || n->op == &weft_op_fused) return false;
    for (int i = 0; i < n->n_in; i++)
        meeting += n->in[i] && verify_locate(n->in[i], &r) && ranges_meet(r, range);
    return meeting > 1;
}

/* V1 and V3 for each result, which then claims its bytes. Members have written into their bucket; its node
 * owns the whole. */
static bool claim_results(prover *p, const weft_node *n) {
    verify_range r, w, other;
    bool has_workspace = verify_touched(n, 0, &w);
    for (int k = 0; k < n->n_out; k++) {
        if (!verify_locate(&n->out[k], &r)) continue;
        if (r.begin < 0) return memory_broken(p, "V1", n, &n->out[k], "has no place in memory", NULL);
        if (!r.space && (uint64_t)r.end > p->x->p->arena_bytes)
            return memory_broken(p, "V3", n, &n->out[k], "leaves the arena", NULL);
        if (has_workspace && ranges_meet(r, w))
            return memory_broken(p, "V3", n, &n->out[k], "overlaps its node's workspace", NULL);
        if (!n->out[k].base && !r.space && reads_bytes(n, &n->out[k], r))
            return memory_broken(p, "V3", n, &n->out[k], "overlaps an operand without being in its place",
                                 NULL);
        if (is_unasked_write(n, &n->out[k]))
            return memory_broken(p, "V4", n, &n->out[k], "overwrites a variable that it may only read", NULL);
        if (is_read_twice(n, &n->out[k], r))
            return memory_broken(p, "V3", n, &n->out[k], "is in the place of an operand that is read again",
                                 NULL);
        for (int i = 0; i < k; i++)
            if (verify_locate(&n->out[i], &other) && ranges_meet(r, other))
                return memory_broken(p, "V3", n, &n->out[k], "overlaps another result of its node", NULL);
        verify_map_claim(&p->map, r, &n->out[k]);
    }
    return true;
}

/* V3 for the workspace, which then claims its bytes as nobody's value. */
static bool check_workspace(prover *p, const weft_node *n) {
    verify_range w, r;
    if (!verify_touched(n, 0, &w)) return true;
    if (w.begin < 0 || (uint64_t)w.end > p->x->p->arena_bytes)
        return memory_broken(p, "V3", n, NULL, "workspace leaves the arena", NULL);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && verify_locate(n->in[i], &r) && ranges_meet(r, w))
            return memory_broken(p, "V3", n, n->in[i], "overlaps the workspace of its reader", NULL);
    verify_map_claim(&p->map, w, NULL);
    return true;
}

/* ---- V4: how many writes of a variable were played before a read, against how many were built before it
 * ---- */

/* Parts of a bucket are updated together, but assigned one by one: then each is counted alone. */
static const weft_variable *owner_of(const prover *p, const weft_variable *v) {
    return variable_is_part(v) && !p->assigns_parts ? v->bucket : v;
}

/* The variables that a node writes, each once; list has room for 33 (OP_WRITES and 32 operands). Returns how
 * many. */
static int written_by(const prover *p, const weft_node *n, const weft_variable **list) {
    int count = 0;
    if (n->op->flags & OP_WRITES && n->variable) list[count++] = owner_of(p, n->variable);
    for (int i = 0; n->op->writes && i < n->n_in && i < 32; i++) {
        const weft_variable *owner =
            n->op->writes >> i & 1 && n->in[i] && n->in[i]->variable ? owner_of(p, n->in[i]->variable) : NULL;
        bool again = !owner;
        for (int k = 0; k < count; k++) again |= list[k] == owner;
        if (!again) list[count++] = owner;
    }
    return count;
}

static int by_owner(const void *pa, const void *pb) {
    const writing *a = pa, *b = pb;
    return a->owner != b->owner ? (a->owner > b->owner) - (a->owner < b->owner)
                                : (a->id > b->id) - (a->id < b->id);
}

static bool assigns_part(const weft_node *n) {
    return n->op->flags & OP_WRITES && n->variable && variable_is_part(n->variable);
}

/* V4: whether the program assigns to parts of buckets. It may not update any in place then. */
static bool find_assigns(prover *p) {
    const weft_node *assign = NULL, *update = NULL;
    for (const weft_node *n = p->x->p->graph->first; n; n = n->next) {
        if (assigns_part(n)) assign = n;
        for (int i = 0; i < n->n_in && i < 32; i++)
            if (n->op->writes >> i & 1 && n->in[i] && n->in[i]->variable) update = n;
    }
    p->assigns_parts = assign != NULL;
    if (!assign || !update) return true;
    return memory_broken(p, "V4", assign, &assign->out[0], "is assigned in a program with the update",
                         &update->out[0]);
}

/* One list for all variables, sorted, so that each question is a binary search. */
static bool find_writings(prover *p) {
    const weft_variable *list[33];
    int room = 0;
    for (const weft_node *n = p->x->p->graph->first; n; n = n->next) room += written_by(p, n, list);
    p->writings = verify_array(p->x, room, sizeof *p->writings);
    if (!p->writings) return false;
    for (const weft_node *n = p->x->p->graph->first; n; n = n->next) {
        int count = written_by(p, n, list);
        for (int k = 0; k < count; k++) p->writings[p->n_writings++] = (writing){list[k]->index, n->id};
    }
    qsort(p->writings, (size_t)p->n_writings, sizeof *p->writings, by_owner);
    return true;
}

/* How many writings come before (owner, id). Binary search. */
static int writings_before(const prover *p, int owner, int id) {
    int low = 0, high = p->n_writings;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (by_owner(&p->writings[middle], &(writing){owner, id}) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* V4 for a read: as many writes must have been played as were built before the read. What a node has put into
 * a variable's place is not a version of it until it is renewed: V2 proves that it is there. */
static bool check_version(prover *p, const weft_node *n, const weft_value *v) {
    const weft_value *root = value_root(v);
    if (!root->variable || content(v) != root) return true;
    int owner = owner_of(p, root->variable)->index;
    int64_t now = p->versions[owner];
    bool is_first = root->node->op == &weft_op_parameter;
    int64_t wanted =
        is_first ? 0 : writings_before(p, owner, root->node->id + 1) - writings_before(p, owner, INT_MIN);
    bool is_written =
        /* gradient buffers and results of updates are ordered as operands are */
        root->variable->kind == VARIABLE_GRADIENT || root->node->op->writes;
    if (now == wanted || is_written) return true;
    return memory_broken(p, "V4", n, v,
                         now > wanted ? "is read after a later write" : "is read before an earlier write",
                         NULL);
}

/* V4 for a write: an assign runs when all earlier writes of its variable have run, and no later one. */
static bool count_writes(prover *p, const weft_node *n) {
    const weft_variable *list[33];
    int count = written_by(p, n, list);
    for (int k = 0; k < count; k++) {
        int owner = list[k]->index;
        int64_t earlier = writings_before(p, owner, n->id) - writings_before(p, owner, INT_MIN);
        if (n->op->flags & OP_WRITES && p->versions[owner] != earlier)
            return memory_broken(p, "V4", n, n->n_out ? &n->out[0] : NULL, "is written out of turn", NULL);
        p->versions[owner]++;
    }
    return true;
}

/* Checks one node against the map, then enters what it writes. Silent nodes read and write nothing. */
static bool play(prover *p, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        if (n->in[i]->node->order >= n->order)
            return memory_broken(p, "V1", n, n->in[i], "is made after its reader", NULL);
        if (!node_is_silent(n) && (!check_read(p, n, n->in[i]) || !check_version(p, n, n->in[i])))
            return false;
    }
    if (node_is_silent(n)) return true;
    return check_workspace(p, n) && claim_results(p, n) && count_writes(p, n) && !p->map.is_out_of_memory;
}

bool verify_memory(verify_index *x) {
    prover p = {.x = x, .map = {.memory = &x->memory}};
    p.versions = verify_array(x, x->n_variables, sizeof *p.versions);
    if (!find_assigns(&p) || !find_writings(&p) || !p.versions) return false;
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (!play(&p, n)) return false;
    p.is_at_end = true;
    for (const graph_output *o = x->p->graph->outputs; o; o = o->next)
        if (!check_read(&p, o->value->node, o->value)) return false;
    return true;
}

/* The checks of one program: layouts, memory, collectives, buckets, launches. */
weft_status verify_program(const program *p, weft_error *error) {
    verify_index x;
    bool good = verify_index_open(&x, p->plan, p) && verify_layouts(&x) && verify_memory(&x) &&
                verify_collectives(&x) && verify_buckets(&x) && verify_updates(&x) && verify_guard(&x) &&
                verify_summed(&x) && verify_streams(&x);
    return verify_index_close(&x, good, error);
}

bool pass_verify(program *p) {
    weft_error error = {0};
    return !verify_program(p, &error) || model_fail(p->graph->model, NULL, error.status, "%s", error.text);
}

bool pass_verify_plan(weft_plan *plan) {
    weft_error error = {0};
    return !verify_plan(plan, &error) || model_fail(plan->model, NULL, error.status, "%s", error.text);
}

weft_status weft_plan_verify(const weft_plan *plan, weft_error *error) {
    if (!plan || !plan->can_run)
        return error_set(error, WEFT_ORDER, "verify: the plan was stopped early and is not whole");
    for (int i = 0; i < plan->n_programs; i++) {
        weft_status status = verify_program(&plan->programs[i], error);
        if (status) return status;
    }
    return verify_plan(plan, error);
}
