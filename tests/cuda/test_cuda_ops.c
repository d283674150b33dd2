/* test_cuda_ops.c - test_ops.c and test_fused.c for the GPU's kernels: each kernel that accepts a sample
 * gives the result of the CPU's reference, in the layouts that it may get (a pointwise op, which is compiled
 * for each layout, in some of them). On the emulated GPU every launch runs twice, its threads in two orders,
 * and must leave the same bits (once under the sanitizers, whose code is slow). */
#include "cuda/support/gpu.h"
#include "support/kernels/fused_graphs.h"
#include "support/kernels/integers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cublasLt.h"
#include "cuda_host/cuda_host.h"
#endif
#include "ops/linalg/epilogue.h"

#ifdef WEFT_CUDA_HOST
#define IS_EMULATED true
#else
#define IS_EMULATED false /* a real GPU does not count its launches, and its libraries are NVIDIA's */
#endif

static gpu *the_gpu;
static bool *has_run, *was_met; /* by op: a kernel took a sample; there was a sample */

static int index_of(const weft_op *op) {
    for (int i = 0; i < op_count(); i++)
        if (op_at(i) == op) return i;
    return 0;
}

/* kernels_check_on with the GPU as runner. */
static void check(weft_node *n, const char *what, const tensor *data) {
    was_met[index_of(n->op)] = true;
    if (kernels_check_on(n, what, data, &the_gpu->env, gpu_run)) has_run[index_of(n->op)] = true;
}

/* A kernel is compiled for each layout and size of a pointwise op. NVRTC needs 60 ms for one, the emulated
 * GPU more. All: `tools/nightly.sh gpu_ops`, and tools/gpu.sh where it has the time. */
static bool is_drawn(void) {
    return !getenv("WEFT_TEST_ALL");
}

static bool begin(void) {
#ifdef WEFT_CUDA_HOST
    cuda_host_run_twice(!test_is_sanitized()); /* under the sanitizers memory is what counts */
#endif
    kernels_check_drawn(is_drawn());
    kernels_check_real_libraries(!IS_EMULATED);
    if (!the_gpu) the_gpu = gpu_open();
    if (the_gpu) the_gpu->expects_work = IS_EMULATED;
    if (!has_run) has_run = test_memory((size_t)op_count());
    if (!was_met) was_met = test_memory((size_t)op_count());
    return the_gpu != NULL;
}

/* Of a pointwise op, whose kernels are compiled, short runs have the first of `stride` samples that follow
 * each other. */
static void check_some(weft_node *n, const char *what, const tensor *data, int stride) {
    static const weft_op *last;
    static int samples;
    bool is_compiled = n->op->flags & OP_POINTWISE && !n->n_body;
    samples = n->op == last ? samples + 1 : 0;
    last = n->op;
    if (!test_is_quick() || !is_compiled || samples % stride == 0) check(n, what, data);
}

static void check_half(weft_node *n, const char *what, const tensor *data) {
    check_some(n, what, data, 2);
}

static void check_first(weft_node *n, const char *what, const tensor *data) {
    check_some(n, what, data, 1000);
}

TEST(every_kernel_agrees_with_the_reference_on_every_sample) {
    NEED(begin());
    samples_check(check_half);
}

TEST(every_kernel_agrees_with_the_reference_in_bf16_and_f16) {
    NEED(begin());
    samples_check_reduced(check_first, is_drawn());
}

TEST(pointwise_kernels_agree_at_all_sizes_and_broadcasts) {
    NEED(begin());
    samples_check_sizes(check, is_drawn());
}

TEST(fused_nodes_agree_with_their_reference) {
    static const int64_t shapes[][4] = {{2, 5, 3, 7}, {3, 16, 4, 4}, {1, 7, 1, 1}};
    NEED(begin());
    for (uint64_t seed = 1; seed <= 4; seed++) fused_graph_check(seed, 4, shapes[seed % 3], check);
    fused_graph_check(102, 3, (int64_t[]){2, 17, 130}, check);
    fused_in_place_check(check);
}

TEST(integers_are_exact_at_the_ends_of_their_types) {
    NEED(begin());
    integers_check(check);
    integers_check_fused(check);
}

