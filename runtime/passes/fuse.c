/* fuse.c - pointwise nodes that feed each other become one `fused` node, which a kernel runs tile by tile.
 *
 * All results of a group have one shape. Walking from front to back, a pointwise node joins the group of one
 * of its operands if no other operand depends on that group from outside of it, and if the limits on operands
 * and members hold. The group then stays convex, so the fused node can take the place of its last member. In
 * updates, other operands' groups then become one with it under the same rules: so they read each buffer once
 * (25M parameters: radam 273 -> 220 ms, rprop 240 -> 200). Elsewhere groups seldom meet: ResNet-18 would have
 * 131 fused nodes for 137, GPT as many as it has, and compiling would take longer.
 *
 * Dependence is one bit per group in a row of each node (reach_row). A group takes no node that comes WINDOW
 * or more nodes after its first one, so a row needs bits for the last WINDOW groups only, and the cost is
 * linear in the length of the graph. */
#include "runtime/passes/passes.h"

#include <string.h>

/* Nodes to be fused, in order, and their operands from outside the group. */
typedef struct group {
    int n_nodes, n_in;
    weft_node *nodes[FUSED_MAX_BODY];
    weft_value *in[FUSED_MAX_IN];
    tensor_type type; /* shape of every result */
} group;

/* Nodes, and groups in a row. In ResNet-50 with SyncBatchNorm fused nodes are up to 5,000 apart. */
enum { WINDOW = 8192 };
/* Groups become one where both begin less than so many nodes before: a merge looks at the row of each. */
enum { NEAR = 256 };

/* The groups that a node depends on, its own included: a bit for each of WINDOW groups in a row, in words of
 * 64. Bit i means group round * WINDOW + i, with the round that is stored beside the bit's word. */
typedef struct reach_row {
    uint64_t *word;
    int *round;
} reach_row;

typedef struct fuser {
    weft_graph *g;
    bool is_cpu; /* the plan is of the CPU */
    group **groups;
    int n_groups;
    int64_t *earliest;   /* by group: mark of the first node that depends on it, or of an earlier one */
    int *group_of;       /* by node->mark, the place in the list; -1: none */
    int64_t present;     /* mark of the present node */
    int oldest;          /* first group that may be open; words of earlier groups are not updated */
    int n_words, n_rows; /* rows of the last 2 WINDOW nodes; older nodes depend on no open group */
    uint64_t *words;     /* [n_rows][n_words] */
    int *rounds;
} fuser;

/* Numbers that updates share (a learning rate, a scheduled weight decay) are f64[]. Were their cast in a
 * group, the updates of all buckets that read it would be one with it, and wait for one another's
 * gradients. */
static bool casts_number(const weft_node *n) {
    return n->n_in == 1 && n->in[0]->type.dtype == WEFT_F64 && !n->in[0]->type.ndim;
}

/* Whether the CPU's tiles, which are of floats, do not take the node: with one in a group, all of the group
 * would run on the reference kernel. */
static bool needs_reference(const weft_node *n) {
    bool is_wide = dtype_is_wide(n->out[0].type.dtype) || dtype_is_data(n->out[0].type.dtype);
    for (int i = 0; i < n->n_in; i++) is_wide |= dtype_is_data(n->in[i]->type.dtype);
    for (int i = 0; i < n->n_in && n->op->role != ROLE_CAST; i++)
        is_wide |= dtype_is_wide(n->in[i]->type.dtype);
    return is_wide;
}

/* Casts of parameters stay apart: their result is made once per update, not once per run. Divisions of
 * integers do, so that an error names them. */
static bool is_fusable(const fuser *f, const weft_node *n) {
    return (n->op->flags & OP_POINTWISE) && !(n->op->flags & (OP_EFFECT | OP_RANDOM)) && n->op->scalar &&
           n->n_out == 1 && n->n_in <= 3 && n->out[0].type.dtype != WEFT_F64 && !casts_parameter(n) &&
           !casts_number(n) && !(f->is_cpu && needs_reference(n)) &&
           !(n->op->flags & OP_DIVIDES && node_is_integer(n));
}

/* Rows are reused: node `mark` has that of node mark - n_rows. */
static reach_row row_of(const fuser *f, int64_t mark) {
    size_t at = (size_t)(mark % f->n_rows) * (size_t)f->n_words;
    return (reach_row){f->words + at, f->rounds + at};
}

