/* verify_buckets.c - proves who updates what, and by which gradients, in one scheduled program. Rules:
 *   L4  every parameter that the graph trains is in exactly one bucket, its own segment's, and no other is; a segment
 *       holds parameters of one subgraph (so of one process group) and type, one after the other
 *   L5  a bucket is summed over ranks once, its own bytes; an update reads its segment's gradients behind the wait for
 *       that sum; it is the only one of its segment, and a program that does not end its step has neither
 *   L7  an update covers its segment, or this rank's range of one that is sharded, with the gradients and the state of
 *       that range; ranges follow one another, cover the segment and cut no parameter (flat: no chunk of norms)
 */
#include "runtime/verify.h"

#include "ops/collective.h"
#include "ops/update.h"

#include <string.h>

extern const weft_op weft_op_bucket;

/* ---- worked out again ---- */

static bool claims(const char *scope, const char *path) {
    size_t n = strlen(scope);
    return !n || (strncmp(scope, path, n) == 0 && (path[n] == '/' || !path[n]));
}

const subgraph *verify_home(const weft_plan *plan, const char *path) {
    const char *scope = NULL;
    for (const ddp_entry *e = plan->model->ddps; e; e = e->next)
        if (claims(e->path, path) && (!scope || strlen(e->path) > strlen(scope))) scope = e->path;
    size_t top = strcspn(path, "/"), length = scope ? strlen(scope) : path[top] ? top : 0;
    for (int i = 0; i < plan->n_subgraphs; i++) {
        const char *own = plan->subgraphs[i].path;
        if (strlen(own) == length && strncmp(own, path, length) == 0) return &plan->subgraphs[i];
    }
    return NULL;
}

void verify_own(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end) {
    const subgraph *g = verify_home(plan, s->members[0]->path);
    *begin = 0;
    *end = s->shards ? 0 : type_elements(&s->type);
    for (int i = 0; g && s->shards && i < g->n_ranks; i++) {
        *end += (int64_t)s->shards[i];
        if (g->ranks[i] == plan->options.rank) break;
        *begin = *end;
    }
}

/* ---- L4 ---- */

static const weft_node *bucket_of(const program *p, const weft_variable *s, int *count) {
    const weft_node *found = NULL;
    *count = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        if (n->op == &weft_op_bucket && n->variable == s) {
            found = n;
            ++*count;
        }
    return found;
}

static bool is_trained(const program *p, const weft_variable *v) {
    for (int i = 0; i < p->plan->n_trainings; i++)
        if (strcmp(p->plan->trainings[i].name, p->name) == 0 && p->plan->trainings[i].trains[v->index])
            return true;
    return false;
}

static bool is_listed(const weft_variable *v) {
    int times = 0;
    for (int i = 0; v->segment && i < v->segment->n_members; i++) times += v->segment->members[i] == v;
    return times == 1;
}

static weft_status check_gradients(const program *p, weft_error *error) {
    for (const weft_variable *v = p->plan->model->variables; v; v = v->next) {
        int buckets = 0;
        if (v->kind != VARIABLE_PARAMETER) continue;
        if (v->segment) bucket_of(p, v->segment, &buckets);
        if (buckets != is_trained(p, v) || (v->segment && !is_listed(v)))
            return error_set(error, WEFT_INTERNAL, "L4: graph %s: %s is in %d buckets", p->graph->name,
                             v->path, v->segment && !is_listed(v) ? 0 : buckets);
    }
    return WEFT_OK;
}

