/* memory.c - the pass that gives every value of a scheduled program its offset in the arena.
 *
 *   1. gradients of a bucket are placed inside their bucket's buffer, at their member's offset;
 *   2. a pointwise result uses the buffer of an operand that dies there (in place);
 *   3. an update that is built from pointwise ops writes into the parameters and the state that it renews;
 *   4. all else are buffers with a lifetime [first write, last read] in steps of the schedule; a kernel's
 *      workspace lives for one step. Greedy by size (Pisarchyk and Lee, 2020, arXiv:2001.03288): the largest
 *      first, each at the lowest offset where it overlaps no buffer that lives at the same time.
 * Values that a program's deferred part (deferred.c) needs are at the arena's start, in the in-flight region
 * that all programs of the plan share. A buffer that is written before the program's first collective or
 * first write into the region is placed outside of it: until then another program's deferred part may be
 * pending there, afterwards it is done. Inputs are read in the caller's memory, parameters and state in the
 * store. */
#include "graph/core/compare.h"
#include "runtime/passes/placement.h"
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"
#include "ops/kit/ops.h"

#include <limits.h>
#include <stdlib.h>

typedef struct buffer {
    size_t bytes;
    int first, last; /* steps, both inclusive */
    int64_t offset;
    weft_value *value; /* one of these two: whose memory it is */
    weft_node *workspace_of;
    /* The deferred part needs it, so it is in the in-flight region. */
    bool is_in_flight;
} buffer;

typedef struct buffer_list {
    buffer *v; /* the largest first */
    int count, steps;
} buffer_list;

/* ---- lifetimes ---- */

/* root->mark becomes the step of its last read; for outputs, the number of steps. */
static void find_last_reads(weft_graph *g, int steps) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = n->order;
    for (weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i]) continue;
            weft_value *root = (weft_value *)value_root(n->in[i]);
            if (root->mark < n->order) root->mark = n->order;
        }
    for (graph_output *o = g->outputs; o; o = o->next) ((weft_value *)value_root(o->value))->mark = steps;
}

/* ---- 1: buckets ---- */

/* value->uses of a bucket becomes whether a collective overwrites it. */
static void find_overwritten(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next) {
        if (n->op == &weft_op_bucket) n->out[0].uses = false;
        if (n->op->writes & 1 && n->in[0]) n->in[0]->uses = true;
    }
}

/* A value that is read after the bucket was filled cannot be inside it if a collective overwrites it: a
 * gradient that two parameters share, or that is an output. value->mark is its last read. */
static bool may_lie_in(const weft_node *b, bool overwritten, const weft_value *v) {
    return value_is_arenas(v) && (!overwritten || v->mark <= b->order);
}

/* Rule 1 for gradients with memory of their own: f32 and row-major, as the bucket is. */
static void place_in_bucket(weft_node *b) {
    const weft_variable *s = b->variable;
    weft_value *flat = &b->out[0];
    bool overwritten = b->out[0].uses;
    for (int i = 0; i < b->n_in; i++) {
        weft_value *v = b->in[i];
        if (!may_lie_in(b, overwritten, v) || !lies_row_major(v) || v->type.dtype != WEFT_F32) continue;
        v->base = flat;
        v->base_offset = s->members[i]->offset;
    }
}

/* Rule 1 for a gradient that is a view of a whole buffer: that buffer is placed in the bucket. Not if it is
 * another bucket: two gradients that two buckets share would put each into the other. */
static void place_viewed(weft_node *b) {
    const weft_variable *s = b->variable;
    bool overwritten = b->out[0].uses;
    for (int i = 0; i < b->n_in; i++) {
        weft_value *v = b->in[i], *root = (weft_value *)value_root(v);
        if (root->node->op == &weft_op_bucket || !may_lie_in(b, overwritten, root)) continue;
        if (!lies_row_major(v) || !lies_row_major(root)) continue;
        if (value_offset(v) != 0 || type_bytes(&root->type) != type_bytes(&v->type)) continue;
        root->base = &b->out[0];
        root->base_offset = s->members[i]->offset;
    }
}

