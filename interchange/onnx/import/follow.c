/* follow.c - known values that follow the batch, as values of a graph. What they are with two batches says
 * how: equal along the batch (a mask), counting along it (indices of rows), or numbers that grow with it. */
#include "interchange/onnx/import/import.h"

#include "runtime/data/convert.h"

/* What a known value is with the batch of either side. */
typedef struct following {
    const onnx_known *known[SIDES];
    int64_t batch[SIDES];
    int n; /* axes that are the batch */
    bool is_batch[WEFT_MAX_NDIM];
} following;

static bool same_but_for_batch(following *f) {
    const tensor *a = &f->known[0]->type, *b = &f->known[1]->type;
    if (a->ndim != b->ndim || a->dtype != b->dtype) return false;
    for (int i = 0; i < a->ndim; i++) {
        f->is_batch[i] = a->shape[i] != b->shape[i];
        f->n += f->is_batch[i];
        if (f->is_batch[i] && (a->shape[i] != f->batch[0] || b->shape[i] != f->batch[1])) return false;
    }
    return true;
}

/* ---- elements ---- */

/* The place of element `at` in a tensor whose batch axes have length 1; in *row its place along the last of
 * them. */
static int64_t place_of(const following *f, const tensor *t, int64_t at, int64_t *row) {
    int64_t place = 0, stride = 1;
    *row = 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t index = at % t->shape[i];
        at /= t->shape[i];
        if (f->is_batch[i])
            *row = index;
        else {
            place += index * stride;
            stride *= t->shape[i];
        }
    }
    return place;
}

static bool is_plain(weft_dtype dtype) {
    return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_I64 || dtype == WEFT_I32 ||
           dtype == WEFT_U8 || dtype == WEFT_BOOL;
}

/* base + step times the row, of each place; from the side with more rows. */
typedef struct lines {
    tensor type; /* batch axes have length 1 */
    double *base, *step;
    bool is_flat; /* each step is 0 */
} lines;

static bool lines_make(importer *in, const following *f, lines *l) {
    const onnx_known *k = f->known[1];
    int64_t n = tensor_elements(&k->type), row;
    *l = (lines){.type = k->type, .is_flat = true};
    for (int i = 0; i < l->type.ndim; i++)
        if (f->is_batch[i]) l->type.shape[i] = 1;
    size_t room = (size_t)tensor_elements(&l->type) + 1;
    l->base = kit_take(in->arena, room, sizeof *l->base);
    l->step = kit_take(in->arena, room, sizeof *l->step);
    if (!l->base || !l->step) return kit_no_memory(in->error, "a constant"), false;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = place_of(f, &k->type, i, &row);
        if (row == 0) l->base[place] = onnx_known_number(k, i);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t place = place_of(f, &k->type, i, &row);
        if (row == 1) l->step[place] = onnx_known_number(k, i) - l->base[place];
        l->is_flat = l->is_flat && l->step[place] == 0;
    }
    return true;
}

/* Whether both sides are these lines. */
static bool lines_fit(const following *f, const lines *l) {
    for (int side = 0; side < SIDES; side++) {
        const onnx_known *k = f->known[side];
        int64_t n = tensor_elements(&k->type), row;
        for (int64_t i = 0; i < n; i++) {
            int64_t place = place_of(f, &k->type, i, &row);
            double wanted = l->base[place] + l->step[place] * (double)row, found = onnx_known_number(k, i);
            if (wanted != found && !(wanted != wanted && found != found)) return false;
        }
    }
    return true;
}

/* ---- values ---- */

/* NULL: out of memory, or the type does not hold a number. */
static weft_value *constant_of(importer *in, const lines *l, const double *numbers, int side) {
    onnx_known *k = onnx_known_new(in, &l->type);
    size_t n = (size_t)tensor_elements(&l->type);
    weft_dtype as = l->type.dtype == WEFT_BOOL ? WEFT_U8 : l->type.dtype;
    if (!k || convert_numbers(WEFT_F64, numbers, as, k->data, n, true) != n) return NULL;
    return weft_constant_tensor(in->graph[side], k->type.dtype, k->type.ndim, k->type.shape, k->data);
}

