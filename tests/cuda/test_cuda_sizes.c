/* test_cuda_sizes.c - the GPU's kernels of norms, losses, embedding, pooling and attention at sizes that the
 * ops' samples lack: where a row goes from a warp to a block and from registers to memory, where sums need a
 * second stage and sorts a second digit, where heads are wider; and the effect of a bad label. Every launch
 * runs in two orders (one under the sanitizers). */
#include "cuda/support/gpu.h"
#include "ops/attention/embedding.h"
#include "ops/norm_loss/norm.h"
#include "ops/kit/op_kit.h"
#include "ops/image/pool.h"
#include "support/kernels/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cuda_host.h"
#endif

static gpu *the_gpu;
static int taken; /* kernels that took the last node */

static bool begin(void) {
#ifdef WEFT_CUDA_HOST
    cuda_host_run_twice(!test_is_sanitized()); /* under the sanitizers memory is what counts */
#endif
    kernels_check_drawn(!getenv("WEFT_TEST_ALL")); /* one operand alone in each layout, not all in turn */
    if (!the_gpu) the_gpu = gpu_open();
    return the_gpu != NULL;
}

static void check(weft_node *n, const char *what, const tensor *data) {
    taken = kernels_check_on(n, what, data, &the_gpu->env, gpu_run);
    CHECK_SAYS(taken > 0, "%s: no kernel took it", what);
}

/* A sample of an op that is not in the op's own list. */
typedef struct sized_sample {
    const char *op;
    op_sample sample;
} sized_sample;

static void each_check(const sized_sample *list) {
    for (const sized_sample *s = list; s->op; s++) {
        const weft_op *op = op_find(&weft_catalog, s->op, strlen(s->op));
        taken = 0;
        if (CHECK_SAYS(op, "no op %s", s->op)) sample_check(op, &s->sample, check);
        CHECK_SAYS(taken > 0, "%s(%s) was not made", s->op, s->sample.in);
    }
}

TEST(rows_of_any_length_give_what_the_reference_gives) {
    static const sized_sample list[] = {
        {"softmax", {"f32[9,64]", "axis=1"}},
        {"softmax", {"bf16[5,1024]", "axis=1"}},
        {"softmax", {"f32[2,1500]", "axis=1", .low = -30, .high = 30}},
        {"log_softmax", {"f16[2,8192]", "axis=1"}},
        {"softmax", {"f32[2,8204]", "axis=1"}},
        {"log_softmax", {"f32[2,9001]", "axis=1"}},
        {"softmax", {"f32[3,2,1500]", "axis=1"}}, /* more lines than the emulated GPU has blocks for */
        {"cross_entropy", {"bf16[40,1032], i64[40]", "ignore_index=3", .below = 1032}},
        {"cross_entropy", {"f32[3,9003], i32[3]", "ignore_index=-100", .below = 9003}},
        {"cross_entropy", {"bf16[3,12296], i32[3]", "ignore_index=-100", .below = 12296}},
        {"cross_entropy_backward",
         {"f32[], bf16[40,1032], i64[40], f32[40]", "ignore_index=3", .below = 1032}},
        {"cross_entropy_backward", {"f32[], f32[2,9003], i64[2], f32[2]", NULL, .below = 9003}},
        {"cross_entropy", {"bf16[40,1032], i64[40]", "ignore_index=3 reduction=none", .below = 1032}},
        {"cross_entropy_backward",
         {"f32[40], bf16[40,1032], i64[40], f32[40]", "ignore_index=3 reduction=none", .below = 1032}},
        {"cross_entropy_backward", {"f32[], f32[2,9003], i64[2], f32[2]", "reduction=sum", .below = 9003}},
        {"cross_entropy_backward", {"f32[], bf16[2,12296], u8[2], f32[2]", NULL, .below = 200}},
        {"layer_norm", {"bf16[9,768], f32[768], f32[768]", "eps=1e-5"}},
        {"layer_norm", {"f16[9,776], f16[776], f16[776]", "eps=1e-5"}},
        {"layer_norm", {"f32[3,1028], f32[1028], f32[1028]", "eps=1e-5"}},
        {"layer_norm", {"f32[2,1301], f32[1301], f32[1301]", "eps=1e-5"}},
        {"layer_norm", {"bf16[2,8200], f32[8200], f32[8200]", "eps=1e-5"}},
        {"layer_norm", {"bf16[9,768], bf16[768]", "eps=1e-5"}},
        {"rms_norm", {"bf16[9,768], f32[768]", "eps=1e-5"}},
        {"rms_norm", {"f32[2,1301], f32[1301]", "eps=1e-5"}},
        {"rms_norm", {"f16[2,8200]", "eps=1e-5"}},
        {0}};
    NEED(begin());
    each_check(list);
}

