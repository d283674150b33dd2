/* mutants_buckets.c - mutants of buckets, ranges and groups; see mutants.h. */
#include "support/mutants/mutants.h"

#include "ops/kit/basic_attrs.h"
#include "ops/structure/collective.h"
#include "ops/optimizer/update.h"
#include "runtime/plan/value.h"

#include <string.h>

static int below(const victim *v, int n) {
    return (int)(random_bits(v->r) % (uint64_t)n);
}

/* ---- buckets ---- */

static bool adds(const weft_node *n) {
    return n->op == &weft_op_accumulate;
}

static bool lose_bucket(const victim *v) {
    weft_node *b = v->p->phase == PHASE_FIRST ? mutant_pick(v, is_bucket) : NULL;
    if (!b) return false;
    node_remove(b);
    mutant_renumber(v->g);
    return true;
}

static bool other_bucket(const victim *v) {
    weft_node *a = mutant_pick(v, is_bucket), *b = mutant_pick(v, is_bucket);
    if (!a || a == b) return false;
    a->variable = b->variable;
    return true;
}

static bool member_leaves(const victim *v) {
    weft_node *a = mutant_pick(v, is_bucket), *b = mutant_pick(v, is_bucket);
    if (!a || a == b) return false;
    a->variable->members[below(v, a->variable->n_members)]->bucket = b->variable;
    return true;
}

static bool lost_member(const victim *v) {
    weft_node *b = mutant_pick(v, is_bucket);
    if (!b || b->n_in < 2) return false;
    b->n_in--;
    b->variable->n_members--;
    return true;
}

/* The value of a program for member i of one bucket and k of another, or of the same. */
static void exchange(weft_variable *s, int i, weft_variable *t, int k, weft_node *a, weft_node *b) {
    weft_variable *x = s->members[i], *y = t->members[k];
    weft_value *kept = a->in[i];
    int64_t offset = x->offset;
    s->members[i] = y;
    t->members[k] = x;
    x->offset = y->offset;
    y->offset = offset;
    x->bucket = t;
    y->bucket = s;
    a->in[i] = b->in[k];
    b->in[k] = kept;
}

/* Swaps two parameters of one shape with their gradients: everything fits except the subgraphs. */
static bool mix_subgraphs(const victim *v) {
    weft_node *a = mutant_pick(v, is_bucket), *b = mutant_pick(v, is_bucket);
    if (!a || a->variable->subgraph == b->variable->subgraph || a->n_in + b->n_in < 3) return false;
    for (int i = 0; i < a->n_in; i++)
        for (int k = 0; k < b->n_in; k++)
            if (type_equal(&a->in[i]->type, &b->in[k]->type)) {
                exchange(a->variable, i, b->variable, k, a, b);
                return true;
            }
    return false;
}

static bool mix_types(const victim *v) {
    weft_node *b = mutant_pick(v, is_bucket);
    if (!b) return false;
    b->variable->members[below(v, b->n_in)]->type.dtype = WEFT_F64;
    return true;
}

static bool claim_other_subgraph(const victim *v) {
    weft_node *b = mutant_pick(v, is_bucket);
    if (!b || v->plan->n_subgraphs < 2) return false;
    b->variable->subgraph = (b->variable->subgraph + 1) % v->plan->n_subgraphs;
    return true;
}

static bool members_overlap(const victim *v) {
    weft_node *b = mutant_pick(v, is_bucket);
    if (!b || b->n_in < 2) return false;
    b->variable->members[b->n_in - 1]->offset = b->variable->members[b->n_in - 2]->offset;
    return true;
}

/* ---- sums and updates ---- */

static bool update_by_another(const victim *v) {
    weft_node *a = mutant_pick(v, is_update), *b = mutant_pick(v, is_update);
    if (!a || a == b || a->in[1] == b->in[1]) return false;
    weft_value *kept = a->in[1];
    a->in[1] = b->in[1];
    b->in[1] = kept;
    return true;
}

static bool sum_another(const victim *v) {
    weft_node *a = mutant_pick(v, is_sum), *b = mutant_pick(v, is_sum);
    if (!a || a == b) return false;
    a->variable = b->variable;
    return true;
}

static bool sum_otherwise(const victim *v) {
    weft_node *a = mutant_pick(v, is_sum);
    if (!a || !a->variable->shards || v->plan->subgraphs[a->variable->subgraph].n_ranks < 2) return false;
    a->op = &weft_op_all_reduce; /* some ranks sum to owners, this one to all */
    return true;
}

