/* test_work.c - the amount of work in a node, and the number of threads it runs on: from shapes alone. */
#include "ops/work.h"
#include "support/sample.h"

#include <string.h>

typedef struct work_case {
    const char *op, *in, *attrs;
    double flops;
    bool is_shared; /* among threads */
} work_case;

static void check(const work_case *w) {
    op_sample spec = {.in = w->in, .attrs = w->attrs};
    sample s;
    sample_build(&s, op_find(w->op, strlen(w->op)), &spec, false);
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
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

SUITE("work", {T(little_work_is_not_shared_out), T(packed_weights_and_reduced_types_count_the_same)})