TEST(column_sums_of_any_shape_give_what_the_reference_gives) {
    static const sized_sample list[] = {
        {"layer_norm_backward", {"bf16[37,768], bf16[37,768], f32[37], f32[37], f32[768]"}},
        {"layer_norm_backward",
         {"f32[2100,12], f32[2100,12], f32[2100], f32[2100], f32[12]"}}, /* more rows than warps */
        {"layer_norm_backward", {"f16[9,40], f16[9,40], f32[9], f32[9], f16[40]"}},
        {"layer_norm_backward", {"f32[67,1028], f32[67,1028], f32[67], f32[67], f32[1028]"}},
        {"layer_norm_backward", {"bf16[5,1501], bf16[5,1501], f32[5], f32[5], f32[1501]"}},
        {"layer_norm_backward", {"bf16[3,8200], bf16[3,8200], f32[3], f32[3]"}},
        {"rms_norm_backward", {"bf16[37,768], bf16[37,768], f32[37], f32[768]"}},
        {"rms_norm_backward", {"f32[67,1028], f32[67,1028], f32[67], f32[1028]"}},
        {"rms_norm_backward", {"bf16[3,8200], bf16[3,8200], f32[3]"}},
        {"batch_norm", {"bf16[3,64,9,9], f32[64], f32[64]", "eps=1e-5", .low = 3, .high = 5}},
        {"batch_norm", {"f32[2,264,3,5], f32[264], f32[264]", "eps=1e-5", .low = 9, .high = 11}},
        {"batch_norm", {"f16[300,8], f16[8], f32[8]", "eps=1e-5"}},
        {"batch_norm", {"f32[4,1,40,41], f32[1], f32[1]", "eps=1e-5"}},
        {"batch_norm_backward", {"bf16[3,64,9,9], bf16[3,64,9,9], f32[64], f32[64], f32[64]"}},
        {"batch_norm_backward", {"f32[700,20], f32[700,20], f32[20], f32[20], f32[20]"}},
        {0}};
    NEED(begin());
    each_check(list);
}

TEST(embedding_sums_ids_in_their_order_however_many_there_are) {
    static const sized_sample list[] = {
        {"embedding", {"bf16[40,768], i64[3,7]", NULL, .below = 40}},
        {"embedding_backward", {"f32[500,36], i64[500]", "rows=3", .below = 3}}, /* many ids a row */
        {"embedding_backward", {"bf16[300,264], i32[300]", "rows=400", .below = 2}},
        {"embedding_backward",
         {"f32[4500,3], i32[4500]", "rows=70000", .below = 70000}}, /* three digits, three tiles */
        {"embedding_backward", {"f32[2500,4], u8[2500]", "rows=256", .below = 256}},
        {"embedding_backward", {"f32[8300,1], i32[8300]", "rows=9", .below = 9}}, /* counts of five tiles */
        {0}};
    NEED(begin());
    each_check(list);
}

TEST(pooling_takes_many_channels_at_once) {
    static const sized_sample list[] = {
        {"max_pool2d", {"bf16[2,24,9,7]", "kernel=3,3 stride=2,2 pad=1,1"}},
        {"max_pool2d", {"f32[1,12,6,6]", "kernel=2,2 stride=2,2 pad=0,0"}},
        {"avg_pool2d", {"f16[2,16,7,9]", "kernel=3,2 stride=2,1 pad=1,0"}},
        {"avg_pool2d_backward", {"bf16[2,16,4,3]", "kernel=3,3 stride=2,2 pad=1,1 size=7,5"}},
        {"adaptive_avg_pool2d", {"bf16[2,64,7,7]", "size=1,1"}},
        {"adaptive_avg_pool2d_backward", {"f32[2,20,3,2]", "size=7,5"}},
        {0}};
    NEED(begin());
    each_check(list);
}