static bool lose_update(const victim *v) {
    weft_node *u = mutant_pick(v, is_update);
    if (!u) return false;
    for (weft_node *n = u->next; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == &u->out[0]) n->in[i] = u->in[1];
    node_remove(u);
    mutant_renumber(v->g);
    return true;
}

/* ---- ranges ---- */

static weft_variable *sharded(const victim *v) {
    weft_variable *found = NULL;
    uint64_t seen = 0;
    for (weft_variable *s = v->plan->model->variables; s; s = s->next)
        if (s->shards && v->plan->subgraphs[s->subgraph].n_ranks > 1 && random_bits(v->r) % ++seen == 0)
            found = s;
    return found;
}

static bool shift_border(const victim *v) {
    weft_variable *s = sharded(v);
    if (!s) return false;
    size_t *shards = (size_t *)(uintptr_t)s->shards;
    int n = v->plan->subgraphs[s->subgraph].n_ranks, from = below(v, n), to = (from + 1) % n;
    if (!shards[from]) return false;
    size_t by = shards[from] > 16 ? 16 : shards[from];
    shards[from] -= by;
    shards[to] += by;
    return true;
}

static bool lose_range(const victim *v) {
    weft_variable *s = sharded(v);
    size_t *shards = s ? (size_t *)(uintptr_t)s->shards : NULL;
    int last = s ? v->plan->subgraphs[s->subgraph].n_ranks - 1 : 0;
    if (!s || !shards[last]) return false;
    shards[last] -= 1;
    return true;
}

static bool updates_share(const weft_node *n) {
    return is_update(n) && n->in[0]->variable->kind == VARIABLE_SHARD;
}

static bool foreign_range(const victim *v) {
    weft_node *u = mutant_pick(v, updates_share);
    if (!u) return false;
    weft_variable *own = u->in[0]->variable;
    if (own->bucket->type.shape[0] == own->type.shape[0]) return false;
    own->offset += own->offset ? -1 : 1;
    return true;
}

static bool foreign_state(const victim *v) {
    weft_node *u = mutant_pick(v, is_update);
    for (int i = 2; u && i < u->n_in; i++) {
        weft_variable *state = u->in[i] ? u->in[i]->variable : NULL;
        if (!state || !state->bucket) continue;
        state->offset += 16;
        return true;
    }
    return false;
}

static bool is_own_part(const weft_node *n) {
    return n->is_update && n->n_in == 1 && n->in[0]->node->op == &weft_op_wait && n->out[0].base == n->in[0];
}

static bool foreign_gradients(const victim *v) {
    weft_node *n = mutant_pick(v, is_own_part);
    if (!n || n->in[0]->node->in[0]->node->op != &weft_op_reduce_scatter) return false;
    int64_t step = n->out[0].base_offset ? -1 : 1;
    slice_attrs *cut = n->attrs;
    n->out[0].base_offset += step;
    cut->begin += step;
    cut->end += step;
    return true;
}

static bool is_squares(const weft_node *n) {
    return n->op == &weft_op_chunk_squares && n->n_in;
}

static bool foreign_squares(const victim *v) {
    weft_node *n = mutant_pick(v, is_squares);
    if (!n) return false;
    ((chunk_squares_attrs *)n->attrs)->begin += 4;
    return true;
}

/* ---- ways over the ranks ---- */

static bool other_group(const victim *v) {
    weft_node *n = mutant_pick(v, node_starts_collective);
    if (!n || v->plan->n_subgraphs < 2) return false;
    collective_attrs *a = n->attrs;
    a->group = (a->group + 1) % v->plan->n_subgraphs;
    return true;
}

static bool other_wire(const victim *v) {
    weft_node *n = mutant_pick(v, is_start);
    if (n) ((collective_attrs *)n->attrs)->bf16 = !((collective_attrs *)n->attrs)->bf16;
    return n != NULL;
}

static bool any_order(const victim *v) {
    weft_node *n = mutant_pick(v, is_sum);
    if (n) ((collective_attrs *)n->attrs)->unordered = !((collective_attrs *)n->attrs)->unordered;
    return n != NULL;
}

static bool less_scratch(const victim *v) {
    weft_node *n = mutant_pick(v, is_sum);
    collective_attrs *a = n ? n->attrs : NULL;
    if (!n || v->plan->subgraphs[a->group].n_ranks < 2) return false;
    a->scratch = n->out[1].type.shape[0] = 16;
    return true;
}