static weft_value *value_of_lines(importer *in, const following *f, const lines *l, int side) {
    int64_t shape[WEFT_MAX_NDIM], rows[WEFT_MAX_NDIM];
    for (int i = 0; i < l->type.ndim; i++) {
        shape[i] = f->is_batch[i] ? WEFT_BATCH : l->type.shape[i];
        rows[i] = f->is_batch[i] ? WEFT_BATCH : 1;
    }
    weft_value *base = constant_of(in, l, l->base, side);
    if (!base) return NULL;
    if (l->is_flat) return weft_broadcast_to(base, l->type.ndim, shape);
    weft_value *row = weft_arange(in->graph[side], l->type.dtype, 0, (double)WEFT_BATCH, 1);
    weft_value *step = constant_of(in, l, l->step, side);
    if (!step) return NULL;
    weft_value *rise = weft_mul(step, weft_reshape(row, l->type.ndim, rows));
    return weft_add(base, rise);
}

/* Numbers of one shape that are base + step times the batch: the batch is a sum of ones along it. */
static weft_value *value_of_length(importer *in, const following *f, int side) {
    const onnx_known *a = f->known[0], *b = f->known[1];
    int64_t n = tensor_elements(&a->type);
    lines l = {.type = a->type};
    l.base = kit_take(in->arena, (size_t)n + 1, sizeof *l.base);
    l.step = kit_take(in->arena, (size_t)n + 1, sizeof *l.step);
    if (!l.base || !l.step) return kit_no_memory(in->error, "a constant"), NULL;
    for (int64_t i = 0; i < n; i++) {
        l.step[i] = (onnx_known_number(b, i) - onnx_known_number(a, i)) / (double)(f->batch[1] - f->batch[0]);
        l.base[i] = onnx_known_number(a, i) - l.step[i] * (double)f->batch[0];
        bool is_whole = l.step[i] == (double)(int64_t)l.step[i];
        if (!is_whole && a->type.dtype != WEFT_F32 && a->type.dtype != WEFT_F64) return NULL;
    }
    weft_value *ones = weft_constant(in->graph[side], WEFT_I64, WEFT_SHAPE(WEFT_BATCH), 1);
    weft_value *batch = weft_cast(weft_sum(ones, WEFT_ALL, false), a->type.dtype);
    weft_value *base = constant_of(in, &l, l.base, side), *step = constant_of(in, &l, l.step, side);
    if (!base || !step) return NULL;
    weft_value *rise = weft_mul(step, batch);
    return weft_add(base, rise);
}

/* Whether the two are lines along the batch. */
static bool are_lines(importer *in, following *f, lines *l) {
    if (!same_but_for_batch(f) || !is_plain(f->known[0]->type.dtype) || f->n == 0) return false;
    bool counts = f->known[0]->type.dtype != WEFT_BOOL && f->known[0]->type.dtype != WEFT_U8;
    return lines_make(in, f, l) && lines_fit(f, l) && (l->is_flat || (counts && f->n == 1));
}

bool onnx_follows(importer *in, const onnx_known *here, const onnx_known *there) {
    following f = {.known = {here, there}, .batch = {in->batch[0], in->batch[1]}};
    lines l;
    return are_lines(in, &f, &l);
}

weft_value *onnx_following(importer *in, const onnx_value *v, int side) {
    following f = {.known = {v->known[0], v->known[1]}, .batch = {in->batch[0], in->batch[1]}};
    lines l;
    if (!f.known[0] || !f.known[1]) return NULL;
    if (are_lines(in, &f, &l)) return value_of_lines(in, &f, &l, side);
    weft_dtype dtype = f.known[0]->type.dtype;
    bool is_length = f.n == 0 && f.known[0]->type.ndim == f.known[1]->type.ndim && is_plain(dtype);
    return is_length && dtype != WEFT_BOOL && dtype != WEFT_U8 ? value_of_length(in, &f, side) : NULL;
}
