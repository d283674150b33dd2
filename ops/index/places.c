/* places.c - see places.h. */
#include "ops/index/places.h"

#include <stdio.h>

/* An axis of `shape`; `whole`: that of x, or -1. */
static void append_axis(places_loop *loop, int whole, int64_t length) {
    loop->whole[loop->shape.ndim] = whole;
    loop->shape.shape[loop->shape.ndim++] = length;
}

const char *places_loop_of(const places_attrs *a, weft_value *const *in, places_loop *loop) {
    const tensor_type *x = &in[0]->type;
    *loop = (places_loop){.n = a->axes.n, .ids = type_of(WEFT_I64, 0, NULL)};
    for (int k = 0; k < loop->n; k++) {
        tensor_type own = in[1 + k]->type, all;
        own.dtype = WEFT_I64;
        loop->axis[k] = (int)a->axes.v[k];
        if (loop->axis[k] >= x->ndim || (k && loop->axis[k] <= loop->axis[k - 1]))
            return "the axes must rise, and be axes of x";
        if (!shape_broadcast(&loop->ids, &own, &all)) return "the ids do not broadcast to each other";
        loop->ids = all;
    }
    if (x->ndim - loop->n + loop->ids.ndim > WEFT_MAX_NDIM) return "the result would have more than 8 axes";
    bool follow = loop->n && loop->axis[loop->n - 1] - loop->axis[0] == loop->n - 1;
    loop->first = follow ? loop->axis[0] : 0;
    loop->shape = type_of(x->dtype, 0, NULL);
    for (int i = 0, k = 0; i <= x->ndim; i++) {
        if (i == loop->first)
            for (int j = 0; j < loop->ids.ndim; j++) append_axis(loop, -1, loop->ids.shape[j]);
        if (k < loop->n && loop->axis[k] == i)
            k++;
        else if (i < x->ndim)
            append_axis(loop, i, x->shape[i]);
    }
    return NULL;
}

bool places_want_loop(op_call *c, int more, places_loop *loop) {
    const places_attrs *a = c->attrs;
    if (a->axes.n < 1 || c->n_in != 1 + a->axes.n + more)
        return op_fail(c, WEFT_ARGUMENT, "%d operands for %d axes: there must be x, ids for each axis%s",
                       c->n_in, a->axes.n, more ? ", and values" : "");
    for (int k = 1; k < c->n_in; k++)
        if (!c->in[k]) return op_fail(c, WEFT_ARGUMENT, "operand %d is missing", k);
    for (int k = 0; k < a->axes.n; k++)
        if (!dtype_is_integer(op_in(c, 1 + k)->dtype))
            return op_fail(c, WEFT_TYPE, "ids are %s: they must be integer", TYPE(op_in(c, 1 + k)));
    const char *why = places_loop_of(a, c->in, loop);
    return why ? op_fail(c, WEFT_SHAPE, "%s and %d ids, the first %s: %s", TYPE(op_in(c, 0)), a->axes.n,
                         TYPE(op_in(c, 1)), why)
               : true;
}

/* Strides for the `ndim` axes of `shape` that end as those of t do. */
static void strides_beside(const tensor_type *shape, const tensor *t, int64_t stride[WEFT_MAX_NDIM]) {
    for (int i = 0; i < shape->ndim; i++) {
        int own = i - shape->ndim + t->type.ndim;
        stride[i] = own < 0 || t->type.shape[own] == 1 ? 0 : t->stride[own];
    }
}

void places_ids_strides(const places_loop *loop, const tensor *ids, int64_t stride[WEFT_MAX_NDIM]) {
    strides_beside(&loop->ids, ids, stride);
}

void places_strides(const places_loop *loop, const tensor *t, int64_t stride[WEFT_MAX_NDIM]) {
    strides_beside(&loop->shape, t, stride);
}

void places_target(const kernel_call *c, const places_loop *loop, const int64_t *at, int64_t *place) {
    for (int i = 0; i < loop->shape.ndim; i++)
        if (loop->whole[i] >= 0) place[loop->whole[i]] = at[i];
    for (int k = 0; k < loop->n; k++) {
        int64_t own[WEFT_MAX_NDIM] = {0};
        const tensor *ids = &c->in[1 + k];
        for (int i = 0; i < loop->ids.ndim; i++) {
            int axis = i - loop->ids.ndim + ids->type.ndim;
            if (axis >= 0 && ids->type.shape[axis] > 1) own[axis] = at[loop->first + i];
        }
        int64_t id = element_int(ids, own);
        place[loop->axis[k]] = id < 0 ? id + c->in[0].type.shape[loop->axis[k]] : id;
    }
}

weft_status places_check(const kernel_call *c, const places_loop *loop) {
    for (int k = 0; k < loop->n; k++) {
        const tensor *ids = &c->in[1 + k];
        int64_t at[WEFT_MAX_NDIM] = {0}, number = 0, length = c->in[0].type.shape[loop->axis[k]];
        do {
            int64_t id = element_int(ids, at);
            if (id < -length || id >= length) {
                char why[160];
                snprintf(why, sizeof why, "id %lld (number %lld) is outside axis %d, %lld to %lld",
                         (long long)id, (long long)number, loop->axis[k], (long long)-length,
                         (long long)(length - 1));
                /* a number is that of operand 1 */
                return k == 0 ? kernel_fail_at(c, number, "%s", why) : kernel_fail(c, "%s", why);
            }
            number++;
        } while (index_next(&ids->type, at));
    }
    return WEFT_OK;
}