static bool other_place(const victim *v) {
    subgraph *g = &v->plan->subgraphs[below(v, v->plan->n_subgraphs)];
    if (g->n_ranks < 2) return false;
    int *ranks = (int *)(uintptr_t)g->ranks, other = (g->rank + 1) % g->n_ranks, kept = ranks[other];
    ranks[other] = ranks[g->rank];
    ranks[g->rank] = kept;
    return true;
}

static bool other_options(const victim *v) {
    subgraph *g = &v->plan->subgraphs[below(v, v->plan->n_subgraphs)];
    g->ddp.sync_batch_norm = !g->ddp.sync_batch_norm;
    return true;
}

/* ---- steps of several programs ---- */

/* An update alone by the sum of another bucket's gradients. */
static bool other_levels(const victim *v) {
    weft_node *n = v->p->phase == PHASE_UPDATE ? mutant_pick(v, adds) : NULL;
    weft_node *other = n ? mutant_pick(v, adds) : NULL;
    if (!n || other == n) return false;
    for (int i = 0; i < n->n_in; i++) n->in[i] = other->in[i];
    return true;
}

static bool swap_levels(const victim *v) {
    weft_node *n = mutant_pick(v, adds);
    if (!n || n->n_in < 3) return false;
    weft_value *kept = n->in[0];
    n->in[0] = n->in[1];
    n->in[1] = kept;
    return true;
}

static bool end_too_early(const victim *v) {
    weft_node *n = mutant_pick(v, adds);
    if (!n) return false;
    ((accumulate_attrs *)n->attrs)->last = !((accumulate_attrs *)n->attrs)->last;
    return true;
}

static bool forget_first(const victim *v) {
    weft_node *b = v->p->phase == PHASE_FIRST ? mutant_pick(v, is_bucket) : NULL;
    weft_node *other = b ? mutant_pick(v, is_bucket) : NULL;
    if (!b || other == b) return false;
    b->out[0].variable = other->out[0].variable; /* one buffer for two buckets */
    return true;
}

/* ---- one rank alone ---- */

static bool is_free_sum(const weft_node *n) {
    return n->op == &weft_op_all_reduce && !is_sum(n) && mutant_wait(n);
}

static void count_anew(const victim *v) {
    int64_t order = 0;
    for (weft_node *n = v->g->first; n; n = n->next)
        if (node_starts_collective(n)) ((collective_attrs *)n->attrs)->order = order++;
    v->p->n_collectives = (int)order;
    mutant_renumber(v->g);
}

static bool skip_collective(const victim *v) {
    weft_node *n = mutant_pick(v, is_free_sum);
    if (!n) return false;
    weft_node *w = mutant_wait(n);
    mutant_bypass(v->g, &w->out[0], n->in[0]);
    node_remove(w);
    node_remove(n);
    count_anew(v);
    return true;
}

/* Swaps two neighbours on the stream on this rank, with all that belongs to them. */
static bool swap_collectives(const victim *v) {
    weft_node *a = mutant_pick(v, node_starts_collective), *b = a ? a->next : NULL;
    while (b && !node_starts_collective(b)) b = b->next;
    if (!b || (a->op == b->op && a->variable == b->variable)) return false;
    for (weft_node *n = a; n != b; n = n->next)
        for (int i = 0; i < b->n_in; i++)
            if (b->in[i] && (b->in[i]->node == n || value_root(b->in[i])->node == n)) {
                node_move_after(a, b); /* its wait, if it stands between, is too early then */
                count_anew(v);
                return true;
            }
    node_move_after(b, a->prev);
    count_anew(v);
    return true;
}

/* ---- parts of values ---- */

static bool sends_part(const weft_node *n) {
    return n->op == &weft_op_pad && n->next && n->next->op == &weft_op_all_gather_values &&
           n->next->in[0]->node == n;
}

static bool anothers_part(const victim *v) {
    weft_node *n = mutant_pick(v, sends_part);
    pad_attrs *a = n ? n->attrs : NULL;
    int64_t length = n ? n->in[0]->type.shape[0] : 0;
    if (!n || (!a->before && !a->after)) return false;
    a->before += a->after ? length : -length;
    a->after = n->out[0].type.shape[0] - length - a->before;
    return true;
}

static bool reads_part(const weft_node *n) {
    const weft_node *wait = n->op == &weft_op_slice ? n->in[0]->node : NULL;
    return wait && wait->op == &weft_op_wait && wait->in[0]->node->op == &weft_op_reduce_scatter_values;
}