/* ---- 2: in place ---- */

/* Whether the result can use the operand's buffer: same type and strides, the whole buffer, and no later
 * reader. */
static bool can_take_over(const weft_node *n, const weft_value *result, const weft_value *operand) {
    const weft_value *root = value_root(operand);
    if (!value_is_arenas(root) || root->mark != n->order || root->node == n) return false;
    if (operand->type.dtype != result->type.dtype || !shape_equal(&operand->type, &result->type))
        return false;
    if (!stride_same(&operand->type, operand->stride, result->stride)) return false;
    return value_offset(operand) == 0 && value_span(root) == value_span(operand) &&
           value_span(operand) == type_bytes(&operand->type);
}

/* Whether the memory of operand `own` is that of another operand, too. A pointwise node may read one value
 * twice, since it reads each element before it writes there. */
static bool reads_root_otherwise(const weft_node *n, int own, bool pointwise) {
    const weft_value *operand = n->in[own];
    for (int i = 0; i < n->n_in; i++) {
        bool is_other = n->in[i] && i != own && !(pointwise && n->in[i] == operand);
        if (is_other && value_root(n->in[i]) == value_root(operand)) return true;
    }
    return false;
}

/* A fused node writes result k tile by tile when its body node runs: no body node after that one may read the
 * operand. */
static bool body_reads_later(const weft_node *n, int k, const weft_value *operand) {
    bool behind = false;
    for (int b = 0; b < n->n_body; b++) {
        for (int i = 0; behind && i < n->body[b]->n_in; i++)
            if (n->body[b]->in[i] == operand) return true;
        behind |= n->body_out[k] == &n->body[b]->out[0];
    }
    return false;
}

/* May result k have the memory of operand i? */
static bool takes_over(const weft_op *op, int k, int i) {
    return k == op->in_place_result && i < 32 && op->in_place >> i & 1;
}

/* Rule 2 for each result of n: the first operand that fits. The buffer then lives as long as the result. */
static void take_over(weft_node *n) {
    bool pointwise = n->op->flags & OP_POINTWISE || n->op == &weft_op_fused;
    for (int k = 0; k < n->n_out; k++) {
        weft_value *v = &n->out[k];
        if (!value_is_arenas(v)) continue;
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i] || !(pointwise || takes_over(n->op, k, i))) continue;
            weft_value *root = (weft_value *)value_root(n->in[i]);
            if (!can_take_over(n, v, n->in[i]) || reads_root_otherwise(n, i, pointwise)) continue;
            if (body_reads_later(n, k, n->in[i])) continue;
            if (root->mark < v->mark) root->mark = v->mark;
            v->base = root;
            v->base_offset = 0;
            break;
        }
    }
}

/* ---- 3: updates that are built from ops ---- */

/* Whether a node reads or writes memory of the variable. */
static bool touches(const weft_node *n, const weft_variable *owner) {
    bool found = false;
    for (int i = 0; i < n->n_in; i++) found |= n->in[i] && value_owner(n->in[i]) == owner;
    for (int k = 0; k < n->n_out; k++) found |= value_owner(&n->out[k]) == owner;
    return found;
}

/* Whether nothing between two nodes of the schedule touches the variable; false, too, where they are far
 * apart. */
static bool is_quiet(const weft_node *from, const weft_node *to, const weft_variable *owner) {
    enum { FAR = 64 };
    const weft_node *n = from->next;
    for (int i = 0; i < FAR && n && n != to; i++, n = n->next)
        if (touches(n, owner)) return false;
    return n == to;
}

/* May result k of n, which `renew` puts into the place of `old`, be written there at once? Element by element
 * n then reads the old one before it writes the new one. */