TEST(attention_takes_many_tiles_and_wide_heads) {
    static const sized_sample list[] = {
        {"attention", {"bf16[1,1,150,16], bf16[1,1,150,16], bf16[1,1,150,16]", "causal=1"}},
        {"attention", {"f16[1,2,30,64], f16[1,2,135,64], f16[1,2,135,64]", "causal=1"}},
        {"attention", {"bf16[2,1,40,64], bf16[2,1,40,64], bf16[2,1,40,64]", "scale=-0.1"}},
        {"attention", {"bf16[1,1,136,72], bf16[1,1,20,72], bf16[1,1,20,72]", "causal=1"}},
        {"attention", {"bf16[1,1,20,128], bf16[1,1,70,128], bf16[1,1,70,128]", NULL}},
        /* heads that are not multiples of 8 are never copied by 16 bytes */
        {"attention", {"bf16[1,2,70,20], bf16[1,2,70,20], bf16[1,2,70,20]", "causal=1"}},
        {"attention", {"f16[1,1,10,67], f16[1,1,70,67], f16[1,1,70,67]", NULL}},
        /* tiles of 64 keys and 128 queries, filled, one over and one under; masks of the last one */
        {"attention", {"bf16[1,2,128,64], bf16[1,2,128,64], bf16[1,2,128,64]", "causal=1"}},
        {"attention", {"bf16[1,1,129,8], bf16[1,1,65,8], bf16[1,1,65,8]", NULL}},
        {"attention", {"f16[1,1,127,24], f16[1,1,63,24], f16[1,1,63,24]", NULL}},
        {"attention", {"f16[1,1,5,128], f16[1,1,193,128], f16[1,1,193,128]", NULL}},
        {"attention", {"f32[1,1,20,130], f32[1,1,37,130], f32[1,1,37,130]", "causal=1"}},
        {"attention", {"f32[66,1,3,4], f32[66,1,5,4], f32[66,1,5,4]", NULL}}, /* more pairs than a group */
        {"attention_backward",
         {"bf16[1,150,2,64], bf16[1,2,150,64], bf16[1,2,150,64], bf16[1,2,150,64], bf16[1,150,2,64], "
          "f32[1,2,150]",
          "causal=1", .low = -1, .high = 1}},
        {"attention_backward",
         {"f16[1,140,1,16], f16[1,1,140,16], f16[1,1,20,16], f16[1,1,20,16], f16[1,140,1,16], f32[1,1,140]",
          NULL, .low = -1, .high = 1}},
        {"attention_backward", /* keys that no query sees */
         {"bf16[1,20,1,64], bf16[1,1,20,64], bf16[1,1,300,64], bf16[1,1,300,64], bf16[1,20,1,64], "
          "f32[1,1,20]",
          "causal=1", .low = -1, .high = 1}},
        {"attention_backward",
         {"bf16[1,90,1,128], bf16[1,1,90,128], bf16[1,1,90,128], bf16[1,1,90,128], bf16[1,90,1,128], "
          "f32[1,1,90]",
          "causal=1", .low = -1, .high = 1}},
        {"attention_backward",
         {"f16[1,19,1,72], f16[1,1,19,72], f16[1,1,90,72], f16[1,1,90,72], f16[1,19,1,72], f32[1,1,19]", NULL,
          .low = -1, .high = 1}},
        {"attention_backward",
         {"f16[1,70,2,20], f16[1,2,70,20], f16[1,2,70,20], f16[1,2,70,20], f16[1,70,2,20], f32[1,2,70]",
          "causal=1", .low = -1, .high = 1}},
        {"attention_backward", /* tiles of 128 queries, 32 keys, and the other way round: one over, one under */
         {"bf16[1,129,1,16], bf16[1,1,129,16], bf16[1,1,33,16], bf16[1,1,33,16], bf16[1,129,1,16], "
          "f32[1,1,129]",
          NULL, .low = -1, .high = 1}},
        {"attention_backward",
         {"f16[1,31,1,32], f16[1,1,31,32], f16[1,1,129,32], f16[1,1,129,32], f16[1,31,1,32], "
          "f32[1,1,31]",
          NULL, .low = -1, .high = 1}},
        {"attention_backward",
         {"f32[1,70,1,100], f32[1,1,70,100], f32[1,1,70,100], f32[1,1,70,100], f32[1,70,1,100], f32[1,1,70]",
          "causal=1", .low = -1, .high = 1}},
        {"attention_backward",
         {"f32[1,20,1,200], f32[1,1,20,200], f32[1,1,40,200], f32[1,1,40,200], f32[1,20,1,200], f32[1,1,20]",
          NULL, .low = -1, .high = 1}},
        {0}};
    NEED(begin());
    each_check(list);
}

