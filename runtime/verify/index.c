/* index.c - what the rules ask about one program again and again, found in one walk over it: the waits for
 * its collectives, what happens to each bucket's gradients, and which subgraph a parameter belongs to by what
 * weft_model_set_ddp said. */
#include "runtime/verify/verify.h"

#include "ops/optimizer/update.h"
#include "ops/kit/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- waits ---- */

static void note_wait(verify_index *x, const weft_node *wait) {
    const weft_node *start = wait->in[0]->node;
    if (!start->n_out || start->id < 0 || start->id >= x->n_ids) return;
    x->wait[start->id] = wait;
    x->waits[start->id]++;
}

const weft_node *verify_wait_of(const verify_index *x, const weft_node *start, int *count) {
    bool has_id = start->n_out && start->id >= 0 && start->id < x->n_ids;
    *count = has_id ? x->waits[start->id] : 0;
    return has_id ? x->wait[start->id] : NULL;
}

/* Only all_gathers may have no wait (L1). */
bool verify_outlasts_run(const verify_index *x, const weft_node *n) {
    int waits;
    return n->op == &weft_op_all_gather && !verify_wait_of(x, n, &waits);
}

/* ---- buckets ---- */

/* Updates are the ops that write their first operand, other than collectives. */
const weft_variable *verify_updated_by(const weft_node *n) {
    const weft_variable *v = n->op->writes && n->n_in > 1 && n->in[0] ? n->in[0]->variable : NULL;
    if (n->op->flags & OP_COMMUNICATES || !v) return NULL;
    if (v->kind == VARIABLE_SHARD) return v->bucket;
    return v->kind == VARIABLE_BUCKET ? v : NULL;
}

/* A sum of stored micro-batches alone has the levels as its operands, without a new gradient. */
const weft_variable *verify_filled_by(const weft_node *n) {
    if (n->op == &weft_op_bucket) return n->variable;
    if (n->op != &weft_op_accumulate) return NULL;
    const weft_variable *level = n->in[0]->variable;
    bool is_alone = n->n_in == accumulate_levels(((const accumulate_attrs *)n->attrs)->of);
    return is_alone && level && level->n_members ? level->members[0]->bucket : NULL;
}

const weft_variable *verify_gradients_in(const weft_node *n) {
    const weft_variable *s = verify_filled_by(n);
    return s || n->op != &weft_op_accumulate ? s : verify_filled_by(n->in[n->n_in - 1]->node);
}

/* Counts what node n does to a bucket. */
static void count_bucket_use(verify_index *x, const weft_node *n) {
    const weft_variable *updated = verify_updated_by(n), *filled = verify_filled_by(n);
    if (updated) x->counts[updated->index].updates++;
    if (filled) x->counts[filled->index].buckets++;
    if (!n->variable) return;
    verify_counts *counts = &x->counts[n->variable->index];
    counts->sums += verify_sums_gradients(n);
    counts->gathers += n->op == &weft_op_all_gather;
    counts->summed += n->op == &weft_op_summed;
}

bool verify_sums_gradients(const weft_node *n) {
    if (n->op == &weft_op_reduce_scatter) return true;
    return n->op == &weft_op_all_reduce && n->variable && n->variable->kind == VARIABLE_BUCKET &&
           !n->variable->sum;
}

/* ---- gradients ---- */

static const weft_value *only_of(const weft_node *n) {
    const weft_value *only = NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || n->in[i] == only || (n->n_in > 1 && n->in[i]->type.ndim == 0)) continue;
        if (only) return NULL;
        only = n->in[i];
    }
    return only;
}

static bool is_in_body(const weft_node *fused, const weft_node *n) {
    for (int i = 0; i < fused->n_body; i++)
        if (fused->body[i] == n) return true;
    return false;
}

/* Of a fused node's result, through the body. */
const weft_value *verify_only_operand(const weft_value *v) {
    if (v->node->op != &weft_op_fused) return only_of(v->node);
    const weft_value *at = v->node->body_out[v->index];
    while (at && is_in_body(v->node, at->node)) at = only_of(at->node);
    return at;
}

const weft_node *verify_source_of(const weft_value *v, int64_t *first) {
    *first = 0;
    const weft_value *from;
    while (v->node->op != &weft_op_wait && v->node->op != &weft_op_bucket && v->node->op != &weft_op_summed &&
           v->node->op != &weft_op_accumulate && (from = verify_only_operand(v))) {
        if (v->base == from) *first += v->base_offset;
        v = from;
    }
    return v->node;
}