static bool renews_itself(const weft_node *n, int k, const weft_node *renew) {
    const weft_value *v = &n->out[k], *old = renew->in[0];
    bool pointwise = n->op->flags & OP_POINTWISE || n->op == &weft_op_fused, reads_old = false;
    if (!pointwise || !value_is_arenas(v) || !old->variable || old->base) return false;
    if (!type_equal(&v->type, &old->type) || !stride_same(&v->type, v->stride, old->stride)) return false;
    for (int i = 0; i < n->n_in; i++) {
        reads_old |= n->in[i] == old;
        if (n->in[i] && n->in[i] != old && value_owner(n->in[i]) == value_owner(old)) return false;
    }
    return reads_old && !body_reads_later(n, k, old) && is_quiet(n, renew, value_owner(old));
}

/* Rule 3: an update writes straight into the parameters or the state, and `renew` finds them there. One that
 * comes before the gate must not. */
static void renew_in_place(const weft_node *renew, const weft_node *gate) {
    weft_value *v = renew->in[2];
    if ((gate && v->node->order < gate->order) || !renews_itself(v->node, v->index, renew)) return;
    v->base = renew->in[0];
    v->base_offset = 0;
}

/* ---- 4: offsets ---- */

static int by_size(const void *pa, const void *pb) {
    const buffer *a = pa, *b = pb;
    return a->bytes != b->bytes ? by_number((int64_t)b->bytes, (int64_t)a->bytes)
                                : by_numbers(a->first, b->first, a->last, b->last);
}

/* Places the buffers in flight, or the others around those. A buffer that is first written before step
 * `settled` is placed at `floor` or above. *total becomes the end of the highest. */
static bool place_in(placement *map, const buffer_list *l, bool in_flight, int settled, uint64_t floor,
                     uint64_t *total) {
    for (int i = 0; i < l->count; i++) {
        const buffer *b = &l->v[i];
        if (!in_flight && b->is_in_flight &&
            !placement_add(map, b->first, b->last, b->offset, b->offset + (int64_t)b->bytes))
            return false;
    }
    for (int i = 0; i < l->count; i++) {
        buffer *b = &l->v[i];
        if (b->is_in_flight != in_flight) continue;
        int64_t from = b->first < settled ? (int64_t)floor : 0, bytes = (int64_t)b->bytes;
        b->offset = placement_find(map, b->first, b->last, bytes, from);
        if (!placement_add(map, b->first, b->last, b->offset, b->offset + bytes)) return false;
        if ((uint64_t)(b->offset + bytes) > *total) *total = (uint64_t)(b->offset + bytes);
    }
    return true;
}

static bool place_buffers(program *p, bool in_flight, int settled, uint64_t floor, uint64_t *total) {
    weft_graph *g = p->graph;
    placement map;
    *total = 0;
    bool good = placement_open(&map, &g->model->env, p->buffers->steps, p->buffers->count) &&
                place_in(&map, p->buffers, in_flight, settled, floor, total);
    placement_close(&map);
    return good;
}

/* first[id of a root] becomes the first step that writes into it: members of a bucket are written before the
 * bucket's own node. */
static void find_first_writes(weft_graph *g, int *first) {
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) first[n->out[k].id] = n->order;
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *root = value_root(&n->out[k]);
            if (n->order < first[root->id]) first[root->id] = n->order;
        }
}

/* Fills list with all buffers, values and workspaces; returns how many. */
static int collect_buffers(program *p, buffer *list, const int *first) {
    int count = 0;
    for (weft_node *n = p->graph->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) {
            weft_value *v = &n->out[k];
            if (!value_is_arenas(v)) continue;
            list[count++] = (buffer){.bytes = size_align(value_span(v), MEM_ALIGN),
                                     .first = first[v->id],
                                     .last = (int)v->mark,
                                     .value = v};
        }
        if (n->workspace_bytes)
            list[count++] = (buffer){.bytes = size_align(n->workspace_bytes, MEM_ALIGN),
                                     .first = n->order,
                                     .last = n->order,
                                     .workspace_of = n};
    }
    return count;
}