/* Tiles at the edges of masks and windows, and heads that share keys, in every kernel. */
TEST(attention_takes_masks_windows_and_shared_keys) {
    static const sized_sample list[] = {
        {"attention", {"bf16[1,2,130,64], bf16[1,1,130,64], bf16[1,1,130,64], bool[130,130]", "causal=1"}},
        {"attention", {"f16[2,3,60,24], f16[2,3,65,24], f16[2,3,65,24], f16[2,1,60,65]", "scale=0.3"}},
        {"attention", {"bf16[1,1,70,72], bf16[1,1,70,72], bf16[1,1,70,72], f32[1,70]", NULL}},
        {"attention", {"bf16[2,4,33,16], bf16[2,1,70,16], bf16[2,1,70,16]", NULL}},
        /* windows: a tile that no query of a warp sees, begins inside of tiles, queries past all keys */
        {"attention", {"bf16[1,1,300,16], bf16[1,1,300,16], bf16[1,1,300,16]", "causal=1 window=65"}},
        {"attention", {"f16[1,2,257,64], f16[1,1,257,64], f16[1,1,257,64]", "causal=1 window=1"}},
        {"attention", {"bf16[1,1,400,8], bf16[1,1,40,8], bf16[1,1,40,8]", "causal=1 window=128"}},
        {"attention",
         {"bf16[1,1,150,80], bf16[1,1,150,80], bf16[1,1,150,80], f32[150,150]", "causal=1 window=70"}},
        {"attention",
         {"f32[1,2,140,20], f32[1,1,140,20], f32[1,1,140,20], bool[1,2,1,140]", "causal=1 window=66"}},
        {"attention_backward",
         {"bf16[1,130,2,64], bf16[1,2,130,64], bf16[1,1,130,64], bf16[1,1,130,64], bf16[1,130,2,64], "
          "f32[1,2,130], bool[130,130]",
          "causal=1", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"f16[2,60,3,24], f16[2,3,60,24], f16[2,3,65,24], f16[2,3,65,24], f16[2,60,3,24], f32[2,3,60], "
          "f16[2,1,60,65], f32[2,3,60]",
          "scale=0.3 mask_gradient=1", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"bf16[1,70,1,72], bf16[1,1,70,72], bf16[1,1,70,72], bf16[1,1,70,72], bf16[1,70,1,72], f32[1,1,70], "
          "f32[1,70], f32[1,1,70]",
          "mask_gradient=1 causal=1 window=9", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"bf16[2,33,4,16], bf16[2,4,33,16], bf16[2,1,70,16], bf16[2,1,70,16], bf16[2,33,4,16], f32[2,4,33]",
          NULL, .low = 0.25, .high = 1}},
        {"attention_backward",
         {"bf16[1,300,1,16], bf16[1,1,300,16], bf16[1,1,300,16], bf16[1,1,300,16], bf16[1,300,1,16], "
          "f32[1,1,300]",
          "causal=1 window=65", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"f16[1,400,1,8], f16[1,1,400,8], f16[1,1,40,8], f16[1,1,40,8], f16[1,400,1,8], f32[1,1,400]",
          "causal=1 window=128", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"f32[1,140,2,20], f32[1,2,140,20], f32[1,1,140,20], f32[1,1,140,20], f32[1,140,2,20], "
          "f32[1,2,140], bool[1,2,1,140]",
          "causal=1 window=66", .low = 0.25, .high = 1}},
        {0}};
    NEED(begin());
    each_check(list);
}

/* Values of another width, softcap, limits on both sides of rows at other positions. */
TEST(attention_takes_other_widths_softcap_and_offsets) {
    static const sized_sample list[] = {
        {"attention",
         {"bf16[1,2,130,64], bf16[1,1,140,64], bf16[1,1,140,24]", "softcap=2 causal=1 offset=10"}},
        {"attention", {"f16[1,1,130,16], f16[1,1,90,16], f16[1,1,90,72]", "window=40 ahead=20"}},
        {"attention", {"bf16[1,1,200,8], bf16[1,1,70,8], bf16[1,1,70,8]", "causal=1 offset=-130"}},
        {"attention",
         {"f16[1,1,60,72], f16[1,1,200,72], f16[1,1,200,8], bool[200]", "ahead=9 offset=70 softcap=1"}},
        {"attention",
         {"f32[1,2,70,20], f32[1,1,140,20], f32[1,1,140,130]", "window=50 ahead=30 offset=60 softcap=1"}},
        {"attention_backward",
         {"bf16[1,130,2,24], bf16[1,2,130,64], bf16[1,1,140,64], bf16[1,1,140,24], bf16[1,130,2,24], "
          "f32[1,2,130]",
          "softcap=2 causal=1 offset=10", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"f16[1,130,1,72], f16[1,1,130,16], f16[1,1,90,16], f16[1,1,90,72], f16[1,130,1,72], f32[1,1,130]",
          "window=40 ahead=20", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"bf16[1,200,1,8], bf16[1,1,200,8], bf16[1,1,70,8], bf16[1,1,70,8], bf16[1,200,1,8], f32[1,1,200]",
          "causal=1 offset=-130", .low = 0.25, .high = 1}},
        {"attention_backward",
         {"f32[1,70,2,130], f32[1,2,70,20], f32[1,1,140,20], f32[1,1,140,130], f32[1,70,2,130], f32[1,2,70], "
          "f32[70,140], f32[1,2,70]",
          "window=50 ahead=30 offset=60 softcap=1 mask_gradient=1", .low = 0.25, .high = 1}},
        {0}};
    NEED(begin());
    each_check(list);
}

