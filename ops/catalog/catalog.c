/* catalog.c - ops/list.h as a table, and all tables as one catalog. */
#include "ops/catalog/catalog.h"

#include "ops/kit/op_kit.h"

static const weft_op *const ops[] = {
#define X(name) &weft_op_##name,
#include "ops/list.h"
#undef X
    NULL,
};

static weft_status reference_run(void *state, const kernel_call *c) {
    const weft_op *op = c->node->op;
    return op->reference ? op->reference(c) : reference_pointwise(c);
}

/* The reference kernel works with any strides for most ops, but only those in reference_strided are declared:
 * a plan that uses it then has the same reorders as other plans. */
static const weft_kernel reference = {.name = "reference", .run = reference_run};

/* What a program defines is found by the op, as the reference is. */
static const weft_kernel own = {.name = "own", .run = reference_run};

const op_catalog weft_catalog = {ops, cpu_kernels, cuda_kernels, &reference, &own, optimizer_kinds};

int op_count(void) {
    return (int)(sizeof ops / sizeof *ops) - 1;
}

const weft_op *op_at(int index) {
    return index >= 0 && index < op_count() ? ops[index] : NULL;
}