/* ---- subgraphs ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_path(const void *pa, const void *pb) {
    const subgraph *const *a = pa, *const *b = pb;
    int order = strcmp((*a)->path, (*b)->path);
    return order ? order : (*a > *b) - (*a < *b);
}

static bool sort_paths(verify_index *x) {
    const weft_plan *plan = x->plan;
    for (const ddp_entry *e = plan->model->ddps; e; e = e->next) x->n_scopes++;
    x->scopes = verify_array(x, x->n_scopes, sizeof *x->scopes);
    x->subgraphs = verify_array(x, plan->n_subgraphs, sizeof *x->subgraphs);
    if (!x->scopes || !x->subgraphs) return false;
    int n = 0;
    for (const ddp_entry *e = plan->model->ddps; e; e = e->next) x->scopes[n++] = e->path;
    for (int i = 0; i < plan->n_subgraphs; i++) x->subgraphs[i] = &plan->subgraphs[i];
    qsort(x->scopes, (size_t)n, sizeof *x->scopes, by_text);
    qsort(x->subgraphs, (size_t)plan->n_subgraphs, sizeof *x->subgraphs, by_path);
    return true;
}

/* The first subgraph whose path is the first `n` characters of `path`; NULL: none. */
static const subgraph *subgraph_named(const verify_index *x, const char *path, size_t n) {
    int low = 0, high = x->plan->n_subgraphs;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const char *own = x->subgraphs[middle]->path;
        if (strncmp(own, path, n) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const subgraph *found = low < x->plan->n_subgraphs ? x->subgraphs[low] : NULL;
    return found && strncmp(found->path, path, n) == 0 && !found->path[n] ? found : NULL;
}

/* Whether weft_model_set_ddp names the scope that is the first n characters of path. */
static bool is_scope(const verify_index *x, const char *path, size_t n) {
    char scope[1400];
    const char *key = scope;
    if (n >= sizeof scope || !x->n_scopes) return false;
    memcpy(scope, path, n);
    scope[n] = 0;
    return bsearch(&key, x->scopes, (size_t)x->n_scopes, sizeof key, by_text) != NULL;
}

/* The longest scope named by weft_model_set_ddp that is `path` or contains it; without one, the first name
 * of the path, or "" for a path of one name. NULL: no subgraph has this path. */
const subgraph *verify_subgraph(const verify_index *x, const char *path) {
    size_t n = strlen(path), top = strcspn(path, "/");
    for (;; n--) {
        bool is_end = !path[n] || path[n] == '/' || !n;
        if (is_end && is_scope(x, path, n)) return subgraph_named(x, path, n);
        if (!n) return subgraph_named(x, path, path[top] ? top : 0);
    }
}

const subgraph *verify_subgraph_of(verify_index *x, const weft_variable *parameter) {
    const subgraph **owner = &x->owner[parameter->index];
    if (!*owner) *owner = verify_subgraph(x, parameter->path);
    return *owner;
}

/* Ranges follow one another in the order of the group's ranks. */
void verify_own(verify_index *x, const weft_variable *s, int64_t *begin, int64_t *end) {
    const subgraph *g = verify_subgraph_of(x, s->members[0]);
    *begin = 0;
    *end = s->shards ? 0 : type_elements(&s->type);
    for (int i = 0; g && s->shards && i < g->n_ranks; i++) {
        *end += (int64_t)s->shards[i];
        if (g->ranks[i] == x->plan->options.rank) break;
        *begin = *end;
    }
}

/* ---- the index ---- */

void *verify_array(verify_index *x, int64_t count, size_t width) {
    return arena_new_array(&x->memory, count > 0 ? (size_t)count : 1, width);
}

/* One walk over the program. */
bool verify_index_open(verify_index *x, const weft_plan *plan, const program *p) {
    *x = (verify_index){.plan = plan, .p = p, .n_variables = plan->model->n_variables};
    arena_init(&x->memory, &plan->env);
    if (!p) return true;
    x->n_ids = p->graph->next_id + 1;
    x->wait = verify_array(x, x->n_ids, sizeof *x->wait);
    x->waits = verify_array(x, x->n_ids, sizeof *x->waits);
    x->counts = verify_array(x, x->n_variables, sizeof *x->counts);
    x->owner = verify_array(x, x->n_variables, sizeof *x->owner);
    if (!x->wait || !x->waits || !x->counts || !x->owner || !sort_paths(x)) return false;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->op == &weft_op_wait) note_wait(x, n);
        count_bucket_use(x, n);
    }
    return true;
}

weft_status verify_index_close(verify_index *x, bool good, weft_error *error) {
    arena_free(&x->memory);
    if (good) return WEFT_OK;
    return x->error.status ? error_set(error, x->error.status, "%s", x->error.text)
                           : error_memory(error, "verify");
}

bool verify_broken(verify_index *x, const char *rule, const weft_node *n, const char *what) {
    char node[200];
    return !error_set(&x->error, WEFT_INTERNAL, "%s: graph %s, step %d, %s: %s", rule, n->graph->name,
                      n->order, node_show(n, node), what);
}
