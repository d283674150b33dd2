/* buckets.c - proves in one scheduled program which node updates what, and by which gradients. Rules:
 *   L4  every parameter that the graph trains is in its own bucket and in no other; a bucket holds parameters
 *       of one subgraph (so of one process group) and type, one after the other; a parameter at which the
 *       strategy cuts is the first of its bucket, unless that is sharded
 *   L5  a bucket is summed over ranks once, in its own bytes; an update reads its bucket's gradients after
 *       the wait for that sum; each bucket has one update, and a program that does not end its step has
 *       neither sum nor update. Where a strategy built the sum, it is `summed` once instead (L23)
 *   L7  an update covers its bucket, or this rank's range of a sharded one, with the gradients and the state
 *       of that range; ranges are contiguous, cover the bucket and cut no parameter (flat: no chunk of norms)
 */
#include "runtime/verify/verify.h"

#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"

#include <string.h>

/* ---- L4 ---- */

/* By index of a parameter. */
typedef struct membership {
    bool is_trained; /* some minimize of this graph trains it */
    int times;       /* how often its bucket lists it */
} membership;

static void find_members(const program *p, membership *of) {
    const weft_plan *plan = p->plan;
    for (int i = 0; i < plan->n_trainings; i++) {
        const training *t = &plan->trainings[i];
        if (strcmp(t->name, p->name) || p->phase == PHASE_LOSS) continue;
        for (const weft_variable *v = plan->model->variables; v; v = v->next)
            of[v->index].is_trained |= v->kind == VARIABLE_PARAMETER && t->trains[v->index];
    }
    for (const weft_variable *s = plan->model->variables; s; s = s->next)
        for (int i = 0; s->kind == VARIABLE_BUCKET && i < s->n_members; i++)
            of[s->members[i]->index].times += s->members[i]->bucket == s;
}

/* L4 for every parameter of the model, in one walk over its variables. */
static bool check_gradients(verify_index *x) {
    membership *of = verify_array(x, x->n_variables, sizeof *of);
    if (!of) return false;
    find_members(x->p, of);
    for (const weft_variable *v = x->plan->model->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        int buckets = v->bucket ? x->counts[v->bucket->index].buckets : 0;
        bool is_listed = !v->bucket || of[v->index].times == 1;
        if (buckets != of[v->index].is_trained || !is_listed)
            return !error_set(&x->error, WEFT_INTERNAL, "L4: graph %s: %s is in %d buckets",
                              x->p->graph->name, v->path, is_listed ? buckets : 0);
    }
    return true;
}

/* L4 for one bucket's node and the bucket that it names. */
static bool check_bucket(verify_index *x, const weft_node *b) {
    const weft_variable *s = b->variable;
    const subgraph *owner = NULL;
    if (!s || s->kind != VARIABLE_BUCKET || b->n_in != s->n_members || !type_equal(&b->out[0].type, &s->type))
        return verify_broken(x, "L4", b, "its operands are not its bucket's members");
    for (int i = 0; i < b->n_in; i++) {
        const weft_variable *v = s->members[i];
        int64_t end = i + 1 < b->n_in ? s->members[i + 1]->offset : type_elements(&s->type);
        if (v->bucket != s || !type_equal(&b->in[i]->type, &v->type) || v->type.dtype != s->type.dtype)
            return verify_broken(x, "L4", b, "a member belongs to another bucket or has another type");
        if (i && verify_subgraph_of(x, v) != owner)
            return verify_broken(x, "L4", b, "its bucket mixes subgraphs");
        owner = verify_subgraph_of(x, v);
        if (i && v->is_cut && !s->shards)
            return verify_broken(x, "L4", b, "its strategy cuts within its bucket");
        if ((!i && v->offset) || v->offset + type_elements(&v->type) > end)
            return verify_broken(x, "L4", b, "members overlap");
    }
    if (owner == &x->plan->subgraphs[s->subgraph]) return true;
    return verify_broken(x, "L4", b, "its bucket names another subgraph than its members");
}

/* ---- L5 ---- */

/* L5 and L7 for the gradients v of an update or a norm n over bucket s. */
static bool check_gradient(verify_index *x, const weft_node *n, const weft_value *v, const weft_variable *s) {
    int64_t first, begin, end;
    const weft_node *from = verify_source_of(v, &first),
                    *start = from->op == &weft_op_wait ? from->in[0]->node : NULL;
    bool is_summed = s->sum ? from->op == &weft_op_summed && from->variable == s
                            : start && start->variable == s && verify_sums_gradients(start);
    if (x->plan->options.world > 1 ? !is_summed : verify_gradients_in(from) != s)
        return verify_broken(x, "L5", n, "does not wait for the sum of its own gradients");
    verify_own(x, s, &begin, &end);
    if (first == begin && type_elements(&v->type) == end - begin) return true;
    return verify_broken(x, "L7", n, "reads gradients of another range than this rank's");
}