static bool anothers_piece(const victim *v) {
    weft_node *n = mutant_pick(v, reads_part);
    slice_attrs *a = n ? n->attrs : NULL;
    int64_t length = n ? n->out[0].type.shape[0] : 0, whole = n ? n->in[0]->type.shape[0] : 0;
    if (!n || whole == length) return false;
    a->begin = (a->begin + length) % whole;
    a->end = a->begin + length;
    return true;
}

static bool names_ranks(const weft_node *n) {
    return node_starts_collective(n) && ((const collective_attrs *)n->attrs)->over;
}

static bool other_ranks(const victim *v) {
    weft_node *n = mutant_pick(v, names_ranks);
    if (!n) return false;
    collective_attrs *a = n->attrs;
    a->over = strcmp(a->over, "world") ? "world" : "0;1";
    return true;
}

static bool other_root(const victim *v) {
    weft_node *n = mutant_pick(v, node_starts_collective);
    if (!n || n->op != &weft_op_broadcast) return false;
    ((collective_attrs *)n->attrs)->root += 1;
    return true;
}

/* Swaps members of one shape in this rank's store. */
static bool lie_otherwise(const victim *v) {
    weft_node *b = v->plan->options.world > 1 ? mutant_pick(v, is_bucket) : NULL;
    for (int i = 1; b && i < b->n_in; i++) {
        weft_variable *s = b->variable;
        if (!type_equal(&s->members[i]->type, &s->members[i - 1]->type)) continue;
        exchange(s, i, s, i - 1, b, b);
        return true;
    }
    return false;
}

static bool is_renewal(const weft_node *n) {
    return n->op == &weft_op_renew;
}

/* Two renewals of different buckets; NULL: there are none. */
static weft_node *renewal_of_another(const weft_node *a) {
    for (weft_node *n = a ? a->next : NULL; n; n = n->next)
        if (is_renewal(n) && n->in[1] != a->in[1]) return n;
    return NULL;
}

/* What the later one has of operand i, at the place of the later one. */
static bool renew_from_another(const victim *v) {
    weft_node *a = mutant_pick(v, is_renewal), *b = renewal_of_another(a);
    if (!b) return false;
    b->in[2] = a->in[2];
    return true;
}

static bool renew_by_another(const victim *v) {
    weft_node *a = mutant_pick(v, is_renewal), *b = renewal_of_another(a);
    if (!b || b->in[0]->variable->kind != VARIABLE_OPTIMIZER) return false;
    b->in[1] = a->in[1];
    return true;
}

/* The step takes a number, its rate say, as f32. */
static bool takes_number(const weft_node *n) {
    return n->op == &weft_op_cast && n->in[0]->type.ndim == 0 && n->in[0]->type.dtype == WEFT_F64;
}

/* That number becomes the norm of all gradients, which is one of f64[] too. */
static bool renew_by_norm(const victim *v) {
    weft_node *a = mutant_pick(v, is_renewal) ? mutant_pick(v, takes_number) : NULL, *norm = v->g->first;
    while (norm && norm->op != &weft_op_root_sum) norm = norm->next;
    if (!a || !norm || norm->order > a->order) return false;
    a->in[0] = &norm->out[0];
    return true;
}

/* Of one bucket, what renews state is written where the parameters lie, and the other way round. */
static bool renew_elsewhere(const victim *v) {
    weft_node *a = mutant_pick(v, is_renewal), *b = a ? a->next : NULL;
    while (b && !(is_renewal(b) && b->in[1] == a->in[1])) b = b->next;
    if (!b || a->in[2]->base != a->in[0] || b->in[2]->base != b->in[0]) return false;
    a->in[2]->base = b->in[0];
    b->in[2]->base = a->in[0];
    return true;
}

static bool is_gate(const weft_node *n) {
    return n->op == &weft_op_gate;
}

/* The first update of a program goes before its gate. */
static bool update_before_gate(const victim *v) {
    weft_node *gate = mutant_pick(v, is_gate), *n = gate ? gate->next : NULL;
    while (n && !(n->is_update && n->op == &weft_op_assign)) n = n->next;
    if (!n) return false;
    node_move_after(n, gate->prev);
    mutant_renumber(v->g);
    return true;
}

/* A rank judges by its own losses alone. */
static bool judge_alone(const victim *v) {
    weft_node *gate = mutant_pick(v, is_gate);
    if (!gate || gate->in[0]->node->op != &weft_op_wait) return false;
    gate->in[0] = gate->in[0]->node->in[0]->node->in[0];
    return true;
}

