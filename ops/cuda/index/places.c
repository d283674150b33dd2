/* places.c - rows of index and index_put. */
#include "ops/cuda/index/places.h"

#include "ops/cuda/cuda.h"
#include "ops/work.h"

/* Numbers of places are ints in the sort. */
static const char *declines(const weft_node *n, const kernel_env *env) {
    places_size s = places_size_of(n);
    return s.places <= 1 << 30 && s.all <= 1 << 30 ? NULL : "more than 2^30 ids or places";
}

/* Offsets. */
static size_t index_workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)places_size_of(n).places * sizeof(int64_t);
}

/* And the sort's lists. */
static size_t put_workspace(const weft_node *n, const kernel_env *env) {
    return index_workspace(n, env) + (size_t)sort_room(places_size_of(n).places) * sizeof(int32_t);
}

/* The offsets are written and read; of x what they name. */
static void index_work(const weft_node *n, node_work *w) {
    double offsets = (double)index_workspace(n, NULL);
    w->launches = 2;
    w->read += w->written + offsets - value_bytes(n->in[0]);
    w->written += offsets;
}

/* A copy of x, offsets and keys, three kernels for each byte of them, and the elements at their places. */
static void put_work(const weft_node *n, node_work *w) {
    places_size s = places_size_of(n);
    double list = 2.0 * (double)s.places * sizeof(int32_t), offsets = (double)index_workspace(n, NULL);
    int passes = 0;
    for (int64_t rest = s.all; rest; rest >>= 8) passes++;
    w->launches = 3 + 3 * passes;
    w->read += offsets + list * (passes + 1);
    w->written += offsets + list * (passes + 1);
}

#define IDS "ids are places of their axes, or count from the end"

CUDA_KERNEL(index, .strided_in = ~0u, .declines = declines, .workspace = index_workspace, .work = index_work,
            .data_rule = IDS);
CUDA_KERNEL(index_put, .strided_in = ~0u, .declines = declines, .workspace = put_workspace, .work = put_work,
            .data_rule = IDS);
