/* sort.c - the row of sort. */
#include "ops/cuda/index/sort.h"

#include "ops/cuda/cuda.h"
#include "ops/work.h"

/* Numbers of elements are ints in the sort of long rows, as are blocks. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    return type_elements(&n->in[0]->type) > 1 << 30 ? "more than 2^30 elements" : NULL;
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    sort_rows r = sort_rows_of(n->attrs, &n->in[0]->type);
    if (sort_is_shared(&r, n->in[0]->type.dtype)) return 0;
    return (size_t)sort_room(type_elements(&n->in[0]->type)) * sizeof(int32_t);
}

/* For each round keys, and three kernels for each byte of them; at last the results. */
static void work(const weft_node *n, node_work *w) {
    sort_rows r = sort_rows_of(n->attrs, &n->in[0]->type);
    weft_dtype dtype = n->in[0]->type.dtype;
    double list = 2.0 * (double)type_elements(&n->in[0]->type) * sizeof(int32_t);
    if (sort_is_shared(&r, dtype)) return;
    for (int k = 0, bits; (bits = sort_round_bits(&r, dtype, k)) > 0; k++) {
        int passes = (bits + 7) / 8;
        w->launches += 1 + 3 * passes;
        w->read += list * (passes + 1);
        w->written += list * (passes + 1);
    }
}

CUDA_KERNEL(sort, .declines = declines, .workspace = workspace, .work = work);
