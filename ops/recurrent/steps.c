/* steps.c - see steps.h. */
#include "ops/recurrent/steps.h"

recurrent_steps steps_of(const weft_node *n, const weft_value *times, const weft_value *w) {
    const recurrent_attrs *a = n->attrs;
    return (recurrent_steps){.g = n->graph,
                             .steps = times->type.shape[0],
                             .batch = times->type.shape[1],
                             .hidden = w->type.shape[1],
                             .dtype = dtype_accumulator(w->type.dtype),
                             .reverse = a->reverse};
}

/* v as [rows, columns], or zeros. */
static weft_value *as_rows(const recurrent_steps *r, weft_value *v, int64_t rows, int64_t columns) {
    int64_t shape[] = {rows, columns};
    if (!v) return weft_constant(r->g, r->dtype, 2, shape, 0);
    if (v->type.dtype != r->dtype) v = weft_cast(v, r->dtype);
    return v->type.ndim == 2 ? v : weft_reshape(v, 2, shape);
}

weft_value *steps_rows(const recurrent_steps *r, weft_value *v, int64_t columns) {
    return as_rows(r, v, r->steps * r->batch, columns);
}

weft_value *steps_one(const recurrent_steps *r, weft_value *v, int64_t columns) {
    return as_rows(r, v, r->batch, columns);
}

weft_value *steps_like(weft_value *rows, const weft_value *like) {
    weft_value *v = weft_reshape(rows, like->type.ndim, like->type.shape);
    return v && v->type.dtype != like->type.dtype ? weft_cast(v, like->type.dtype) : v;
}

/* ---- steps ---- */

int64_t steps_time(const recurrent_steps *r, int64_t s) {
    return r->reverse ? r->steps - 1 - s : s;
}

weft_value **steps_list(const recurrent_steps *r, size_t values) {
    weft_value **list = arena_new_array(&r->g->model->arena, values * (size_t)r->steps, sizeof *list);
    return list ? list : model_fail(r->g->model, r->g, WEFT_MEMORY, "gradient of a recurrent op: out of memory");
}

weft_value *steps_at(const recurrent_steps *r, weft_value *rows, int64_t s) {
    int64_t t = steps_time(r, s);
    return weft_slice(rows, 0, t * r->batch, (t + 1) * r->batch);
}

weft_value *steps_join(const recurrent_steps *r, weft_value *const *by_time) {
    return weft_concat((int)r->steps, by_time, 0);
}

/* Rows of all steps but the first (or the last), and `other` in its place; `is_later`: the rows go to later
 * times. */
static weft_value *shifted(const recurrent_steps *r, weft_value *rows, weft_value *other, bool is_later) {
    int64_t all = r->steps * r->batch;
    if (r->steps == 1) return other;
    weft_value *kept = is_later ? weft_slice(rows, 0, 0, all - r->batch) : weft_slice(rows, 0, r->batch, all);
    return weft_concat(2, is_later ? (weft_value *[]){other, kept} : (weft_value *[]){kept, other}, 0);
}

weft_value *steps_before(const recurrent_steps *r, weft_value *rows, weft_value *first) {
    return shifted(r, rows, first, !r->reverse);
}

weft_value *steps_after(const recurrent_steps *r, weft_value *rows) {
    weft_value *zeros = rows ? steps_one(r, NULL, rows->type.shape[1]) : NULL;
    return shifted(r, rows, zeros, r->reverse);
}

weft_value *steps_past_w(const recurrent_steps *r, weft_value *dgates, weft_value *w, weft_value *dh,
                         const weft_value *h) {
    weft_value *wide = steps_one(r, w, r->hidden);
    weft_value *more = steps_like(weft_matmul(steps_after(r, dgates), wide, false, false), h);
    return dh ? weft_add(dh, more) : more;
}

weft_value *steps_carried(const recurrent_steps *r, weft_value *own, weft_value *factor) {
    weft_value **list = steps_list(r, 1), *next = NULL;
    for (int64_t s = r->steps - 1; list && s >= 0; s--) {
        weft_value *now = steps_at(r, own, s);
        if (next) now = weft_add(now, next);
        list[steps_time(r, s)] = now;
        next = weft_mul(now, steps_at(r, factor, s));
    }
    return list ? steps_join(r, list) : NULL;
}

/* ---- gates ---- */

weft_value *steps_gate(const recurrent_steps *r, weft_value *rows, int k) {
    return weft_slice(rows, 1, k * r->hidden, (k + 1) * r->hidden);
}

weft_value *steps_gates(int n, weft_value *const *gates) {
    return weft_concat(n, gates, 1);
}

weft_value *slope_of_sigma(weft_value *v) {
    return weft_sub(v, weft_square(v));
}

weft_value *slope_of_tanh(weft_value *v) {
    return weft_offset(weft_neg(weft_square(v)), 1);
}

weft_value *bend_of_sigma(weft_value *v) {
    return weft_offset(weft_scale(v, -2), 1);
}
