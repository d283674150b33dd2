/* fold.c - a node of known operands is computed by a graph that has nothing else, with reference kernels: so
 * there is one meaning of each operator. */
#include "interchange/onnx/import/operators.h"

/* The graph of one node: operands are constants, results outputs "0", "1", ... */
typedef struct scratch {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} scratch;

static void scratch_end(scratch *s) {
    weft_session_close(s->session);
    weft_store_free(s->store);
    weft_plan_free(s->plan);
    weft_model_free(s->model);
}

static tensor type_of_value(weft_value *v) {
    tensor t = {.dtype = weft_value_dtype(v), .ndim = weft_ndim(v)};
    for (int i = 0; i < t.ndim; i++) t.shape[i] = weft_dim(v, i);
    return t;
}

static bool is_empty(const tensor *t) {
    for (int i = 0; i < t->ndim; i++)
        if (!t->shape[i]) return true;
    return false;
}

static bool take_operands(onnx_call *c, const onnx_operator *op, scratch *s) {
    c->scratch_graph = weft_graph_new(s->model, "g", WEFT_EVAL);
    for (int i = 0; i < c->node->n_in && !(op->is_like && i); i++) {
        const onnx_known *k = c->operands[i] ? onnx_known_of(c->in, c->operands[i], c->side) : NULL;
        if (!c->operands[i]) continue;
        if (!k) return false;
        c->scratch[i] =
            weft_constant_tensor(c->scratch_graph, k->type.dtype, k->type.ndim, k->type.shape, k->data);
    }
    return true;
}

/* Whether a result is larger than a constant of a graph may be. */
static bool has_large(const onnx_call *c) {
    enum { LARGEST = 32 << 20 }; /* bytes, of weft_constant_tensor() */
    for (int i = 0; i < c->node->n_out; i++) {
        tensor type = c->results[i] ? type_of_value(c->results[i]) : (tensor){0};
        if (c->results[i] && tensor_bytes(&type) > LARGEST) return true;
    }
    return false;
}

/* The results that have elements become outputs; all become known values. */
static int take_results(onnx_call *c, onnx_known **results, weft_fetch *fetches, char (*names)[12]) {
    int n = 0;
    for (int i = 0; i < c->node->n_out; i++) {
        if (!c->results[i]) continue;
        tensor type = type_of_value(c->results[i]);
        results[i] = onnx_known_new(c->in, &type);
        if (!results[i]) return -1;
        if (is_empty(&type)) continue;
        snprintf(names[n], sizeof names[n], "%d", i);
        weft_output(weft_at(c->results[i], "constant", 0), names[n]);
        fetches[n] = (weft_fetch){names[n], results[i]->data, tensor_bytes(&type)};
        n++;
    }
    return n;
}

static weft_status run(scratch *s, const weft_fetch *fetches, int n, weft_error *error) {
    weft_compile_options options = {.isa = WEFT_ISA_REFERENCE, .threads = 1};
    s->plan = weft_compile(s->model, &options, error);
    if (s->plan) s->store = weft_store_new(s->plan, 0, error);
    if (s->store) s->session = weft_session_open(s->plan, s->store, error);
    if (!s->session) return error->status;
    return weft_run(s->session, "g", NULL, 0, fetches, n, error);
}

/* What the node's results are on this side; where one is too large, none. */
static bool compute(onnx_call *c, const onnx_operator *op, onnx_known **results) {
    enum { MOST = 64 };
    char names[MOST][12];
    weft_fetch fetches[MOST];
    scratch s = {.model = weft_model_new_in("constants", &c->in->arena->env)};
    weft_error error = {0};
    bool is_done = false;
    if (c->node->n_out > MOST) return onnx_refuse(c, "it has more than %d results", MOST);
    if (!s.model) return kit_no_memory(c->in->error, "constants"), false;
    if (take_operands(c, op, &s)) {
        weft_value *first = onnx_build_row(c, op);
        onnx_result(c, 0, first);
        if (has_large(c)) memset(c->results, 0, (size_t)c->node->n_out * sizeof *c->results);
        int n = c->in->error->status ? -1 : take_results(c, results, fetches, names);
        if (n > 0 || (n == 0 && weft_model_error(s.model)->status)) run(&s, fetches, n, &error);
        is_done = n >= 0 && !error.status;
        if (error.status) onnx_refuse(c, "%s", error.text);
    }
    scratch_end(&s);
    memset(c->results, 0, (size_t)c->node->n_out * sizeof *c->results);
    c->scratch_graph = NULL;
    return is_done;
}

static bool depends_on_side(const onnx_call *c) {
    for (int i = 0; i < c->node->n_in; i++) {
        const onnx_value *v = c->operands[i];
        if (v && v->known[0] != v->known[1]) return true;
    }
    return false;
}

/* Whether each result whose shape differs between the sides follows the batch in a way that a graph has.
 * If not, the node becomes one of the graph: as numbers it would have this batch only. */
static bool all_follow(const onnx_call *c, onnx_known *const *here, onnx_known *const *there) {
    for (int i = 0; i < c->node->n_out; i++) {
        const onnx_known *a = here[i], *b = there[i];
        bool is_one =
            !a || !b ||
            (a->type.ndim == b->type.ndim && !memcmp(a->type.shape, b->type.shape, sizeof a->type.shape));
        if (!is_one && !onnx_follows(c->in, a, b)) return false;
    }
    return true;
}

bool onnx_fold(onnx_call *c, const onnx_operator *op, onnx_value **results) {
    enum { MOST = 64 };
    if (c->in->folded++ == ONNX_FOLDED)
        return onnx_refuse(c, "more than %d nodes of known operands are computed while importing",
                           ONNX_FOLDED);
    onnx_known *made[SIDES][MOST] = {{0}};
    bool is_one = !depends_on_side(c);
    for (c->side = 0; c->side < SIDES; c->side++) {
        if (c->side && is_one)
            memcpy(made[1], made[0], sizeof made[0]);
        else if (!compute(c, op, made[c->side]))
            return false;
    }
    if (!is_one && !all_follow(c, made[0], made[1])) return true;
    for (int i = 0; i < c->node->n_out; i++)
        for (int side = 0; results[i] && side < SIDES; side++) results[i]->known[side] = made[side][i];
    return true;
}
