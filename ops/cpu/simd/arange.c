/* arange.c - arange in f32 and i64; other types are left to the reference. */
#include "ops/cpu/simd/simd.h"
#include "ops/shape/arange.h"

static const char *declines(const weft_node *n, const kernel_env *env) {
    weft_dtype dtype = n->out[0].type.dtype;
    return dtype == WEFT_F32 || dtype == WEFT_I64 ? NULL : "not f32 or i64";
}

static weft_status run(void *state, const kernel_call *c) {
    const arange_attrs *a = c->attrs;
    int64_t n = c->out[0].type.shape[0];
    double begin = a->begin, step = a->step;
    float *y = c->out[0].data;
    int64_t *i64 = c->out[0].data;
    if (c->out[0].type.dtype == WEFT_F32)
        for (int64_t i = 0; i < n; i++) y[i] = (float)(begin + (double)i * step);
    else
        for (int64_t i = 0; i < n; i++) i64[i] = (int64_t)(begin + (double)i * step);
    return WEFT_OK;
}

SIMD_KERNEL(arange, .declines = declines, .run = run);
