/* mutants.c - mutants of memory and streams; see mutants.h. */
#include "support/mutants/mutants.h"

#include "ops/structure/collective.h"
#include "ops/kit/ops.h"
#include "runtime/plan/value.h"

/* ---- kinds of nodes ---- */

bool is_start(const weft_node *n) {
    return node_starts_collective(n) && n->op != &weft_op_all_gather;
}
bool is_sum(const weft_node *n) {
    return is_start(n) && n->variable && n->variable->kind == VARIABLE_BUCKET;
}
bool is_gather(const weft_node *n) {
    return n->op == &weft_op_all_gather && !mutant_wait(n);
}
bool is_bucket(const weft_node *n) {
    return n->op == &weft_op_bucket;
}
bool is_update(const weft_node *n) {
    return n->op->writes && n->n_in > 3 && mutant_bucket(n);
}
bool is_busy(const weft_node *n) {
    return !node_is_silent(n) && !(n->op->flags & OP_COMMUNICATES);
}
static bool is_awaited(const weft_node *n) {
    return is_start(n) && mutant_wait(n);
}
static bool has_place(const weft_node *n) {
    return is_busy(n) && n->n_out && n->out[0].arena_offset >= 0;
}

weft_variable *mutant_bucket(const weft_node *n) {
    weft_variable *v = n->n_in && n->in[0] ? n->in[0]->variable : NULL;
    return v && v->kind == VARIABLE_SHARD ? v->bucket : v && v->kind == VARIABLE_BUCKET ? v : NULL;
}

weft_node *mutant_wait(const weft_node *start) {
    for (weft_node *n = start->next; n; n = n->next)
        if (n->op == &weft_op_wait && n->in[0]->node == start) return n;
    return NULL;
}

weft_node *mutant_pick(const victim *v, is_kind fits) {
    weft_node *chosen = NULL;
    uint64_t seen = 0;
    for (weft_node *n = v->g->first; n; n = n->next)
        if (fits(n) && random_bits(v->r) % ++seen == 0) chosen = n;
    return chosen;
}

void mutant_renumber(weft_graph *g) {
    int order = 0;
    for (weft_node *n = g->first; n; n = n->next) n->order = order++;
}

void mutant_bypass(weft_graph *g, weft_value *from, weft_value *to) {
    graph_replace(g, from, to);
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k].base == from) n->out[k].base = to;
}

static void move(const victim *v, weft_node *n, weft_node *place) {
    node_move_after(n, place);
    mutant_renumber(v->g);
}

/* The last node that reads from a buffer, or else its maker; NULL: other values lie in it too. */
static const weft_node *last_reader(const weft_value *buffer) {
    const weft_node *last = buffer->node;
    for (const weft_node *n = buffer->node->next; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++)
            if (value_root(&n->out[k]) == buffer) return NULL;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == buffer) last = n;
    }
    return last;
}

/* ---- order ---- */

static bool read_before_made(const victim *v) {
    weft_node *n = mutant_pick(v, is_busy), *maker = NULL;
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i] && is_busy(n->in[i]->node)) maker = n->in[i]->node;
    if (!maker) return false;
    move(v, n, maker->prev);
    return true;
}

static bool start_too_early(const victim *v) {
    weft_node *start = mutant_pick(v, is_start);
    if (!start || !is_busy(start->in[0]->node)) return false;
    move(v, start, start->in[0]->node->prev);
    return true;
}

/* A copy of a parameter that is fetched, made after the update that it must precede. */
static bool copy_after_update(const victim *v) {
    weft_node *u = mutant_pick(v, is_update);
    for (weft_node *n = v->g->first; u && n != u; n = n->next) {
        const weft_variable *read = n->n_in ? value_root(n->in[0])->variable : NULL;
        if (!is_busy(n) || !read || read->kind != VARIABLE_PARAMETER || read->bucket != mutant_bucket(u))
            continue;
        if (last_reader(&n->out[0]) != n || n->out[0].base || n->n_in != 1) continue;
        move(v, n, u);
        return true;
    }
    return false;
}

/* ---- memory ---- */

static bool reuse_too_early(const victim *v) {
    weft_node *maker = mutant_pick(v, has_place);
    const weft_node *last = maker ? last_reader(&maker->out[0]) : NULL;
    for (weft_node *n = last && last != maker ? maker->next : NULL; n && n != last; n = n->next) {
        if (!has_place(n) || random_bits(v->r) % 2) continue;
        n->out[0].arena_offset = maker->out[0].arena_offset;
        return true;
    }
    return false;
}

static bool has_workspace(const weft_node *n) {
    return is_busy(n) && n->workspace_bytes;
}

static bool workspace_on_operand(const victim *v) {
    weft_node *n = mutant_pick(v, has_workspace);
    for (int i = 0; n && i < n->n_in; i++) {
        if (!n->in[i] || n->in[i]->arena_offset < 0) continue;
        n->workspace_offset = n->in[i]->arena_offset;
        return true;
    }
    return false;
}

