/* order.c - the pass that fixes the order of the nodes: deterministic, and with a low peak of live bytes.
 *
 * On one rank low_peak.c chooses between the order of the list and a greedy one. In a world of several ranks,
 * buckets and their collectives come directly after their last gradient, waits and updates at the end; what
 * is between overlaps the collective. ZeRO 2 differs: the wait for a bucket, and the copy of this rank's
 * range out of it, come after the start of the next sum but one, so that only two buckets live at a time.
 * `serial` puts each wait directly after its start. Otherwise nodes that read no parameters which other
 * graphs train come first: those may still be on their way (deferred.c). */
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/value.h"

#include "ops/structure/collective.h"
#include "ops/kit/ops.h"

#include <string.h>

/* distance between the marks of neighbours in the list; nodes that move get marks in between */
enum { SPACING = 1 << 24 };

/* Nodes that ranks must run in one order, though each updates something else, so they cannot move towards
 * what they read: waits, and all collectives but those that sum buckets or a guard's flags (a norm's sum
 * reads this rank's ranges). */
static bool must_stay(const weft_node *n) {
    bool sums_bucket = n->op->writes && n->variable && n->variable->kind == VARIABLE_BUCKET;
    bool sums_flags = n->n_in && n->in[0] && n->in[0]->node->op == &weft_op_guard;
    return n->op == &weft_op_wait || (node_starts_collective(n) && !sums_bucket && !sums_flags);
}

/* The update of a bucket is ready long before the end of the list. Each update node moves up to directly
 * after the last node that it waits for, and after those that moved there before. The list stays sorted by
 * mark. */
static bool hoist(weft_graph *g, int count) {
    int64_t moved = 0;
    weft_node **behind = scratch_array(g->model, count, sizeof *behind);
    if (!behind) return false;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!n->is_update || must_stay(n)) continue;
        weft_node *after = NULL;
        int64_t latest = -1;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->node->mark > latest) latest = (after = n->in[i]->node)->mark;
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->mark > latest) latest = (after = n->after[i])->mark;
        /* Reads of accumulated gradients wait for nothing; at the end they would hold back the sums over
         * ranks. */
        if (!after && n->variable && n->variable->kind == VARIABLE_GRADIENT)
            latest = (after = g->first)->mark;
        if (!after || after == n) continue;
        /* the last of those that moved to after one node of the list */
        weft_node **last = &behind[latest / SPACING];
        n->mark = latest / SPACING * SPACING + ++moved;
        if (*last) after = *last;
        if (after != n->prev) node_move_after(n, after);
        *last = n;
    }
    return true;
}

/* ---- early waits ---- */

/* Look-ups about waits, by place in the list before any moves (node->order): wait[at], the wait for the
 * collective at `at`; reader[at], the first view or copy of a result of that node, and next[], the next one
 * of the same node. -1: none. */
typedef struct wait_index {
    weft_node **list;
    int *wait, *reader, *next;
} wait_index;

static bool is_view_or_copy(const weft_node *n) {
    return (n->op->flags & OP_VIEW || n->op == &weft_op_reorder) && n->n_in == 1;
}

static bool index_waits(wait_index *x, weft_graph *g, int count) {
    weft_model *m = g->model;
    int at = 0;
    x->list = scratch_array(m, count, sizeof *x->list);
    x->wait = scratch_array(m, count, sizeof *x->wait);
    x->reader = scratch_array(m, count, sizeof *x->reader);
    x->next = scratch_array(m, count, sizeof *x->next);
    if (!x->list || !x->wait || !x->reader || !x->next) return false;
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = at;
        x->wait[at] = x->reader[at] = x->next[at] = -1;
        x->list[at++] = n;
    }
    while (at--) { /* from the end, so that reader[] ends as the first one */
        const weft_node *n = x->list[at], *of = n->n_in && n->in[0] ? n->in[0]->node : NULL;
        if (n->op == &weft_op_wait) x->wait[of->order] = at;
        if (!is_view_or_copy(n)) continue;
        x->next[at] = x->reader[of->order];
        x->reader[of->order] = at;
    }
    return true;
}

