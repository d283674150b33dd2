/* chunk_squares.c - sums of squares over chunks of NORM_CHUNK elements, counted from each parameter's start,
 * for all parameters of a bucket in their order: f64[chunks]. The operand f32[n] is the range of the bucket's
 * gradients that starts at `begin`; elements outside it count as 0, and without an operand all do. Summed
 * over ranks the result does not depend on how the ranges are cut. */
#include "ops/optimizer/update.h"

static const op_attr attrs[] = {
    {"path", ATTR_STRING, offsetof(chunk_squares_attrs, path)},
    {"begin", ATTR_INT, offsetof(chunk_squares_attrs, begin), 0, (int64_t)1 << 46},
    {0},
};

/* Chunks start again at each parameter, whatever the bucket's gaps. */
int64_t norm_chunks(int64_t elements) {
    return (elements + NORM_CHUNK - 1) / NORM_CHUNK;
}

bool member_range(const weft_variable *v, int64_t begin, int64_t count, int64_t *first, int64_t *last) {
    return flat_range(v->offset, type_elements(&v->type), begin, count, first, last);
}

bool flat_range(int64_t offset, int64_t n, int64_t begin, int64_t count, int64_t *first, int64_t *last) {
    *first = begin > offset ? begin - offset : 0;
    *last = begin + count - offset < n ? begin + count - offset : n;
    return *first < *last;
}

/* The range must lie in the bucket. */
static bool infer(op_call *c) {
    const chunk_squares_attrs *a = c->attrs;
    const weft_variable *s = a->path ? variable_find(c->graph->model, a->path) : NULL;
    if (!s || s->kind != VARIABLE_BUCKET)
        return op_fail(c, WEFT_NAME, "there is no bucket '%s'", SHOW(a->path));
    const tensor_type *x = c->n_in ? op_in(c, 0) : NULL;
    if (x && (x->dtype != WEFT_F32 || x->ndim != 1 || a->begin + x->shape[0] > s->type.shape[0]))
        return op_fail(c, WEFT_SHAPE, "%s from %lld is not a range of %s, %s", TYPE(x), (long long)a->begin,
                       s->path, TYPE(&s->type));
    int64_t chunks = 0;
    for (int i = 0; i < s->n_members; i++) chunks += norm_chunks(type_elements(&s->members[i]->type));
    c->out[0] = type_of(WEFT_F64, 1, &chunks);
    return true;
}

/* Each member's chunks come one after the other in the result. */
static weft_status reference(const kernel_call *c) {
    const chunk_squares_attrs *a = c->attrs;
    const weft_variable *s = c->node->variable;
    double *sums = c->out[0].data;
    int64_t count = c->n_in ? c->in[0].type.shape[0] : 0, first, last;
    for (int i = 0; i < s->n_members; i++) {
        const weft_variable *v = s->members[i];
        int64_t chunks = norm_chunks(type_elements(&v->type));
        for (int64_t k = 0; k < chunks; k++) sums[k] = 0;
        bool is_here = member_range(v, a->begin, count, &first, &last);
        for (int64_t k = first; is_here && k < last; k++) {
            double g = flat_get(&c->in[0], v->offset - a->begin + k);
            sums[k / NORM_CHUNK] += g * g;
        }
        sums += chunks;
    }
    return WEFT_OK;
}

const weft_op weft_op_chunk_squares = {
    .name = "chunk_squares",
    .summary = "sums of squares over fixed chunks of a bucket's gradients, f64",
    .max_in = 1,
    .flags = OP_VARIABLE | OP_NO_GRADIENT | OP_COMPILER,
    OP_ATTRS(chunk_squares_attrs, attrs),
    .infer = infer,
    .reference = reference,
    .samples =
        (const op_sample[]){/* of all, and of ranges that begin in the first and in the third member */
                            {"f32[9184]", "path=\"sample\"", .out = "f64[6]"},
                            {"f32[976]", "path=\"sample\" begin=4096", .out = "f64[6]"},
                            {"f32[4112]", "path=\"sample\" begin=5056", .out = "f64[6]"},
                            {"", "path=\"sample\"", .out = "f64[6]"},
                            {"f32[9184]", "path=\"sample\" begin=16", .error = "is not a range of sample"},
                            {"f32[8]", "path=\"no/such\"", .error = "there is no bucket"},
                            {0}},
};