static weft_status check_bucket(const program *p, weft_error *error, const weft_node *b) {
    const weft_variable *s = b->variable;
    const subgraph *home = NULL;
    if (!s || s->kind != VARIABLE_SEGMENT || b->n_in != s->n_members ||
        !type_equal(&b->out[0].type, &s->type))
        return verify_broken(p, error, "L4", b, "its operands are not its segment's members");
    for (int i = 0; i < b->n_in; i++) {
        const weft_variable *v = s->members[i];
        int64_t end = i + 1 < b->n_in ? s->members[i + 1]->offset : type_elements(&s->type);
        if (v->segment != s || !type_equal(&b->in[i]->type, &v->type) || v->type.dtype != s->type.dtype)
            return verify_broken(p, error, "L4", b,
                                 "a member belongs to another segment or has another type");
        if (i && verify_home(p->plan, v->path) != home)
            return verify_broken(p, error, "L4", b, "its segment mixes subgraphs");
        home = verify_home(p->plan, v->path);
        if ((!i && v->offset) || v->offset + type_elements(&v->type) > end)
            return verify_broken(p, error, "L4", b, "members overlap");
    }
    if (home == &p->plan->subgraphs[s->subgraph]) return WEFT_OK;
    return verify_broken(p, error, "L4", b, "its segment says another subgraph than its members");
}

/* ---- L5 ---- */

static bool is_update(const weft_node *n) {
    const weft_variable *v = n->op->writes && n->n_in > 1 && n->in[0] ? n->in[0]->variable : NULL;
    if (n->op->flags & OP_COMMUNICATES || !v) return false;
    return v->kind == VARIABLE_SEGMENT || v->kind == VARIABLE_SHARD;
}

static const weft_variable *updated_by(const weft_node *n) {
    const weft_variable *v = is_update(n) ? n->in[0]->variable : NULL;
    return v && v->kind == VARIABLE_SHARD ? v->segment : v;
}

/* A bucket, or what it has been added to. */
static bool is_whole_bucket(const weft_node *n, const weft_variable *s) {
    if (n->op == &weft_op_accumulate) n = n->in[n->n_in - 1]->node;
    return n->op == &weft_op_bucket && n->variable == s;
}

/* What gradients are a part, a copy or a multiple of; *first: its element that comes first. */
static const weft_node *source_of(const weft_value *v, int64_t *first) {
    *first = 0;
    while (v->node->op != &weft_op_wait && v->node->op != &weft_op_bucket && v->node->n_in == 1 &&
           v->node->in[0]) {
        if (v->base == v->node->in[0]) *first += v->base_offset;
        v = v->node->in[0];
    }
    return v->node;
}

static weft_status check_gradient(const program *p, weft_error *error, const weft_node *n,
                                  const weft_value *v, const weft_variable *s) {
    int64_t first, begin, end;
    const weft_node *from = source_of(v, &first),
                    *start = from->op == &weft_op_wait ? from->in[0]->node : NULL;
    bool is_summed = start && start->variable == s && verify_sums_gradients(start);
    if (p->plan->options.world > 1 ? !is_summed : !is_whole_bucket(from, s))
        return verify_broken(p, error, "L5", n, "does not wait for the sum of its own gradients");
    verify_own(p->plan, s, &begin, &end);
    if (first == begin && type_elements(&v->type) == end - begin) return WEFT_OK;
    return verify_broken(p, error, "L7", n, "reads gradients of another range than this rank's");
}

/* What happens to a bucket in its program: as often as it must. */
static weft_status check_turn(const program *p, weft_error *error, const weft_node *b) {
    const weft_variable *s = b->variable;
    int sums = 0, updates = 0, gathers = 0;
    int64_t begin, end;
    bool ends_step = p->phase == PHASE_WHOLE || p->phase == PHASE_LAST;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        sums += verify_sums_gradients(n) && n->variable == s;
        gathers += n->op == &weft_op_all_gather && n->variable == s;
        updates += updated_by(n) == s;
    }
    verify_own(p->plan, s, &begin, &end);
    if (sums != (ends_step && p->plan->options.world > 1) || updates != (ends_step && begin != end) ||
        gathers != (ends_step && s->shards))
        return verify_broken(p, error, "L5", b, "is not summed, used and sent back once where its step ends");
    return WEFT_OK;
}