static bool has_row(const fuser *f, const weft_node *n) {
    return n->mark + f->n_rows > f->present;
}

/* The node whose row says what n depends on: for a member of a group the group's last one, as a group runs as
 * one node. Rows of earlier members may lack what came by a merge. */
static const weft_node *row_owner(const fuser *f, const weft_node *n) {
    int in = f->group_of[n->mark];
    return in >= 0 ? f->groups[in]->nodes[f->groups[in]->n_nodes - 1] : n;
}

/* The numbers of the words that hold open groups are first_word to end_word - 1, modulo the words of a
 * row. */
static int first_word(const fuser *f) {
    return f->oldest / 64;
}

static int end_word(const fuser *f) {
    return f->n_groups / 64 + 1;
}

static bool has_group(reach_row row, int group) {
    int at = group % WINDOW;
    return row.round[at / 64] == group / WINDOW && row.word[at / 64] >> (at % 64) & 1;
}

/* Nodes that have no row depend on no open group. */
static bool depends_on(const fuser *f, const weft_node *n, int group) {
    const weft_node *owner = row_owner(f, n);
    return has_row(f, owner) && has_group(row_of(f, owner->mark), group);
}

static void add_group(reach_row row, int group) {
    int at = group % WINDOW;
    if (row.round[at / 64] != group / WINDOW) row.word[at / 64] = 0;
    row.round[at / 64] = group / WINDOW;
    row.word[at / 64] |= (uint64_t)1 << (at % 64);
}

/* Adds to `to` the groups in `from`. Among two words the one of the earlier round holds closed groups only,
 * and is ignored. */
static void add_reach(const fuser *f, reach_row to, reach_row from) {
    for (int number = first_word(f); number < end_word(f); number++) {
        int w = number % (WINDOW / 64);
        int round = from.round[w] > to.round[w] ? from.round[w] : to.round[w];
        uint64_t own = to.word[w] & -(uint64_t)(to.round[w] == round);
        to.word[w] = own | (from.word[w] & -(uint64_t)(from.round[w] == round));
        to.round[w] = round;
    }
}

/* Whether p may take n. The limit ensures that two groups with the same bit are never open at the same
 * time. */
static bool is_open(const group *p, const weft_node *n) {
    return n->mark - p->nodes[0]->mark < WINDOW - 64;
}

static bool in_group(const group *p, const weft_value *v) {
    for (int i = 0; i < p->n_nodes; i++)
        if (v->node == p->nodes[i]) return true;
    return false;
}

/* Lists the operands that group p lacks if n joins: those from outside that it does not have yet. Returns how
 * many. */
static int new_operands(const group *p, const weft_node *n, weft_value **list) {
    int count = 0;
    for (int i = 0; i < n->n_in; i++) {
        bool known = in_group(p, n->in[i]);
        for (int k = 0; k < p->n_in; k++) known |= p->in[k] == n->in[i];
        for (int k = 0; k < count; k++) known |= list[k] == n->in[i];
        if (!known) list[count++] = n->in[i];
    }
    return count;
}

/* The last loop keeps the group convex: an outside operand must not depend on it. */
static bool can_join(const fuser *f, int index, const weft_node *n) {
    const group *p = f->groups[index];
    weft_value *more[4];
    if (!shape_equal(&p->type, &n->out[0].type) || p->n_nodes == FUSED_MAX_BODY || !is_open(p, n))
        return false;
    if (p->nodes[0]->is_update != n->is_update) return false;
    if (p->n_in + new_operands(p, n, more) > FUSED_MAX_IN) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!in_group(p, n->in[i]) && depends_on(f, n->in[i]->node, index)) return false;
    return true;
}

static void join_chain(fuser *f, int index, weft_node *n) {
    group *p = f->groups[index];
    weft_value *more[4];
    int count = new_operands(p, n, more);
    for (int i = 0; i < count; i++) p->in[p->n_in++] = more[i];
    p->nodes[p->n_nodes++] = n;
    f->group_of[n->mark] = index;
}

static bool start_group(fuser *f, weft_node *n) {
    group *p = scratch_array(f->g->model, 1, sizeof *p);
    if (!p) return false;
    p->type = n->out[0].type;
    f->earliest[f->n_groups] = n->mark;
    f->groups[f->n_groups] = p;
    join_chain(f, f->n_groups++, n);
    return true;
}