/* Many ids for several axes: a sort of more than one digit, and of one place many times. */
TEST(index_takes_many_ids) {
    static const sized_sample list[] = {
        {"index", {"f32[40,3,50], i64[70,1], i32[30]", "axes=0,2", .least = -40, .below = 40}},
        {"index_put", {"f32[40,50], i64[900], i64[900], f32[900]", "axes=0,1", .least = -40, .below = 40}},
        {"index_put", {"f32[40,50,3], i64[900], i64[900], f32[900,3]", "axes=0,1 accumulate=1", .below = 40}},
        {"index_put",
         {"bf16[3,2], i64[900], bf16[900,2]", "axes=0 accumulate=1", .low = 0.25, .high = 1, .below = 3}},
        {"scatter_reduce", {"f32[5,70], i64[300,70], f32[300,70]", "join=amax fresh=1", .below = 5}},
        {"scatter_reduce", {"f32[300,2], i64[70,1], f32[70,2]", "broadcast=1 join=prod", .below = 300}},
        {0}};
    NEED(begin());
    each_check(list);
}

/* The kernel gathers by windows only where it knows that the indices come from a pooling, so this builds both
 * nodes. */
static void max_pool_check(weft_dtype dtype, const int64_t shape[4], const weft_pool *window) {
    weft_model *m = weft_model_new("pool");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", dtype, 4, shape);
    weft_node *pool = weft_max_pool2d(x, window)->node;
    weft_value *dy = weft_input(g, "dy", dtype, 4, pool->out[0].type.shape);
    pool_attrs a = pool_attrs_back(pool->attrs, &x->type);
    a.kernel.n = a.stride.n = a.pad.n = 0;
    weft_node *back = node_new(g, &weft_op_max_pool2d_backward, 2, (weft_value *[]){dy, &pool->out[1]}, &a);
    block in = block_new(&x->type, LAYOUT_ROWS), y = block_new(&dy->type, LAYOUT_ROWS);
    block data[] = {block_new(&dy->type, LAYOUT_ROWS), block_new(&pool->out[1].type, LAYOUT_ROWS)};
    test_random r = {.state = 5};
    sample_fill(NULL, &in.t, &r);
    sample_fill(NULL, &data[0].t, &r);
    tensor out[] = {y.t, data[1].t};
    kernel_call c = {.node = pool, .attrs = pool->attrs, .n_in = 1, .n_out = 2, .in = &in.t, .out = out};
    CHECK(weft_op_max_pool2d.reference(&c) == WEFT_OK);
    check(back, "max_pool2d_backward of a max_pool2d", (tensor[]){data[0].t, data[1].t});
    block_free(&in);
    block_free(&y);
    for (int i = 0; i < 2; i++) block_free(&data[i]);
    weft_model_free(m);
}

TEST(max_pool_gathers_from_the_windows_that_made_its_indices) {
    NEED(begin());
    max_pool_check(WEFT_F32, (int64_t[]){2, 3, 9, 7},
                   &(weft_pool){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    max_pool_check(WEFT_BF16, (int64_t[]){2, 24, 9, 8},
                   &(weft_pool){.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0}});
    max_pool_check(WEFT_F16, (int64_t[]){1, 8, 7, 7}, &(weft_pool){.kernel = {2, 2}, .stride = {3, 2}});
    max_pool_check(WEFT_F32, (int64_t[]){1, 5, 9, 8},
                   &(weft_pool){.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1}, .dilation = {2, 3}});
    max_pool_check(WEFT_BF16, (int64_t[]){1, 8, 8, 7},
                   &(weft_pool){.kernel = {3, 3}, .stride = {2, 3}, .pad = {1, 0}, .ceil_mode = true});
}

