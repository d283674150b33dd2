/* index.c - rows of gather, scatter and its kin. */
#include "ops/cuda/index/index.h"

#include "ops/cuda/cuda.h"
#include "ops/work.h"

static scatter_size size_of(const weft_node *n) {
    return scatter_size_of(n->attrs, &n->in[0]->type, &n->in[1]->type);
}

static bool is_scanned(const weft_node *n) {
    return size_of(n).along <= SCATTER_SCANNED;
}

/* Numbers of ids and places are ints in the sort. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    scatter_size s = size_of(n);
    return is_scanned(n) || (s.ids <= 1 << 30 && s.places <= 1 << 30) ? NULL : "more than 2^30 ids or places";
}

static size_t workspace(const weft_node *n, const kernel_env *env) {
    return is_scanned(n) ? 0 : (size_t)sort_room(size_of(n).ids) * sizeof(int32_t);
}

/* The elements that the ids name, not all of x. */
static void gather_work(const weft_node *n, node_work *w) {
    w->read = value_bytes(n->in[1]) + w->written;
}

/* A copy of x, keys, three kernels for each byte of them, and the elements at their places. */
static void scatter_work(const weft_node *n, node_work *w) {
    scatter_size s = size_of(n);
    double list = 2.0 * (double)s.ids * sizeof(int32_t);
    int passes = 0;
    if (is_scanned(n)) return;
    for (int64_t rest = s.places; rest; rest >>= 8) passes++;
    w->launches = 3 + 3 * passes;
    w->read += list * (passes + 1);
    w->written += list * (passes + 1);
}

#define IDS "ids are places of the axis"

CUDA_KERNEL(gather, .strided_in = 1, .work = gather_work, .data_rule = IDS);
#define SCATTER(title)                                                                                       \
    CUDA_KERNEL(title, .strided_in = 1 | 1 << 2, .declines = declines, .workspace = workspace,               \
                .work = scatter_work, .data_rule = IDS);
SCATTER(scatter)
SCATTER(scatter_add)
SCATTER(scatter_reduce)