/* Lowers `earliest` of the groups in `from` that row `to`, of node `mark`, will newly depend on. */
static void note_earliest(fuser *f, reach_row to, reach_row from, int64_t mark) {
    for (int number = first_word(f); number < end_word(f); number++) {
        int w = number % (WINDOW / 64);
        uint64_t known = to.word[w] & -(uint64_t)(from.round[w] <= to.round[w]);
        uint64_t fresh = from.word[w] & ~known & -(uint64_t)(from.round[w] >= to.round[w]);
        for (; fresh; fresh &= fresh - 1) {
            int64_t *earliest = &f->earliest[from.round[w] * WINDOW + w * 64 + __builtin_ctzll(fresh)];
            if (*earliest > mark) *earliest = mark;
        }
    }
}

/* Whether row `to` has all open groups of `from`. */
static bool has_all(const fuser *f, reach_row to, reach_row from) {
    for (int number = first_word(f); number < end_word(f); number++) {
        int w = number % (WINDOW / 64);
        uint64_t known = to.word[w] & -(uint64_t)(from.round[w] == to.round[w]);
        if (from.round[w] >= to.round[w] && from.word[w] & ~known) return false;
    }
    return true;
}

/* A group runs as one node, so every node that depends on the group also depends on what the new member
 * depends on: adds `reach` to their rows. `last` is the member before; if its row has all of `reach`, so do
 * those rows. */
static void spread_reach(fuser *f, int group, const weft_node *last, reach_row reach) {
    if (has_row(f, last) && has_all(f, row_of(f, last->mark), reach)) return;
    int64_t oldest = f->present - f->n_rows + 1, first = f->earliest[group];
    for (int64_t mark = first > oldest ? first : oldest; mark < f->present; mark++) {
        reach_row row = row_of(f, mark);
        if (!has_group(row, group)) continue;
        note_earliest(f, row, reach, mark);
        add_reach(f, row, reach);
    }
}

/* Adds what a node depends on to a row. */
static void add_row(const fuser *f, reach_row to, const weft_node *before) {
    const weft_node *owner = row_owner(f, before);
    if (has_row(f, owner)) add_reach(f, to, row_of(f, owner->mark));
}

/* The group that the pointwise node n can join; -1: none. */
static int group_for(fuser *f, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        int candidate = f->group_of[n->in[i]->node->mark];
        if (candidate >= 0 && can_join(f, candidate, n)) return candidate;
    }
    return -1;
}

/* ---- two groups become one ---- */

static bool is_near(const group *p, const weft_node *n) {
    return n->mark - p->nodes[0]->mark < NEAR;
}

/* Lists the operands of both from outside of both, and those of n where n is given. Returns how many; above
 * FUSED_MAX_IN: too many. */
static int joint_operands(const group *p, const group *q, const weft_node *n, weft_value **list) {
    int count = 0;
    for (int i = 0; i < p->n_in + q->n_in + (n ? n->n_in : 0); i++) {
        weft_value *v = i < p->n_in             ? p->in[i]
                        : i < p->n_in + q->n_in ? q->in[i - p->n_in]
                                                : n->in[i - p->n_in - q->n_in];
        bool known = in_group(p, v) || in_group(q, v);
        for (int k = 0; k < count; k++) known |= list[k] == v;
        if (known) continue;
        if (count == FUSED_MAX_IN) return count + 1;
        list[count++] = v;
    }
    return count;
}

/* Whether they are one group together, with n in it: no operand from outside depends on either. */
static bool can_merge(const fuser *f, int a, int b, const weft_node *n) {
    const group *p = f->groups[a], *q = f->groups[b];
    weft_value *in[FUSED_MAX_IN];
    if (!shape_equal(&p->type, &q->type) || p->nodes[0]->is_update != q->nodes[0]->is_update) return false;
    if (!is_near(p, n) || !is_near(q, n) || p->n_nodes + q->n_nodes >= FUSED_MAX_BODY) return false;
    int count = joint_operands(p, q, n, in);
    if (count > FUSED_MAX_IN) return false;
    for (int i = 0; i < count; i++)
        if (depends_on(f, in[i]->node, a) || depends_on(f, in[i]->node, b)) return false;
    return true;
}

