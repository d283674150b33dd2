/* kernel.h - what a backend offers for an op. Kernels are rows of the backend's table (ops/cpu/table.c,
 * ops/cuda/table.c), best first; the compiler takes the first that does not decline. The CPU has the reference behind
 * them all, CUDA has not: an op that none of its kernels takes is an error there. */
#ifndef WEFT_GRAPH_CORE_KERNEL_H
#define WEFT_GRAPH_CORE_KERNEL_H

#include "graph/core/graph.h"
#include "weft/plan.h"

/* How a value lies that a kernel is handed. Without a kernel (variables, inputs, collectives) all is row-major; bytes that
 * were packed are, too. */
typedef enum layout_rule {
    LIES_ROW_MAJOR,     /* without gaps: kernels may walk memory */
    LIES_CHANNELS_LAST, /* of four axes; others row-major */
    LIES_EITHER,        /* one of the two: what pointwise ops and `reorder` write */
    LIES_ANYHOW,        /* at any strides: permuted, with gaps, 0 where it is broadcast */
} layout_rule;

typedef struct kernel_env {
    weft_isa isa;
    int threads;
    const weft_env *env;
    weft_device device;
    bool deterministic, tf32;              /* CUDA: weft_compile_options */
    const struct calibration *calibration; /* likewise (ops/calibration.h); NULL: none */
    const struct cuda_context *cuda;       /* of a session on a GPU (ops/cuda/cuda.h); NULL while compiling */
} kernel_env;

typedef struct weft_kernel {
    const char *name;    /* "onednn", "simd", "reference" */
    const weft_op *op;   /* NULL: the reference, which is every op's */
    weft_isa min_isa;    /* WEFT_ISA_SSE2 when any processor will do */
    unsigned strided_in; /* operands (bit i: operand i) that it takes LIES_ANYHOW */
    bool
        rounds_f32_output; /* a `f32_output` result has been rounded to the operands' reduced type on its way */
    /* NULL when it can run the node (operands have layouts), else the reason: "k=30 is not a multiple of 16". */
    const char *(*declines)(const weft_node *n, const kernel_env *env);
    /* Bytes of scratch that a run needs, SIZE_MAX when memory to find out could not be had; NULL: none. */
    size_t (*workspace)(const weft_node *n, const kernel_env *env);
    /* Bytes of operand i in a form that this kernel prefers to the plain one, 0: plain. The compiler then puts a
     * `pack` node before it; the kernel sees u8[bytes]. NULL: never. */
    size_t (*packed_bytes)(const weft_node *n, int i, const kernel_env *env);
    /* Builds what runs need (primitives) when a session opens; NULL: *state stays NULL. */
    weft_status (*open)(const weft_node *n, const kernel_env *env, void **state, weft_error *error);
    weft_status (*run)(void *state,
                       const kernel_call *c); /* NULL: this build lacks the backend; it can plan, not run */
    void (*close)(void *state);
    /* CUDA: times the ways that a library has for the node, on memory of its own, and adds the fastest to `found` as text
     * for calibration tables; NULL: there is one way. */
    weft_status (*tune)(const weft_node *n, const kernel_env *env, text *found, weft_error *error);
    /* CUDA: the rule that a value breaks which a run calls bad ("labels are below the number of classes"); NULL: none. */
    const char *data_rule;
} weft_kernel;

/* The tables, NULL at the end. */
extern const weft_kernel *const cpu_kernels[], *const cuda_kernels[];

/* The kernels of an op for this env, best first; returns how many were put into `list`. */
int kernels_of(const weft_op *op, const kernel_env *env, const weft_kernel **list, int room);

/* The best kernel that takes the node; *declined (may be NULL) gets the reasons of better ones, in `a`. */
const weft_kernel *kernel_select(const weft_node *n, const kernel_env *env, arena *a, const char **declined);

/* What a kernel takes as operand i, and gives as result k. NULL: what has no kernel. */
layout_rule kernel_input_layout(const weft_kernel *kernel, const weft_node *n, int i);
layout_rule kernel_output_layout(const weft_kernel *kernel, const weft_node *n, int k);
bool layout_fits(layout_rule rule, const tensor_type *t, const int64_t *stride);
/* Whether a call's operands and results lie as the kernel takes and gives them; else WEFT_INTERNAL says which does not. */
weft_status kernel_check_call(const weft_kernel *kernel, const kernel_call *c, weft_error *error);

/* Whether a value lies so in memory, or has no layout yet: for `declines`. */
bool lies_row_major(const weft_value *v);
bool lies_channels_last(const weft_value *v);

/* What WEFT_ISA_AUTO means on this machine; and whether it can run `isa`. */
weft_isa isa_best(void);
const char *isa_name(weft_isa isa);

#endif