/* L5: sums, updates and gathers of a bucket happen exactly as often as they must. */
static bool check_counts(verify_index *x, const weft_node *b) {
    const weft_variable *s = verify_filled_by(b);
    const verify_counts *counts = &x->counts[s->index];
    int64_t begin, end;
    bool ends_step = program_ends_step(x->p), is_summed = ends_step && x->plan->options.world > 1;
    verify_own(x, s, &begin, &end);
    if (counts->sums != (is_summed && !s->sum) || counts->summed != (is_summed && s->sum) ||
        counts->updates != (ends_step && begin != end) || counts->gathers != (ends_step && s->shards))
        return verify_broken(x, "L5", b, "is not summed, used and sent back once where its step ends");
    return true;
}

/* L5: what is summed is the bucket itself, by the op that fits its sharding. */
static bool check_sum(verify_index *x, const weft_node *n) {
    if (x->counts[n->variable->index].buckets == 1 && verify_gradients_in(n->in[0]->node) == n->variable &&
        (n->op == &weft_op_reduce_scatter) == (n->variable->shards != NULL))
        return true;
    return verify_broken(x, "L5", n, "does not sum its whole bucket for the ranks that update with it");
}

/* ---- L7 ---- */

/* L7 for the bucket or range that n updates and for the optimizer's state, then the gradients. */
static bool check_update(verify_index *x, const weft_node *n) {
    const weft_variable *over = n->in[0]->variable, *s = verify_updated_by(n);
    int64_t begin, end;
    verify_own(x, s, &begin, &end);
    if ((s->shards != NULL) != (over != s) || (over != s && over->offset != begin) ||
        type_elements(&over->type) != end - begin)
        return verify_broken(x, "L7", n, "updates another range than this rank's");
    for (int i = 2; i < n->n_in; i++) {
        const weft_variable *state = n->in[i] ? n->in[i]->variable : NULL;
        if (state && state->bucket && (state->bucket != s || state->offset != begin))
            return verify_broken(x, "L7", n, "has the state of another range");
    }
    return check_gradient(x, n, n->in[1], s);
}

/* L7 for norms: a rank squares its own range only. */
static bool check_squares(verify_index *x, const weft_node *n) {
    int64_t begin, end;
    verify_own(x, n->variable, &begin, &end);
    bool is_right = begin == end ? !n->n_in : n->n_in && ((chunk_squares_attrs *)n->attrs)->begin == begin;
    if (!is_right) return verify_broken(x, "L7", n, "squares another range than this rank's");
    return n->n_in ? check_gradient(x, n, n->in[0], n->variable) : true;
}

/* Whether a rank's range may end at element `at`: between parameters, or with `flat` between chunks of norms.
 * *member moves on to the parameter that contains `at`. */
static bool may_cut(const weft_variable *s, int64_t at, bool flat, int *member) {
    for (; *member < s->n_members; ++*member) {
        int i = *member;
        int64_t begin = s->members[i]->offset;
        int64_t end = i + 1 < s->n_members ? s->members[i + 1]->offset : type_elements(&s->type);
        if (at == begin || at == end) return true;
        if (at < end) return at > begin && flat && (at - begin) % NORM_CHUNK == 0;
    }
    return false;
}

/* L7: the ranges of the whole process group, whatever this rank's is. */
static bool check_shards(verify_index *x, const weft_node *n) {
    const weft_variable *s = n->variable;
    const subgraph *g = verify_subgraph_of(x, s->members[0]);
    int64_t at = 0;
    int member = 0;
    bool are_good = s->shards && g;
    for (int r = 0; are_good && r < g->n_ranks; r++) {
        at += (int64_t)s->shards[r];
        are_good = may_cut(s, at, g->ddp.shard == WEFT_SHARD_FLAT, &member);
    }
    if (are_good && at == type_elements(&s->type)) return true;
    return verify_broken(x, "L7", n, "the ranks' ranges do not cover its bucket, or cut a parameter");
}

static bool check_bucket_node(verify_index *x, const weft_node *n) {
    if (n->op == &weft_op_bucket && !check_bucket(x, n)) return false;
    if (verify_filled_by(n) && !check_counts(x, n)) return false;
    if ((n->op == &weft_op_reduce_scatter || n->op == &weft_op_all_gather) && !check_shards(x, n))
        return false;
    if (verify_sums_gradients(n) && !check_sum(x, n)) return false;
    if (verify_updated_by(n) && !check_update(x, n)) return false;
    return n->op != &weft_op_chunk_squares || check_squares(x, n);
}

bool verify_buckets(verify_index *x) {
    if (!check_gradients(x)) return false;
    for (const weft_node *n = x->p->graph->first; n; n = n->next)
        if (!check_bucket_node(x, n)) return false;
    return true;
}