/* The members of both in their order; q has none from then on. */
static void join_members(fuser *f, int into, group *p, group *q) {
    weft_node *all[FUSED_MAX_BODY];
    weft_value *in[FUSED_MAX_IN];
    int n = 0, i = 0, k = 0, n_in = joint_operands(p, q, NULL, in);
    while (i < p->n_nodes || k < q->n_nodes) {
        bool is_of_p = k == q->n_nodes || (i < p->n_nodes && p->nodes[i]->mark < q->nodes[k]->mark);
        all[n++] = is_of_p ? p->nodes[i++] : q->nodes[k++];
    }
    for (k = 0; k < q->n_nodes; k++) f->group_of[q->nodes[k]->mark] = into;
    memcpy(p->nodes, all, (size_t)n * sizeof *all);
    memcpy(p->in, in, (size_t)n_in * sizeof *in);
    p->n_nodes = n;
    p->n_in = n_in;
    q->n_nodes = 0;
}

/* Makes the later group a part of the earlier one, whose number it returns. What depends on either depends on
 * both, and on what both depend on: their last members have that in their rows. */
static int merge(fuser *f, int a, int b) {
    int into = a < b ? a : b, from = a < b ? b : a;
    group *p = f->groups[into], *q = f->groups[from];
    const weft_node *last = p->nodes[p->n_nodes - 1], *other = q->nodes[q->n_nodes - 1];
    if (last->mark < other->mark) {
        const weft_node *first = last;
        last = other;
        other = first;
    }
    reach_row all = row_of(f, last->mark);
    note_earliest(f, all, row_of(f, other->mark), last->mark);
    add_reach(f, all, row_of(f, other->mark));
    if (f->earliest[into] > f->earliest[from]) f->earliest[into] = f->earliest[from];
    for (int64_t mark = f->earliest[into]; mark < f->present; mark++) {
        reach_row row = row_of(f, mark);
        bool is_member = f->group_of[mark] == into || f->group_of[mark] == from;
        if (is_member || has_group(row, into) == has_group(row, from)) continue;
        note_earliest(f, row, all, mark);
        add_reach(f, row, all);
    }
    join_members(f, into, p, q);
    return into;
}

/* The group `into` that n joins takes in those of n's other operands. Returns its number. */
static int merge_for(fuser *f, int into, const weft_node *n) {
    for (int i = 0; n->is_update && i < n->n_in; i++) {
        int other = f->group_of[n->in[i]->node->mark];
        if (other >= 0 && other != into && can_merge(f, into, other, n)) into = merge(f, into, other);
    }
    return into;
}

/* Finds or starts the node's group and computes its row from those of its operands and edges. */
static bool place_node(fuser *f, weft_node *n) {
    reach_row reach = row_of(f, n->mark);
    f->present = n->mark;
    while (f->oldest < f->n_groups && !is_open(f->groups[f->oldest], n)) f->oldest++;
    for (int number = first_word(f); number < end_word(f); number++) {
        reach.word[number % (WINDOW / 64)] = 0;
        reach.round[number % (WINDOW / 64)] = number / (WINDOW / 64);
    }
    f->group_of[n->mark] = -1;
    int into = is_fusable(f, n) ? group_for(f, n) : -1;
    if (into >= 0) into = merge_for(f, into, n);
    const weft_node *last = into >= 0 ? f->groups[into]->nodes[f->groups[into]->n_nodes - 1] : NULL;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) add_row(f, reach, n->in[i]->node);
    for (int i = 0; i < n->n_after; i++) add_row(f, reach, n->after[i]);
    if (into >= 0)
        join_chain(f, into, n);
    else if (is_fusable(f, n) && !start_group(f, n))
        return false;
    if (f->group_of[n->mark] >= 0) add_group(reach, f->group_of[n->mark]);
    if (into >= 0) spread_reach(f, into, last, reach);
    return true;
}

/* ---- groups become nodes ---- */

/* Whether v has readers outside the group; v->uses includes outputs. */
static bool is_used_outside(const group *p, const weft_value *v) {
    int inside = 0;
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < p->nodes[i]->n_in; k++) inside += p->nodes[i]->in[k] == v;
    return v->uses > inside;
}

/* Makes the fused node before the last member and removes the members from the list. Its results take over
 * the ids and uses of the members' values that are used outside. */