static bool lose_gate(const victim *v) {
    weft_node *gate = mutant_pick(v, is_gate);
    if (!gate) return false;
    node_remove(gate);
    mutant_renumber(v->g);
    return true;
}

static weft_node *guard_of(const victim *v) {
    weft_node *n = v->g->first;
    while (n && n->op != &weft_op_guard) n = n->next;
    return n;
}

static bool forget_loss(const victim *v) {
    weft_node *n = mutant_pick(v, is_gate) ? guard_of(v) : NULL;
    if (!n) return false;
    ((guard_attrs *)n->attrs)->count++;
    return true;
}

/* Two losses are judged by each other's means. */
static bool swap_means(const victim *v) {
    weft_node *n = guard_of(v);
    int losses = n ? n->n_in / 2 : 0;
    if (losses < 2 || !(((const guard_attrs *)n->attrs)->factor > 0)) return false;
    weft_value *first = n->in[losses];
    n->in[losses] = n->in[losses + 1];
    n->in[losses + 1] = first;
    return true;
}

const mutant mutants_of_buckets[] = {
    {"two losses are judged by each other's means", swap_means, "L22"},
    {"an update comes before the gate", update_before_gate, "L22 V1 V2 V4 L9"},
    {"a rank judges by its own losses", judge_alone, "L22 L3 L6 V2 V4"},
    {"a gate is lost", lose_gate, "L22"},
    {"a guard counts another loss", forget_loss, "L22"},
    {"a bucket is lost", lose_bucket, "L4"},
    {"a bucket is another bucket's", other_bucket, "L4"},
    {"a parameter moves to another bucket", member_leaves, "L4 V2 V4"},
    {"a bucket loses its last member", lost_member, "L4"},
    {"a bucket has a member of another subgraph", mix_subgraphs, "L4 L10 V1 V2 V4"},
    {"a bucket mixes types", mix_types, "L4 L13"},
    {"a bucket claims another subgraph", claim_other_subgraph, "L4"},
    {"members overlap", members_overlap, "L4 V2 V3 V4"},
    {"two updates swap gradients", update_by_another, "L5 V1 V2 L7"},
    {"two sums are of one bucket", sum_another, "L5 L10 L3 L6"},
    {"one rank sums to all, the others to owners", sum_otherwise, "L5 L10"},
    {"an update is lost", lose_update, "L5 L6"},
    {"a border moves on one rank", shift_border, "L6 L7 L13 L5"},
    {"an element belongs to nobody", lose_range, "L7 L6 L5"},
    {"an update of a range that is not its own", foreign_range, "L7 L6 V4"},
    {"an update with the state of another range", foreign_state, "L7"},
    {"an update by gradients of another range", foreign_gradients, "L7"},
    {"an update is computed from another bucket", renew_from_another, "L21 V1 V2 V3 V4"},
    {"a state is renewed beside another bucket's gradients", renew_by_another, "L21 V1 V2"},
    {"an update has the norm of all gradients for a number", renew_by_norm, "L21 V2 V3"},
    {"an update is written to the place of another variable", renew_elsewhere, "V4", .least = WEFT_ISA_SSE2},
    {"a norm of another range", foreign_squares, "L7"},
    {"a collective goes over another group", other_group, "L10"},
    {"a sum travels by another wire", other_wire, "L10"},
    {"a sum is added in any order", any_order, "L10"},
    {"a sum has too little scratch", less_scratch, "L10"},
    {"a rank takes another's place", other_place, "L10 L7 L6 L5 L20"},
    {"a subgraph has options that nobody gave", other_options, "L10 L20"},
    {"two levels of a tree of sums are swapped", swap_levels, "L11"},
    {"an update alone has the gradients of another bucket", other_levels, "L4 L5 L11 V1 V2"},
    {"a step ends too early", end_too_early, "L11"},
    {"two buckets are assigned to one buffer", forget_first, "L11 V2"},
    {"one rank leaves out a collective", skip_collective, "L12 L16 L22"},
    {"one rank swaps two collectives", swap_collectives, "L12 L16 V1 V2 V3 L1 L3 L6 L22"},
    {"one rank has another root", other_root, "L12"},
    {"a rank gives another's part", anothers_part, "L24"},
    {"a rank reads another's part of a sum", anothers_piece, "L24 K3"},
    {"an op goes over ranks that it does not name", other_ranks, "L10"},
    {"parameters lie in another order on one rank", lie_otherwise, "L13"},
    {0}};