#ifdef WEFT_CUDA_HOST
static void check_epilogue(weft_node *n, const char *what, const tensor *data) {
    bool is_one = n->op == &weft_op_linear_act || n->op == &weft_op_matmul_act_backward ||
                  n->op == &weft_op_linear_weight;
    if (is_one) check(n, what, data);
}

/* As on a GPU, or with a type, for which the library has no algorithm: our own kernels follow the product. */
TEST(epilogues_that_cublaslt_lacks_are_done_behind_the_product) {
    NEED(begin());
    the_gpu->expects_work = false; /* plans expect the library's epilogues */
    cublasLt_host_refuse_epilogues(1);
    samples_check(check_epilogue);
    samples_check_reduced(check_epilogue, is_drawn());
    cublasLt_host_refuse_epilogues(0);
}
#endif

#ifdef WEFT_CUDA_HOST
/* ---- layouts that rows do not promise: on the emulated GPU only, since such a run may break a real one
 * ---- */

static kernel_promises promises = {.run = gpu_run};

static void break_there(weft_node *n, const char *what, const tensor *data) {
    (void)what;
    kernel_promises_break(&promises, n, data, &the_gpu->env);
}

/* Without the library's epilogues as well, where our own kernels read what it read. Left out of short
 * runs: samples and rows are those of test_ops, which has it there. */
TEST(a_row_that_promises_layouts_which_its_kernel_cannot_take_would_be_seen) {
    if (test_is_quick()) return;
    NEED(begin());
    the_gpu->expects_work = false; /* such runs may fail */
    cuda_host_run_twice(0);
    for (int refused = 0; refused < 2; refused++) {
        cublasLt_host_refuse_epilogues(refused);
        samples_check(break_there);
        samples_check_reduced(break_there, false);
    }
    cublasLt_host_refuse_epilogues(0);
    kernel_promises_check(&promises, samples_are_all() ? 50 : 0);
}
#endif

/* ---- ops without a kernel ---- */

/* Ops that a GPU's plan never runs as a kernel: what graphs read, declare and pass on (summed is always a
 * view; what ranks are becomes constants), and the communication stream's work. */
static bool needs_no_kernel(const weft_op *op) {
    static const char *const names[] = {"input",    "parameter", "state",         "gradients",
                                        "minimize", "wait",      "stop_gradient", "constant_tensor",
                                        "summed",   "rank",      "world",         "rank_rows"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return op->flags & OP_COMMUNICATES;
}

/* Must come last: it counts what the tests before it ran. An op without a sample that can be built alone must
 * have a row at least. */
TEST(every_op_that_needs_a_kernel_has_one_that_a_sample_reaches) {
    NEED(begin());
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        const weft_kernel *list[16];
        bool has_kernel =
            was_met[i] ? has_run[i] : kernels_of(&weft_catalog, op, &the_gpu->env, list, 16) > 0;
        if (needs_no_kernel(op)) continue;
        CHECK_SAYS(has_kernel, "%s: no kernel for GPUs took one of its samples", op->name);
    }
}

TEST(nothing_is_left_on_the_gpu) {
    NEED(begin());
    gpu_close(the_gpu);
    the_gpu = NULL;
#ifdef WEFT_CUDA_HOST
    cuda_host_counts left = cuda_host_count();
    CHECK_SAYS(left.allocations + left.pinned + left.streams + left.events + left.graphs == 0,
               "%d allocations (%zu bytes), %d pinned, %d streams, %d events, %d graphs", left.allocations,
               left.bytes, left.pinned, left.streams, left.events, left.graphs);
#endif
}

GPU_SUITE("cuda ops",
          {T(every_kernel_agrees_with_the_reference_on_every_sample),
           T(every_kernel_agrees_with_the_reference_in_bf16_and_f16),
           T(pointwise_kernels_agree_at_all_sizes_and_broadcasts), T(fused_nodes_agree_with_their_reference),
           T(integers_are_exact_at_the_ends_of_their_types),
#ifdef WEFT_CUDA_HOST
           T(epilogues_that_cublaslt_lacks_are_done_behind_the_product),
           T(a_row_that_promises_layouts_which_its_kernel_cannot_take_would_be_seen),
#endif
           T(every_op_that_needs_a_kernel_has_one_that_a_sample_reaches), T(nothing_is_left_on_the_gpu)})