static weft_status check_sum(const program *p, weft_error *error, const weft_node *n) {
    int buckets;
    bucket_of(p, n->variable, &buckets);
    if (buckets == 1 && is_whole_bucket(n->in[0]->node, n->variable) &&
        (n->op == &weft_op_reduce_scatter) == (n->variable->shards != NULL))
        return WEFT_OK;
    return verify_broken(p, error, "L5", n, "does not sum its segment's bucket to those who update by it");
}

/* ---- L7 ---- */

static weft_status check_update(const program *p, weft_error *error, const weft_node *n) {
    const weft_variable *over = n->in[0]->variable, *s = updated_by(n);
    int64_t begin, end;
    verify_own(p->plan, s, &begin, &end);
    if ((s->shards != NULL) != (over != s) || (over != s && over->offset != begin) ||
        type_elements(&over->type) != end - begin)
        return verify_broken(p, error, "L7", n, "updates another range than this rank's");
    for (int i = 2; i < n->n_in; i++) {
        const weft_variable *state = n->in[i] ? n->in[i]->variable : NULL;
        if (state && state->segment && (state->segment != s || state->offset != begin))
            return verify_broken(p, error, "L7", n, "has the state of another range");
    }
    return check_gradient(p, error, n, n->in[1], s);
}

static weft_status check_squares(const program *p, weft_error *error, const weft_node *n) {
    int64_t begin, end;
    verify_own(p->plan, n->variable, &begin, &end);
    bool is_right = begin == end ? !n->n_in : n->n_in && ((chunk_squares_attrs *)n->attrs)->begin == begin;
    if (!is_right) return verify_broken(p, error, "L7", n, "squares another range than this rank's");
    return n->n_in ? check_gradient(p, error, n, n->in[0], n->variable) : WEFT_OK;
}

/* Whether a rank's range may end at element `at`: between parameters, or with `flat` between chunks of norms. */
static bool may_cut(const weft_variable *s, int64_t at, bool flat) {
    for (int i = 0; i < s->n_members; i++) {
        int64_t begin = s->members[i]->offset;
        int64_t end = i + 1 < s->n_members ? s->members[i + 1]->offset : type_elements(&s->type);
        if (at == begin || at == end) return true;
        if (at > begin && at < end) return flat && (at - begin) % NORM_CHUNK == 0;
    }
    return false;
}

static weft_status check_shards(const program *p, weft_error *error, const weft_node *n) {
    const weft_variable *s = n->variable;
    const subgraph *g = verify_home(p->plan, s->members[0]->path);
    int64_t at = 0;
    bool are_good = s->shards && g;
    for (int r = 0; are_good && r < g->n_ranks; r++) {
        at += (int64_t)s->shards[r];
        are_good = may_cut(s, at, g->ddp.shard == WEFT_SHARD_FLAT);
    }
    if (are_good && at == type_elements(&s->type)) return WEFT_OK;
    return verify_broken(p, error, "L7", n, "the ranks' ranges do not cover its segment, or cut a parameter");
}

static weft_status check_node(const program *p, weft_error *error, const weft_node *n) {
    weft_status status = WEFT_OK;
    if (n->op == &weft_op_bucket && !(status = check_bucket(p, error, n))) status = check_turn(p, error, n);
    if (n->op == &weft_op_reduce_scatter || n->op == &weft_op_all_gather) status = check_shards(p, error, n);
    if (!status && verify_sums_gradients(n)) status = check_sum(p, error, n);
    if (is_update(n)) status = check_update(p, error, n);
    if (n->op == &weft_op_chunk_squares) status = check_squares(p, error, n);
    return status;
}

weft_status verify_buckets(const program *p, weft_error *error) {
    weft_status status = check_gradients(p, error);
    for (const weft_node *n = p->graph->first; n && !status; n = n->next) status = check_node(p, error, n);
    return status;
}