/* Runs the op's first kernel on operands of which number `bad` begins with `value`; the error must name the
 * value. */
static void bad_check(const char *name, const op_sample *spec, int bad, int64_t value) {
    sample s;
    weft_error error = {0};
    test_random r = {.state = 3};
    block data[5] = {0};
    tensor in[5] = {0}, out[2] = {0};
    sample_build(&s, op_find(&weft_catalog, name, strlen(name)), spec, false);
    if (!CHECK_SAYS(s.n, "%s", s.error_text)) return;
    const weft_kernel *list[16];
    int count = kernels_of(&weft_catalog, s.op, &the_gpu->env, list, 16), blocks = 0;
    for (int i = 0; i < s.n_in; i++) {
        int64_t at[WEFT_MAX_NDIM] = {0};
        in[i] = (data[blocks++] = block_new(&s.in[i]->type, LAYOUT_ROWS)).t;
        sample_fill(spec, &in[i], &r);
        if (i == bad) element_set_int(&in[i], at, value);
    }
    for (int k = 0; k < s.n->n_out; k++)
        out[k] = (data[blocks++] = block_new(&s.n->out[k].type, LAYOUT_ROWS)).t;
    if (CHECK(count > 0)) {
        weft_status status = gpu_run(s.n, list[0], &the_gpu->env, in, out, &error);
        char want[40];
        snprintf(want, sizeof want, "value %lld", (long long)value);
        CHECK_SAYS(status == WEFT_DATA && strstr(error.text, want), "%s of %lld: status %d, %s", name,
                   (long long)value, status, error.text);
    }
    for (int i = 0; i < blocks; i++) block_free(&data[i]);
    sample_free(&s);
}

TEST(a_bad_label_or_id_is_told) {
    NEED(begin());
#ifdef WEFT_CUDA_HOST
    cuda_host_run_twice(0); /* the record is there the second time */
#endif
    bad_check("cross_entropy", &(op_sample){"f32[5,4], i64[5]", "ignore_index=-100"}, 1, 4);
    bad_check("cross_entropy", &(op_sample){"f32[5,4], i32[5]", "ignore_index=-100"}, 1, -1);
    bad_check("cross_entropy_backward", &(op_sample){"f32[], f32[5,4], u8[5], f32[5]", "ignore_index=2"}, 2,
              77);
    bad_check("embedding", &(op_sample){"f32[4,3], i64[5]"}, 1, 1LL << 40);
    bad_check("embedding_backward", &(op_sample){"f32[5,3], i64[5]", "rows=6"}, 1, 6);
    bad_check("max_pool2d_backward", &(op_sample){"f32[2,3,3,2], i32[2,3,3,2]", "size=5,4"}, 1, 20);
    bad_check("max_pool2d_gather", &(op_sample){"f32[2,3,5,4], i32[2,3,3,2]", NULL}, 1, 20);
    bad_check("floor_divide", &(op_sample){"i64[5,4], i64[4]", .least = 1, .below = 9}, 1, 0);
    bad_check("trunc_divide", &(op_sample){"i32[5,4], i32[5,4]", .least = 1, .below = 9}, 1, 0);
    bad_check("remainder", &(op_sample){"i64[5,4], i64[]", .least = 1, .below = 9}, 1, 0);
    bad_check("fmod", &(op_sample){"i32[5,4], i32[5,1]", .least = 1, .below = 9}, 1, 0);
}

TEST(nothing_is_left_on_the_gpu) {
    NEED(begin());
    gpu_close(the_gpu);
    the_gpu = NULL;
}

GPU_SUITE("cuda sizes", {T(rows_of_any_length_give_what_the_reference_gives),
                         T(column_sums_of_any_shape_give_what_the_reference_gives),
                         T(embedding_sums_ids_in_their_order_however_many_there_are),
                         T(pooling_takes_many_channels_at_once), T(attention_takes_many_tiles_and_wide_heads),
                         T(attention_takes_masks_windows_and_shared_keys),
                         T(attention_takes_other_widths_softcap_and_offsets), T(index_takes_many_ids),
                         T(max_pool_gathers_from_the_windows_that_made_its_indices),
                         T(a_bad_label_or_id_is_told), T(nothing_is_left_on_the_gpu)})