/* The first in a list of readers that comes after place `at`. */
static int behind_place(const wait_index *x, int reader, int at) {
    while (reader >= 0 && reader <= at) reader = x->next[reader];
    return reader;
}

/* Moves a wait to after `place`, with the views of its result and their copies in the order of the list:
 * always the next reader of the wait's result or of the last node moved. */
static void move_wait(const wait_index *x, weft_node *wait, weft_node *place) {
    int at = wait->order, own = x->reader[at], theirs = -1;
    weft_node *last = wait;
    node_move_after(wait, place);
    for (;;) {
        own = behind_place(x, own, at);
        theirs = last == wait ? -1 : behind_place(x, x->reader[last->order], at);
        if (own < 0 && theirs < 0) return;
        at = own < 0 || (theirs >= 0 && theirs < own) ? theirs : own;
        node_move_after(x->list[at], last);
        last = x->list[at];
    }
}

/* ZeRO 2: this rank's range is copied out of the bucket's sum (reduction_own). */
static bool is_copied_out(const program *p, const weft_node *start) {
    return start->op == &weft_op_reduce_scatter && p->phase == PHASE_WHOLE &&
           p->plan->subgraphs[start->variable->subgraph].ddp.zero == 2;
}

/* serial: every wait goes to its start. ZeRO 2: the wait for each sum goes to the start of the next but one,
 * unless it comes before that already: waits move up only, or the updates between would lose their gradients.
 */
static bool place_waits(program *p, int count) {
    weft_node *behind[2] = {0}; /* waits for the last two sums */
    wait_index x;
    if (!p->n_collectives) return true;
    if (!index_waits(&x, p->graph, count)) return false;
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next;
        weft_node *wait =
            node_starts_collective(n) && x.wait[n->order] >= 0 ? x.list[x.wait[n->order]] : NULL;
        if (wait && p->plan->options.serial) move_wait(&x, wait, n);
        if (!wait || p->plan->options.serial || !is_copied_out(p, n)) continue;
        if (behind[0] && behind[0]->order > n->order) move_wait(&x, behind[0], n);
        behind[0] = behind[1];
        behind[1] = wait;
    }
    return true;
}

/* ---- what an earlier run may have left in flight ---- */

/* By index of a parameter: whether this graph trains it. NULL when memory is out. */
static bool *trained_here(const program *p) {
    weft_model *m = p->plan->model;
    bool *own = scratch_array(m, m->n_variables, sizeof *own);
    for (int i = 0; own && i < p->plan->n_trainings; i++) {
        const training *t = &p->plan->trainings[i];
        if (strcmp(t->name, p->name)) continue;
        for (const weft_variable *v = m->variables; v; v = v->next)
            if (v->kind == VARIABLE_PARAMETER) own[v->index] |= t->trains[v->index];
    }
    return own;
}

/* Another graph of the plan trains the parameter (so it is in a bucket), and this one does not. */
static bool is_foreign(const weft_variable *v, const bool *own) {
    return v && v->kind == VARIABLE_PARAMETER && v->bucket && !own[v->index];
}

/* Whether n reads or follows a marked node. Marked nodes stay after those that are not. */
static bool follows_marked(const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->node->mark) return true;
    for (int i = 0; i < n->n_after; i++)
        if (n->after[i]->mark) return true;
    return false;
}

/* Nodes that depend on no foreign parameter come first, otherwise in the order of the list: for a GAN's
 * discriminator, the forward and the backward of real images. A program with a collective in its forward
 * waits for everything there anyway. */
static bool foreign_last(const program *p) {
    weft_node *last = NULL;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (node_starts_collective(n) && !n->is_update) return true;
    bool *own = trained_here(p);
    if (!own) return false;
    for (weft_node *n = p->graph->first, *next; n; n = next) {
        next = n->next;
        n->mark = n->is_update || follows_marked(n);
        for (int i = 0; i < n->n_in; i++)
            n->mark |= n->in[i] && is_foreign(value_root(n->in[i])->variable, own);
        if (n->mark) continue;
        if (n->prev != last) node_move_after(n, last);
        last = n;
    }
    return true;
}