static bool make_node(weft_graph *g, group *p) {
    arena *a = &g->model->arena;
    weft_node *last = p->nodes[p->n_nodes - 1], *n = arena_new(&g->model->nodes, sizeof *n);
    weft_value *outside[FUSED_MAX_BODY];
    int n_out = 0;
    for (int i = 0; i < p->n_nodes; i++)
        if (is_used_outside(p, &p->nodes[i]->out[0])) outside[n_out++] = &p->nodes[i]->out[0];
    if (!n) return false;
    *n = *last;
    n->n_after = 0;
    n->op = &weft_op_fused;
    n->n_in = p->n_in;
    n->n_out = n_out;
    n->n_body = p->n_nodes;
    n->in = arena_new_array(a, p->n_in, sizeof *n->in);
    n->out = arena_new_array(&g->model->values, n_out, sizeof *n->out);
    n->body = arena_new_array(a, p->n_nodes, sizeof *n->body);
    n->body_out = arena_new_array(a, n_out, sizeof *n->body_out);
    n->attrs = arena_new(a, 16);
    if (!n->in || !n->out || !n->body || !n->body_out || !n->attrs) return false;
    memcpy(n->in, p->in, (size_t)p->n_in * sizeof *n->in);
    memcpy(n->body, p->nodes, (size_t)p->n_nodes * sizeof *n->body);
    n->prev = last->prev;
    n->next = last;
    if (last->prev)
        last->prev->next = n;
    else
        g->first = n;
    last->prev = n;
    g->n_nodes++;
    for (int k = 0; k < n_out; k++) {
        n->out[k] = *outside[k];
        n->out[k].node = n;
        n->out[k].index = k;
        n->body_out[k] = outside[k];
        outside[k]->mapped = &n->out[k];
    }
    n->id = n_out ? n->out[0].id : last->id;
    for (int i = 0; i < p->n_nodes; i++) {
        p->nodes[i]->fused = n;
        node_remove(p->nodes[i]);
    }
    return true;
}

/* Readers outside a group read the fused node's results; members keep reading each other. */
static void redirect(weft_graph *g) {
    for (weft_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_after; i++)
            if (n->after[i]->fused) n->after[i] = n->after[i]->fused;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->mapped) {
                weft_value *to = n->in[i]->mapped;
                for (int b = 0; b < n->n_body; b++)
                    for (int k = 0; k < n->body[b]->n_in; k++)
                        if (n->body[b]->in[k] == n->in[i]) n->body[b]->in[k] = to;
                n->in[i] = to;
            }
    }
    for (graph_output *o = g->outputs; o; o = o->next)
        if (o->value->mapped) o->value = o->value->mapped;
}

/* Memory is n_rows x n_words words: at most 2 WINDOW x WINDOW / 64. */
static bool fuser_open(fuser *f, weft_graph *g, weft_device device) {
    weft_model *m = g->model;
    int candidates = 0;
    graph_number(g);
    graph_clear_mapped(g);
    *f = (fuser){.g = g, .is_cpu = device == WEFT_DEVICE_CPU};
    for (const weft_node *n = g->first; n; n = n->next) candidates += is_fusable(f, n);
    f->n_words = (candidates < WINDOW ? candidates : WINDOW) / 64 + 1;
    f->n_rows = g->n_nodes < 2 * WINDOW ? g->n_nodes + 1 : 2 * WINDOW;
    int64_t words = (int64_t)f->n_rows * f->n_words;
    f->words = scratch_array(m, words, sizeof *f->words);
    f->rounds = scratch_array(m, words, sizeof *f->rounds);
    f->groups = scratch_array(m, candidates, sizeof *f->groups);
    f->group_of = scratch_array(m, g->n_nodes, sizeof *f->group_of);
    f->earliest = scratch_array(m, candidates, sizeof *f->earliest);
    return f->words && f->rounds && f->groups && f->group_of && f->earliest;
}

bool pass_fuse(weft_graph *g, weft_device device) {
    fuser f;
    bool any = false;
    if (!fuser_open(&f, g, device)) return false;
    graph_count_uses(g);
    for (weft_node *n = g->first; n; n = n->next)
        if (!place_node(&f, n)) return false;
    for (int i = 0; i < f.n_groups; i++) {
        if (f.groups[i]->n_nodes <= 1) continue;
        any = true;
        if (!make_node(g, f.groups[i])) return false;
    }
    if (!any) return true;
    redirect(g);
    return graph_sort(g); /* fused nodes may come before nodes that they now wait for */
}