static bool arena_too_small(const victim *v) {
    weft_node *n = mutant_pick(v, has_place);
    if (!n) return false;
    v->p->arena_bytes = (uint64_t)n->out[0].arena_offset + 1;
    return true;
}

static bool output_overwritten(const victim *v) {
    for (graph_output *o = v->g->outputs; o; o = o->next) {
        const weft_value *kept = value_root(o->value);
        const weft_node *last = kept->arena_offset >= 0 ? last_reader(kept) : NULL;
        for (weft_node *n = last ? last->next : NULL; n; n = n->next) {
            size_t end = (size_t)kept->arena_offset + type_bytes(&n->out[0].type);
            if (!has_place(n) || end > v->p->arena_bytes) continue;
            n->out[0].arena_offset = kept->arena_offset;
            return true;
        }
    }
    return false;
}

/* ---- streams ---- */

static bool drop_wait(const victim *v) {
    weft_node *start = mutant_pick(v, is_awaited), *w = start ? mutant_wait(start) : NULL;
    if (!w) return false;
    mutant_bypass(v->g, &w->out[0], w->in[0]);
    node_remove(w);
    mutant_renumber(v->g);
    return true;
}

static bool wait_for_another(const victim *v) {
    weft_node *a = mutant_pick(v, is_awaited), *b = mutant_pick(v, is_awaited);
    if (!a || a == b) return false;
    weft_node *w = mutant_wait(a);
    for (int i = 0; i < w->n_in; i++) w->in[i] = &b->out[i];
    return true;
}

static bool swap_numbers(const victim *v) {
    weft_node *a = mutant_pick(v, node_starts_collective), *b = mutant_pick(v, node_starts_collective);
    if (!a || a == b) return false;
    int64_t kept = ((collective_attrs *)a->attrs)->order;
    ((collective_attrs *)a->attrs)->order = ((collective_attrs *)b->attrs)->order;
    ((collective_attrs *)b->attrs)->order = kept;
    return true;
}

static bool miscount(const victim *v) {
    if (!v->p->n_collectives) return false;
    v->p->n_collectives -= 1;
    return true;
}

/* The first node between a start and its wait that fits. */
static weft_node *meanwhile(const victim *v, weft_node *start, is_kind fits) {
    weft_node *w = start ? mutant_wait(start) : NULL;
    for (weft_node *n = w ? start->next : NULL; n && n != w; n = n->next)
        if (fits(n) && random_bits(v->r) % 2) return n;
    return NULL;
}

static bool shrink_scratch_lifetime(const victim *v) {
    weft_node *start = mutant_pick(v, is_awaited), *n = meanwhile(v, start, has_place);
    if (!n) return false;
    start->out[1].arena_offset = n->out[0].arena_offset;
    return true;
}

static bool share_scratch(const victim *v) {
    weft_node *start = mutant_pick(v, is_awaited), *n = meanwhile(v, start, is_awaited);
    if (!n) return false;
    n->out[1].arena_offset = start->out[1].arena_offset;
    return true;
}

static bool workspace_in_flight(const victim *v) {
    weft_node *start = mutant_pick(v, is_awaited), *n = meanwhile(v, start, has_workspace);
    if (!n) return false;
    n->workspace_offset = start->out[1].arena_offset;
    return true;
}

static bool read_in_flight(const victim *v) {
    weft_node *start = mutant_pick(v, is_awaited), *n = meanwhile(v, start, is_busy);
    if (!n || !n->n_in || !n->in[0]) return false;
    n->in[0] = &start->out[0];
    return true;
}

/* An update reads a bucket while it is being summed; the wait comes after it. */
static bool skip_event(const victim *v) {
    weft_node *u = mutant_pick(v, is_update), *w = u && u->in[1] ? u->in[1]->node : NULL;
    if (!w || w->op != &weft_op_wait) return false;
    u->in[1] = w->in[0];
    move(v, w, u);
    return true;
}

/* ---- what is in flight across runs ---- */

static bool touch_after_gather(const victim *v) {
    weft_node *gather = mutant_pick(v, is_gather);
    for (weft_node *n = gather ? gather->next : NULL; n; n = n->next) {
        if (!is_busy(n) || !n->n_in) continue;
        n->in[0] = &gather->out[0];
        return true;
    }
    return false;
}

static bool gather_before_update(const victim *v) {
    weft_node *gather = mutant_pick(v, is_gather), *u = gather ? gather->in[0]->node : NULL;
    if (!u || !is_update(u) || !u->in[1]) return false;
    gather->in[0] = u->in[1];
    move(v, gather, u->prev);
    return true;
}

static bool gather_into_arena(const victim *v) {
    weft_node *gather = mutant_pick(v, is_gather);
    if (!gather) return false;
    gather->out[0].variable = NULL;
    gather->out[0].arena_offset = 0;
    return true;
}

static bool gather_with_workspace(const victim *v) {
    weft_node *gather = mutant_pick(v, is_gather);
    if (!gather) return false;
    gather->workspace_bytes = MEM_ALIGN;
    return true;
}

