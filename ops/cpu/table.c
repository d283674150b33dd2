/* table.c - ops/cpu/list.h as a table, the reference kernel behind it, and the choice among them. */
#include "graph/kernel.h"
#include "ops/op_kit.h"

#include <string.h>

#define ONE(name) extern const weft_kernel name;
#define ALL(name) ONE(name##_avx512) ONE(name##_avx2) ONE(name##_sse2)
#include "ops/cpu/list.h"
#undef ONE

static const weft_kernel *const table[] = {
#define ONE(name) &name,
#include "ops/cpu/list.h"
#undef ONE
#undef ALL
    NULL,
};

static weft_status reference_run(void *state, const kernel_call *c) {
    (void)state;
    const weft_op *op = c->node->op;
    return op->reference ? op->reference(c) : reference_pointwise(c);
}

static const weft_kernel reference = {.name = "reference", .strided_in = ~0u, .run = reference_run};

int kernels_of(const weft_op *op, const kernel_env *env, const weft_kernel **list, int room) {
    int n = 0;
    for (const weft_kernel *const *k = table; *k && n < room - 1; k++)
        if ((*k)->op == op && (*k)->min_isa <= env->isa) list[n++] = *k;
    if (op->reference || op->scalar) list[n++] = &reference;
    return n;
}

const weft_kernel *kernel_choose(const weft_node *n, const kernel_env *env, arena *a, const char **declined) {
    const weft_kernel *list[16];
    int count = kernels_of(n->op, env, list, 16);
    const char *last = NULL; /* one reason for all instruction sets is said once */
    if (declined) *declined = NULL;
    for (int i = 0; i < count; i++) {
        const char *why = list[i]->declines ? list[i]->declines(n, env) : NULL;
        if (!why) return list[i];
        bool said = last && strcmp(last, why) == 0;
        last = why;
        if (!declined || said) continue;
        *declined = arena_printf(a, "%s%s%s: %s", *declined ? *declined : "", *declined ? "; " : "",
                                 list[i]->name, why);
    }
    return NULL;
}

bool lies_row_major(const weft_value *v) {
    int64_t want[WEFT_MAX_NDIM];
    stride_row_major(&v->type, want);
    return !v->has_layout || stride_same(&v->type, v->stride, want);
}

bool lies_channels_last(const weft_value *v) {
    int64_t want[WEFT_MAX_NDIM];
    stride_channels_last(&v->type, want);
    return !v->has_layout || stride_same(&v->type, v->stride, want);
}
