/* kernel.h - what a backend offers for an op. Kernels are rows of the backend's table (ops/catalog), best
 * first; the compiler selects the first one that does not decline the node. On the
 * CPU the reference kernel comes last and takes every node; on CUDA there is none, so a node that every
 * kernel declines is an error. */
#ifndef WEFT_GRAPH_CORE_KERNEL_H
#define WEFT_GRAPH_CORE_KERNEL_H

#include "graph/core/graph.h"
#include "weft/plan.h"

struct node_work;

/* The layout of a value that a kernel reads or writes. Values that no kernel makes (variables, inputs,
 * collectives) are row-major, and so are packed bytes. */
typedef enum layout_rule {
    LIES_ROW_MAJOR,     /* contiguous: kernels may walk over memory */
    LIES_CHANNELS_LAST, /* for four axes; row-major for others */
    LIES_EITHER,        /* one of the two; results of pointwise ops and of `reorder` */
    LIES_ANYHOW,        /* any strides: permuted, with gaps, 0 on a broadcast axis */
} layout_rule;

/* The machine that kernels are selected for. */
typedef struct kernel_env {
    weft_isa isa;
    int threads;
    const weft_env *env;
    weft_device device;
    bool deterministic, tf32;              /* CUDA: weft_compile_options */
    const struct calibration *calibration; /* CUDA: measured choices (ops/calibration.h); NULL: none */
    const struct cuda_context *cuda;       /* the session's GPU (ops/cuda/cuda.h); NULL while compiling */
} kernel_env;

struct tuned; /* ops/calibration.h */

enum { KERNEL_IMPLEMENTATION = 48 /* bytes of the name of a library's implementation */ };

/* One implementation of an op. Function pointers may be NULL where their comment says so. */
typedef struct weft_kernel {
    const char *name;    /* "onednn", "simd", "reference" */
    const weft_op *op;   /* NULL: the reference kernel, which runs every op */
    weft_isa min_isa;    /* WEFT_ISA_SSE2: runs on any processor */
    unsigned strided_in; /* bit i: takes operand i at any strides (LIES_ANYHOW); 31: and all after it */
    /* A result with attribute `f32_output` is rounded to the operands' reduced type before it is stored as
     * f32. */
    bool rounds_f32_output;
    /* Returns NULL when it can run the node, whose operands have layouts by then, else the reason: "k=30 is
     * not a multiple of 16". NULL: it runs every node of the op. */
    const char *(*declines)(const weft_node *n, const kernel_env *env);
    /* Bytes of scratch memory that a run needs; SIZE_MAX when memory is out. NULL: none. */
    size_t (*workspace)(const weft_node *n, const kernel_env *env);
    /* Bytes of operand i in a packed form that this kernel prefers; 0: it takes the plain form. The compiler
     * then inserts a `pack` node before the node, and the kernel gets u8[bytes]. NULL: never. */
    size_t (*packed_bytes)(const weft_node *n, int i, const kernel_env *env);
    /* For a kernel that calls a library whose version and choice change bits: writes the name of what that
     * chooses for the node ("brg:avx2"). Returns false when memory is out. NULL: no bit depends on that. */
    bool (*implementation)(const weft_node *n, const kernel_env *env, char name[KERNEL_IMPLEMENTATION]);
    /* Corrects what a run of the node launches, reads and writes (ops/work.h), which begins as one launch
     * that reads every operand and writes every result. NULL: that is right. */
    void (*work)(const weft_node *n, struct node_work *w);
    /* Builds *state, which all runs of the node get (primitives of a library), when a session opens; close
     * frees it. NULL: *state stays NULL. */
    weft_status (*open)(const weft_node *n, const kernel_env *env, void **state, weft_error *error);
    weft_status (*run)(void *state,
                       /* NULL: this build lacks the backend, and can compile plans but not run them. */
                       const kernel_call *c);
    void (*close)(void *state);
    /* CUDA: measures the algorithms that a library has for the node, in memory that it allocates, and puts
     * the fastest into *found (ops/calibration.h), which the caller has cleared. NULL: there is only one. */
    weft_status (*tune)(const weft_node *n, const kernel_env *env, struct tuned *found, weft_error *error);
    /* CUDA: the rule that a value broke when the kernel reports bad data ("labels are below the number of
     * classes"). NULL: it never does. */
    const char *data_rule;
} weft_kernel;

/* Fills `list` with a catalog's kernels of an op for this machine, best first; returns how many, at most
 * `room`. */
int kernels_of(const op_catalog *c, const weft_op *op, const kernel_env *env, const weft_kernel **list,
               int room);

/* The best kernel that does not decline the node; NULL: all of them do. *declined (`declined` may be NULL)
 * gets the reasons of the better ones, allocated in `a`; NULL: there are none. */
const weft_kernel *kernel_select(const weft_node *n, const kernel_env *env, arena *a, const char **declined);

/* The layout that a kernel takes for operand i and gives to result k. `kernel` is NULL for nodes that run
 * without one. */
layout_rule kernel_input_layout(const weft_kernel *kernel, const weft_node *n, int i);
layout_rule kernel_output_layout(const weft_kernel *kernel, const weft_node *n, int k);
bool layout_fits(layout_rule rule, const tensor_type *t, const int64_t *stride);
/* Checks that the operands and results of a call have the layouts that the kernel takes and gives; else
 * WEFT_INTERNAL names the first that has not. */
weft_status kernel_check_call(const weft_kernel *kernel, const kernel_call *c, weft_error *error);

/* Whether a value has this layout, or none yet: for `declines`. */
bool lies_row_major(const weft_value *v);
bool lies_channels_last(const weft_value *v);

#endif