/* Numbers that depend on no wait, such as the step and its rate, move to before the waits and views at the
 * end of the list, or after the gate. So a deferred part (deferred.c) may begin at the first of these
 * waits. */
static void numbers_first(weft_graph *g) {
    weft_node *first = NULL;
    for (weft_node *n = g->last; n && (n->is_update || node_is_silent(n)); n = n->prev) {
        if (n->op == &weft_op_gate) break;
        if (n->op == &weft_op_wait) first = n;
    }
    for (weft_node *n = g->first; n && n != first; n = n->next) n->mark = 0;
    for (weft_node *n = first, *next; n; n = next) {
        next = n->next;
        n->mark = must_stay(n) || follows_marked(n);
        if (!n->mark) node_move_after(n, first->prev);
    }
}

/* The list becomes the schedule; collectives get their numbers in its order. */
static void pin(weft_graph *g, weft_node **order, int count) {
    int64_t collectives = 0;
    graph_relink(g, order, count);
    for (int i = 0; i < count; i++) {
        order[i]->order = i;
        if (node_starts_collective(order[i])) ((collective_attrs *)order[i]->attrs)->order = collectives++;
    }
}

/* Moves a node and the nodes that it is made from, of one operand each, to after *place, down to a variable
 * or an input. Longer chains stay. */
static void move_chain(weft_node *n, weft_node **place) {
    weft_node *chain[8];
    int count = 0;
    for (weft_node *m = n; m && count < 8; m = m->n_in ? m->in[0]->node : NULL) chain[count++] = m;
    if (chain[count - 1]->n_in) return;
    while (count--) {
        if (chain[count]->mark < 0) continue; /* it has moved already */
        node_move_after(chain[count], *place);
        chain[count]->mark = -1;
        *place = chain[count];
    }
}

static void move_kind(weft_graph *g, launch_kind wanted, weft_node **place) {
    launch_kind kind;
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->mark >= 0 && launch_kind_of(n, &kind) && kind == wanted) move_chain(n, place);
    }
}

/* For a GPU: uploads of inputs come first and derived values next, so that each kind is one launch. With ZeRO
 * derived values stay: each waits for the gather of its own bucket. */
static void gather_launches(program *p) {
    weft_node *place = NULL;
    bool is_sharded = false;
    if (p->plan->options.device == WEFT_DEVICE_CPU) return;
    for (weft_node *n = p->graph->first; n; n = n->next) n->mark = 0;
    for (const weft_variable *v = p->graph->model->variables; v; v = v->next) is_sharded |= v->shards != NULL;
    move_kind(p->graph, LAUNCH_UPLOAD, &place);
    if (!is_sharded) move_kind(p->graph, LAUNCH_REFRESH, &place);
}

/* The pass. `plain` is the list before updates moved up, `list` afterwards; in a world only the second is
 * used. */
bool pass_order(program *p) {
    weft_graph *g = p->graph;
    int count = 0;
    bool overlaps = p->n_collectives && !p->plan->options.serial;
    gather_launches(p);
    if (overlaps && !foreign_last(p)) return false;
    for (weft_node *n = g->first; n; n = n->next) n->mark = SPACING * (int64_t)count++;
    weft_node **plain = scratch_array(g->model, count, sizeof *plain);
    weft_node **list = scratch_array(g->model, count, sizeof *list);
    if (!plain || !list) return false;
    count = 0;
    for (weft_node *n = g->first; n; n = n->next) plain[count++] = n;
    if (!hoist(g, count) || !place_waits(p, count) || (overlaps && !collective_order(p))) return false;
    if (overlaps) numbers_first(g);
    count = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->order = count;
        list[count++] = n;
    }
    /* in a world sums begin early and are awaited late */
    weft_node **order = p->n_collectives ? list : order_low_peak(g, list, plain, count);
    if (order) pin(g, order, count);
    return order;
}