/* Marks the buffers that nodes of the deferred part read or make, and their workspaces. */
static void mark_in_flight(const program *p, buffer_list *l, bool *is_deferred) {
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->order < p->deferred || node_is_silent(n)) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) is_deferred[value_root(n->in[i])->id] = true;
        for (int k = 0; k < n->n_out; k++) is_deferred[value_root(&n->out[k])->id] = true;
    }
    for (int i = 0; i < l->count; i++)
        l->v[i].is_in_flight = l->v[i].value ? is_deferred[l->v[i].value->id] : l->v[i].first >= p->deferred;
}

/* The first step at which no other program's deferred part can be pending any more. */
static int settled_from(const program *p) {
    int first = INT_MAX;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (node_starts_collective(n) && n->order < first) first = n->order;
    for (int i = 0; i < p->buffers->count; i++)
        if (p->buffers->v[i].is_in_flight && p->buffers->v[i].first < first) first = p->buffers->v[i].first;
    return first;
}

/* Sets node->workspace_bytes from the kernels; rounded up when buffers are collected. */
static bool find_workspaces(program *p) {
    for (weft_node *n = p->graph->first; n; n = n->next) {
        n->workspace_bytes =
            n->kernel && n->kernel->workspace ? n->kernel->workspace(n, &p->plan->kernels) : 0;
        if (n->workspace_bytes == SIZE_MAX)
            return graph_fail(p->graph, WEFT_MEMORY,
                              "%s: the size of its workspace is unknown: out of memory", n->op->name);
    }
    return true;
}

/* Puts values into other values' buffers (rules 1 to 3); last reads change between the two. */
static void share_buffers(weft_graph *g, int nodes) {
    const weft_node *gate = NULL;
    find_last_reads(g, nodes);
    find_overwritten(g);
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_bucket) place_in_bucket(n);
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_bucket) place_viewed(n);
    for (weft_node *n = g->first; n; n = n->next) gate = n->op == &weft_op_gate ? n : gate;
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_renew) renew_in_place(n, gate);
    find_last_reads(g, nodes);
    for (weft_node *n = g->first; n; n = n->next) take_over(n);
}

/* The first half of the pass, for all programs: the plan's in-flight region is as large as the largest of
 * theirs. */
bool memory_place_in_flight(program *p) {
    weft_graph *g = p->graph;
    int nodes = g->n_nodes, values = 0;
    if (!find_workspaces(p)) return false;
    for (weft_node *n = g->first; n; n = n->next) values += n->n_out + 1;
    buffer_list *l = model_array(g->model, 1, sizeof *l);
    int *first = scratch_array(g->model, g->next_id, sizeof *first);
    bool *is_deferred = scratch_array(g->model, g->next_id, sizeof *is_deferred);
    if (l) l->v = model_array(g->model, values, sizeof *l->v);
    if (!l || !l->v || !first || !is_deferred) return false;
    share_buffers(g, nodes);
    find_first_writes(g, first);
    l->count = collect_buffers(p, l->v, first);
    mark_in_flight(p, l, is_deferred);
    qsort(l->v, (size_t)l->count, sizeof *l->v, by_size);
    p->buffers = l;
    l->steps = nodes + 1; /* outputs live past the last node */
    bool is_any = false;
    for (int i = 0; i < l->count; i++) is_any |= l->v[i].is_in_flight;
    return !is_any || place_buffers(p, true, 0, 0, &p->in_flight_bytes);
}

/* The second half: everything outside the region, then offsets into values and nodes. */
bool pass_memory(program *p) {
    const buffer_list *l = p->buffers;
    if (!place_buffers(p, false, settled_from(p), p->plan->in_flight_bytes, &p->arena_bytes)) return false;
    if (p->in_flight_bytes > p->arena_bytes) p->arena_bytes = p->in_flight_bytes;
    for (int i = 0; i < l->count; i++) {
        if (l->v[i].value)
            l->v[i].value->arena_offset = l->v[i].offset;
        else
            l->v[i].workspace_of->workspace_offset = l->v[i].offset;
        if (l->v[i].workspace_of && l->v[i].bytes > p->workspace_bytes) p->workspace_bytes = l->v[i].bytes;
    }
    p->buffers = NULL;
    return true;
}
