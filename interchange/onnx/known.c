/* known.c - values that are known while importing. A node of known operands is computed by a graph that has
 * nothing else, with reference kernels: so there is one meaning of each operator. */
#include "interchange/onnx/operators.h"

#include "runtime/data/convert.h"

onnx_known *onnx_known_new(importer *in, const tensor *type) {
    onnx_known *k = kit_take(in->arena, 1, sizeof *k);
    size_t bytes = weft_dtype_bytes(type->dtype);
    for (int i = 0; i < type->ndim; i++)
        if (!kit_mul(&bytes, bytes, (size_t)type->shape[i])) bytes = SIZE_MAX;
    if (k) *k = (onnx_known){*type, kit_take(in->arena, bytes ? bytes : 1, 1)};
    if (k && k->data) return k;
    kit_no_memory(in->error, "a constant");
    return NULL;
}

bool onnx_known_equal(const onnx_known *a, const onnx_known *b) {
    return a && b && a->type.dtype == b->type.dtype && a->type.ndim == b->type.ndim &&
           !memcmp(a->type.shape, b->type.shape, sizeof a->type.shape) &&
           !memcmp(a->data, b->data, tensor_bytes(&a->type));
}

double onnx_known_number(const onnx_known *k, int64_t i) {
    const char *at = (const char *)k->data + (size_t)i * weft_dtype_bytes(k->type.dtype);
    double number = 0;
    convert_numbers(k->type.dtype, at, WEFT_F64, &number, 1, true);
    return number;
}

/* ---- initializers ---- */

static const onnx_known *read_initializer(importer *in, const onnx_tensor *t) {
    weft_dtype dtype;
    if (!onnx_dtype(t->type, &dtype)) {
        kit_fail(in->error, WEFT_TYPE, "%.300s: tensor '%.80s' is of %s, which Weft does not have",
                 in->onnx->file.wire.path, t->name, onnx_type_name(t->type));
        return NULL;
    }
    tensor type = tensor_of(dtype, t->ndim, t->shape);
    onnx_known *k = onnx_known_new(in, &type);
    if (!k || onnx_tensor_read(&in->onnx->file, t, 0, k->data, onnx_tensor_bytes(t), in->error)) return NULL;
    return k;
}

bool onnx_is_parameter(const onnx_value *v) {
    weft_dtype dtype;
    const onnx_tensor *t = v->initializer;
    if (!t || !onnx_dtype(t->type, &dtype) || v->known[0]) return false;
    return onnx_is_float(dtype) && onnx_tensor_bytes(t) > weft_dtype_bytes(dtype);
}

const onnx_known *onnx_known_of(importer *in, onnx_value *v, int side) {
    if (v->known[side] || !v->initializer) return v->known[side];
    const onnx_known *k = read_initializer(in, v->initializer);
    if (!k || onnx_is_parameter(v)) return k; /* it stays a parameter for the graph */
    v->known[0] = v->known[1] = k;
    return k;
}

/* ---- computing ---- */

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