static bool is_read_in(const weft_graph *g, const weft_variable *bucket) {
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            const weft_variable *read = n->in[i] ? value_root(n->in[i])->variable : NULL;
            if (read && (read == bucket || read->bucket == bucket)) return true;
        }
    return false;
}

/* A bucket that a program leaves in flight, and that this program does not use. */
static weft_variable *in_flight_elsewhere(const victim *v) {
    for (int i = 0; i < v->plan->n_programs; i++)
        for (const weft_node *n = v->plan->programs[i].graph->first; n; n = n->next)
            if (is_gather(n) && !is_read_in(v->g, n->variable)) return n->variable;
    return NULL;
}

/* A result is placed where another program's gather may still be writing parameters. */
static bool write_in_flight(const victim *v) {
    weft_node *n = mutant_pick(v, has_place);
    weft_variable *into = in_flight_elsewhere(v);
    if (!n || !into || type_bytes(&n->out[0].type) > type_bytes(&into->type)) return false;
    n->out[0].variable = into;
    return true;
}

/* ---- deferred parts ---- */

static bool has_deferred(const victim *v) {
    return v->p->deferred <= v->g->last->order;
}

static bool deferred_too_early(const victim *v) {
    const weft_node *n = has_deferred(v) ? mutant_pick(v, is_busy) : NULL;
    if (!n || n->order >= v->p->deferred) return false;
    v->p->deferred = n->order;
    return true;
}

static bool deferred_for_nothing(const victim *v) {
    if (!has_deferred(v)) return false;
    v->plan->options.serial = true;
    return true;
}

/* What is fetched when the run is over is made by its deferred part. */
static bool output_deferred(const victim *v) {
    for (weft_node *n = v->g->last; v->g->outputs && n && n->order >= v->p->deferred; n = n->prev) {
        if (n->op != &weft_op_wait) continue;
        v->g->outputs->value = &n->out[0];
        return true;
    }
    return false;
}

static bool shrink_region(const victim *v) {
    if (!has_deferred(v)) return false;
    v->plan->in_flight_bytes = MEM_ALIGN * (random_bits(v->r) % 2);
    return true;
}

/* A bucket that lives into the deferred part is placed where other programs may write. */
static bool in_flight_elsewhere_too(const victim *v) {
    for (weft_node *n = v->g->last; n && n->order >= v->p->deferred; n = n->prev) {
        weft_value *root = n->op == &weft_op_wait ? (weft_value *)value_root(n->in[0]) : NULL;
        size_t bytes = root ? size_align(type_bytes(&root->type), MEM_ALIGN) : 0;
        if (!root || root->variable || v->plan->in_flight_bytes + bytes > v->p->arena_bytes) continue;
        root->arena_offset = (int64_t)(v->p->arena_bytes - bytes);
        return true;
    }
    return false;
}

const mutant mutants_of_collectives[] = {
    {"a reader moves before what it reads", read_before_made, "V1"},
    {"a sum starts before its bucket is full", start_too_early, "V1"},
    {"a copy of a parameter is made after its update", copy_after_update, "V2 V4"},
    {"a buffer is reused before its last read", reuse_too_early, "V2 V3 L3"},
    {"a workspace lies on an operand", workspace_on_operand, "V3", .least = WEFT_ISA_SSE2},
    {"the arena is smaller than what lies in it", arena_too_small, "V3"},
    {"an output is overwritten", output_overwritten, "V2 V3 V5"},
    {"a wait is dropped", drop_wait, "L1", true},
    {"a wait is for another collective", wait_for_another, "V1 V2 L1"},
    {"two collectives swap numbers", swap_numbers, "L2"},
    {"a collective is not counted", miscount, "L2"},
    {"scratch is given away too early", shrink_scratch_lifetime, "V2 V3", true},
    {"two sums under way share scratch", share_scratch, "V2 V3"},
    {"a workspace lies on scratch in use", workspace_in_flight, "V2 V3", true, WEFT_ISA_SSE2},
    {"a node reads a bucket that is being summed", read_in_flight, "L3 K4", true},
    {"an update does not wait for its sum", skip_event, "L3 L5 V1 V2", true},
    {"a node reads what a gather is bringing", touch_after_gather, "L6 V4 K4"},
    {"a gather starts before the update", gather_before_update, "L6 V1 V2 V4"},
    {"a gather that outlasts its run works in the arena", gather_into_arena, "L6 L8 V2 V3 V5"},
    {"a gather that outlasts its run has a workspace", gather_with_workspace, "L8 V2 V3 V5"},
    {"a result is put where a gather may be at work", write_in_flight, "L6 L9 L21 L22 V2 V4", true},
    {"a deferred part begins before its first wait", deferred_too_early, "L16 L17"},
    {"a deferred part outlasts a run of a plan without overlap", deferred_for_nothing, "L16"},
    {"an output is made by a deferred part", output_deferred, "L16 V5"},
    {"the in-flight region is smaller than what lies in it", shrink_region, "L17"},
    {"a bucket lives into a deferred part outside of the in-flight region", in_flight_elsewhere_too,
     "L17 V2 V3 V5 L3"},
    {0}};
