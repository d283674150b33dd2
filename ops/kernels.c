/* kernels.c - the choice among a backend's kernels, and the reference, which stands behind all of the CPU's. */
#include "graph/kernel.h"
#include "ops/op_kit.h"

#include <string.h>

static weft_status reference_run(void *state, const kernel_call *c) {
    (void)state;
    const weft_op *op = c->node->op;
    return op->reference ? op->reference(c) : reference_pointwise(c);
}

static const weft_kernel reference = {.name = "reference", .strided_in = ~0u, .run = reference_run};

int kernels_of(const weft_op *op, const kernel_env *env, const weft_kernel **list, int room) {
    int n = 0;
    bool is_cpu = env->device == WEFT_DEVICE_CPU;
    for (const weft_kernel *const *k = is_cpu ? cpu_kernels : cuda_kernels; *k && n < room - 1; k++)
        if ((*k)->op == op && (!is_cpu || (*k)->min_isa <= env->isa)) list[n++] = *k;
    if (is_cpu && (op->reference || op->scalar)) list[n++] = &reference;
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
