/* test_work.c - the amount of work in a node, the number of threads it runs on, and how long a GPU takes at
 * best: from shapes alone. */
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/roof.h"
#include "graph/core/kernel.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <string.h>

typedef struct work_case {
    const char *op, *in, *attrs;
    double flops;
    bool is_shared; /* among threads */
} work_case;

static void check(const work_case *w) {
    op_sample spec = {.in = w->in, .attrs = w->attrs};
    sample s;
    sample_build(&s, op_find(&weft_catalog, w->op, strlen(w->op)), &spec, false);
    if (CHECK_SAYS(s.n, "%s(%s): %s", w->op, w->in, s.error_text)) {
        CHECK_SAYS(node_flops(s.n) == w->flops, "%s(%s): %g operations, not %g", w->op, w->in,
                   node_flops(s.n), w->flops);
        CHECK_SAYS(node_threads(s.n, 8) == (w->is_shared ? 8 : 1), "%s(%s) runs on %d threads", w->op, w->in,
                   node_threads(s.n, 8));
        CHECK(node_threads(s.n, 1) == 1);
    }
    sample_free(&s);
}

static const char point[] = "kernel=1,1 stride=1,1 pad=0,0 dilation=1,1 groups=1";

TEST(little_work_is_not_shared_out) {
    const work_case list[] = {
        {"relu", "f32[1000]", "", 0, false},
        {"relu", "f32[16384]", "", 0, true}, /* 64 KiB in and out */
        {"add", "f32[4096], f32[4096]", "", 0, false},
        {"sum", "f32[100000]", "axes=0", 0, true},
        {"matmul", "f32[8,8], f32[8,8]", "", 1024, false},
        {"matmul", "f32[64,100], f32[100,100]", "", 1280000, true},
        {"linear", "f32[2,64], f32[64,64]", "", 16384, false},
        {"conv2d_weight", "f32[2,4,5,5], f32[2,8,5,5]", point, 3200, false},
        {"conv2d_weight", "f32[2,64,16,16], f32[2,64,16,16]", point, 4194304, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

/* A weight that was packed, and elements of half the size, change nothing: the node, the one that its weight
 * is packed for and the one in f32 that it is cast to must be built for the same number of threads. */
TEST(packed_weights_and_reduced_types_count_the_same) {
    static const char attrs[] = "out=32 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1";
    const work_case list[] = {
        {"conv2d", "f32[1,8,8,8], f32[32,8,3,3]", attrs, 294912, false},
        {"conv2d", "bf16[1,8,8,8], bf16[32,8,3,3]", attrs, 294912, false},
        {"conv2d", "f32[1,8,8,8], u8[900000]", attrs, 294912, false},
        {"conv2d", "bf16[4,8,8,8], u8[9000]", attrs, 1179648, true},
        {"conv3d", "f32[1,8,4,8,8], u8[9000]",
         "out=32 kernel=3,3,3 stride=1,1,1 pad=1,1,1 dilation=1,1,1 groups=1", 3538944, true},
        {"conv_transpose3d", "f32[1,8,4,3,2], f32[8,5,1,1,1]",
         "out=5 kernel=1,1,1 stride=1,1,1 pad=0,0,0 dilation=1,1,1 groups=1 output_padding=0,0,0", 1920,
         false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

/* Two products of scores [B, H, T, S] by D forward, five backward; the backward's first operand is dy
 * [B, T, H, D]. A causal mask changes nothing. */
TEST(attention_counts_the_products_of_its_formula) {
    const work_case list[] = {
        {"attention", "f32[2,3,5,4], f32[2,3,7,4], f32[2,3,7,4]", "", 4 * 2 * 3 * 5 * 7 * 4, false},
        {"attention", "f32[2,3,5,4], f32[2,3,5,4], f32[2,3,5,4]", "causal=1", 4 * 2 * 3 * 5 * 5 * 4, false},
        {"attention_backward",
         "f32[2,5,3,4], f32[2,3,5,4], f32[2,3,7,4], f32[2,3,7,4], f32[2,5,3,4], f32[2,3,5]", "",
         10 * 2 * 3 * 5 * 7 * 4, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

/* Each step of T multiplies B samples by w. */
TEST(recurrent_steps_count_one_product_each) {
    const work_case list[] = {
        {"lstm", "f32[5,2,12], f32[12,3]", "", 2 * 5 * 2 * 12 * 3, false},
        {"lstm_backward", "f32[5,2,12], f32[5,2,3], f32[12,3]", "", 2 * 5 * 2 * 12 * 3, false},
        {"gru", "f32[5,2,9], f32[9,3]", "", 2 * 5 * 2 * 9 * 3, false},
        {"gru_backward", "f32[5,2,9], f32[5,2,3], f32[5,2,3], f32[9,3], f32[5,2,3]", "", 2 * 5 * 2 * 9 * 3,
         false},
        {"rnn", "f32[64,32,64], f32[64,64]", "", 2 * 64 * 32 * 64 * 64, true},
        {"rnn_backward", "f32[5,2,3], f32[5,2,3], f32[3,3]", "", 2 * 5 * 2 * 3 * 3, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

/* ---- what a node reads and writes on a GPU ---- */

typedef struct bytes_case {
    const char *op, *in, *attrs;
    int launches;
    double read, written; /* bytes */
} bytes_case;

static void check_bytes(const bytes_case *b) {
    const kernel_env env = {.isa = isa_best(), .threads = 1, .device = WEFT_DEVICE_CUDA};
    op_sample spec = {.in = b->in, .attrs = b->attrs};
    sample s;
    sample_build(&s, op_find(&weft_catalog, b->op, strlen(b->op)), &spec, false);
    if (CHECK_SAYS(s.n, "%s(%s): %s", b->op, b->in, s.error_text)) {
        arena a = {0};
        s.n->kernel = kernel_select(s.n, &env, &a, NULL);
        node_work w = node_work_of(s.n);
        CHECK_SAYS(s.n->kernel && w.launches == b->launches && w.read == b->read && w.written == b->written,
                   "%s(%s): %d launches read %g bytes and write %g, not %d, %g and %g", b->op, b->in,
                   w.launches, w.read, w.written, b->launches, b->read, b->written);
        arena_free(&a);
    }
    sample_free(&s);
}

/* Added up by hand from the kernels: each launch reads its operands once and writes its results once. */
TEST(bytes_are_those_that_launches_read_and_write) {
    enum { F32 = 4, BF16 = 2, I32 = 4 };
    const bytes_case list[] = {
        {"add", "f32[8,4], f32[4]", "", 1, (32 + 4) * F32, 32 * F32},
        {"cast", "f32[100]", "dtype=bf16", 1, 100 * F32, 100 * BF16},
        {"sum", "f32[6,4]", "axes=1", 1, 24 * F32, 6 * F32},
        {"linear", "bf16[8,16], bf16[4,16], bf16[4]", "", 1, (128 + 64 + 4) * BF16, 32 * BF16},
        /* the bias is first converted */
        {"linear", "bf16[8,16], bf16[4,16], f32[4]", "", 2, (128 + 64) * BF16 + 4 * F32, 32 * BF16},
        /* x is read for its statistics and again for y; parts and totals: 1 chunk of 3 numbers a channel */
        {"batch_norm", "f32[2,4,1,1], f32[4], f32[4]", "", 3, (8 + 8 + 4 + 4) * F32 + 12 * F32,
         (8 + 3 * 4) * F32 + 12 * F32},
        {"layer_norm", "f32[6,32], f32[32], f32[32]", "", 1, (192 + 64) * F32, (192 + 6 + 6) * F32},
        /* dy, x, mean, rstd, w; dx, dw, db; two blocks of 4 rows leave a part of dw and db each */
        {"layer_norm_backward", "f32[6,32], f32[6,32], f32[6], f32[6], f32[32]", "", 2,
         (2 * 192 + 2 * 6 + 32) * F32 + 2 * 64 * F32, (192 + 64) * F32 + 2 * 64 * F32},
        {"rms_norm", "f32[6,32], f32[32]", "", 1, (192 + 32) * F32, (192 + 6) * F32},
        /* the parts are pairs, as layer_norm's */
        {"rms_norm_backward", "f32[6,32], f32[6,32], f32[6], f32[32]", "", 2,
         (2 * 192 + 6 + 32) * F32 + 2 * 64 * F32, (192 + 32) * F32 + 2 * 64 * F32},
        /* logits and targets; the mean and a logarithm a row */
        {"cross_entropy", "bf16[6,10], i32[6]", "", 2, 60 * BF16 + 6 * I32, (1 + 6) * F32},
        {"cross_entropy", "bf16[6,10], i32[6]", "reduction=none", 1, 60 * BF16 + 6 * I32, (6 + 6) * F32},
        {"batch_norm_backward", "f32[2,4,1,1], f32[2,4,1,1], f32[4], f32[4], f32[4]", "", 3,
         (2 * 16 + 3 * 4) * F32 + 8 * F32, (8 + 8) * F32 + 8 * F32},
        /* rows too long for one warp: dy and x again for dw and db; one part of 1,025 pairs */
        {"layer_norm_backward", "f32[2,1025], f32[2,1025], f32[2], f32[2], f32[1025]", "", 3,
         (4 * 2050 + 4 + 1025) * F32 + 2050 * F32, (2050 + 2050) * F32 + 2050 * F32},
        {"pad", "f32[4,8]", "axis=0 before=1 after=2", 3, 32 * F32, 56 * F32},
        {"pad", "f32[4,8]", "axis=0 before=0 after=2", 2, 32 * F32, 48 * F32},
        {"slice", "f32[100,8]", "axis=0 begin=3 end=4", 1, 8 * F32, 8 * F32},
        /* 8,192 numbers in two pieces */
        {"sum", "f32[8192]", "axes=0", 2, 8192 * F32 + 2 * F32, F32 + 2 * F32},
        /* only the rows that 3 ids name, of 100 */
        {"embedding", "f32[100,8], i32[3]", "", 1, 24 * F32 + 3 * I32, 24 * F32},
        /* q, k, v; the result and lse */
        {"attention", "bf16[2,3,5,8], bf16[2,3,5,8], bf16[2,3,5,8]", "", 1, 3 * 240 * BF16,
         240 * BF16 + 30 * F32},
        /* dy, q, k, v twice, y and lse; then delta goes from one kernel to the other */
        {"attention_backward",
         "bf16[2,5,3,8], bf16[2,3,5,8], bf16[2,3,5,8], bf16[2,3,5,8], bf16[2,5,3,8], f32[2,3,5]", "", 2,
         9 * 240 * BF16 + 2 * 30 * F32, 3 * 240 * BF16 + 30 * F32},
        /* a mask is read where it is and not repeated; the backward reads it twice, with 1 head of k and v */
        {"attention", "bf16[2,3,5,8], bf16[2,3,5,8], bf16[2,3,5,8], bool[5,5]", "", 1, 3 * 240 * BF16 + 25,
         240 * BF16 + 30 * F32},
        {"attention_backward",
         "bf16[2,5,3,8], bf16[2,3,5,8], bf16[2,1,5,8], bf16[2,1,5,8], bf16[2,5,3,8], f32[2,3,5], f32[5,5], "
         "f32[2,3,5]",
         "mask_gradient=1", 2, (5 * 240 + 4 * 80) * BF16 + (2 * 25 + 3 * 30) * F32,
         (240 + 2 * 80) * BF16 + (30 + 150) * F32},
        /* three steps; a product each with h0, two without: state, w, and a result that the cell reads */
        {"lstm", "f32[3,4,16], f32[16,4], f32[4,4]", "", 6, (192 + 64 + 16) * F32 + 3 * (16 + 64 + 64) * F32,
         (192 + 2 * 48) * F32 + 3 * 64 * F32},
        {"rnn_backward", "bf16[3,4,16], bf16[3,4,16], bf16[16,16]", "", 5,
         (2 * 192 + 256) * BF16 + 2 * (64 + 256) * BF16 + 2 * 64 * F32, 192 * BF16 + 2 * 64 * F32},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_bytes(&list[i]);
}

/* ---- how long a GPU takes ---- */

/* bf16 [4096, 4096] x [4096, 4096]: 137 GFLOP at 989 TFLOP/s, and 100 MB at 4.8 TB/s. */
TEST(a_roof_is_the_longer_of_bytes_and_operations) {
    const kernel_env env = {.isa = isa_best(), .threads = 1, .device = WEFT_DEVICE_CUDA};
    const roof *h200 = roof_find("h200"), *h100 = roof_of_device("NVIDIA H100 80GB HBM3");
    NEED(h200 && h100);
    CHECK(roof_of_device("NVIDIA H200") == h200 && !roof_of_device("NVIDIA GH200") && !roof_find("a40"));
    static const struct {
        const char *op, *in, *attrs;
        double least; /* us, on an H200 */
        roof_bound bound;
    } list[] = {
        {"matmul", "bf16[4096,4096], bf16[4096,4096]", "", 2.0 * 4096 * 4096 * 4096 / 989e12, BOUND_COMPUTE},
        {"matmul", "f32[4096,4096], f32[4096,4096]", "", 2.0 * 4096 * 4096 * 4096 / 67e12, BOUND_COMPUTE},
        {"matmul", "bf16[8192,1], bf16[1,8192]", "", 2.0 * (2 * 8192 + 8192.0 * 8192) / 4.8e12, BOUND_MEMORY},
        {"add", "f32[4096,4096], f32[4096,4096]", "", 12.0 * 4096 * 4096 / 4.8e12, BOUND_MEMORY},
        {"add", "f32[8], f32[8]", "", 96 / 4.8e12, BOUND_LAUNCH},
        /* the bias' gradient reads dy once more, and 64 parts of its sums (columns.h) */
        {"linear_weight", "bf16[4096,4096], bf16[4096,4096]", "",
         2.0 * 4096 * 4096 * 4096 / 989e12 + (2 * 4096 * 4096 + 2 * 64 * 4096 * 4) / 4.8e12, BOUND_COMPUTE},
        /* heads of 256: the plain kernel, without tensor cores */
        {"attention", "bf16[2,4,1024,256], bf16[2,4,1024,256], bf16[2,4,1024,256]", "",
         4.0 * 2 * 4 * 1024 * 1024 * 256 / 67e12, BOUND_COMPUTE},
        {"attention", "bf16[8,16,4096,64], bf16[8,16,4096,64], bf16[8,16,4096,64]", "causal=1",
         2.0 * 8 * 16 * 4096 * 4096 * 64 / 989e12, BOUND_COMPUTE},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        op_sample spec = {.in = list[i].in, .attrs = list[i].attrs};
        sample s;
        arena a = {0};
        sample_build(&s, op_find(&weft_catalog, list[i].op, strlen(list[i].op)), &spec, false);
        NEED(s.n);
        s.n->kernel = kernel_select(s.n, &env, &a, NULL);
        node_work w = node_work_of(s.n);
        roof_bound bound;
        double least = roof_least(h200, s.n, &w, false),
               expected = roof_estimate(h200, s.n, &w, false, &bound);
        CHECK_SAYS(fabs(least / list[i].least - 1) < 1e-9, "%s: %g us at least, not %g", list[i].op,
                   least * 1e6, list[i].least * 1e6);
        CHECK_SAYS(expected > least && bound == list[i].bound, "%s: %g us expected, bound by %s", list[i].op,
                   expected * 1e6, roof_bound_name(bound));
        CHECK(roof_least(h100, s.n, &w, false) >= least);
        arena_free(&a);
        sample_free(&s);
    }
}

SUITE("work",
      {T(little_work_is_not_shared_out), T(packed_weights_and_reduced_types_count_the_same),
       T(attention_counts_the_products_of_its_formula), T(recurrent_steps_count_one_product_each),
       T(bytes_are_those_that_launches_read_and_write), T(a_roof_is_the_longer_of_bytes_and_operations)})
