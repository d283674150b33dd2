/* plan.h - compiling: a model becomes an immutable plan that can be read, proved, and run by sessions.
 *
 * A plan holds programs: one graph at one batch size and phase each. Compiling needs no device, builds no
 * machine code and measures no time. A plan may be shared between threads and outlives its model.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "weft/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan weft_plan;

typedef enum weft_isa {
    WEFT_ISA_AUTO = 0,      /* the best this processor has */
    WEFT_ISA_REFERENCE = 1, /* reference kernels only: slow, obviously right */
    WEFT_ISA_SSE2 = 2,
    WEFT_ISA_AVX2 = 3,
    WEFT_ISA_AVX512 = 4,
} weft_isa;

/* Keeps the libraries that Weft uses within an instruction set, too (oneDNN can be told once a process, before
 * the first compile). Without it, plans below the machine's best leave oneDNN out. */
WEFT_API weft_status weft_limit_isa(weft_isa isa, weft_error *error);

/* Where a plan runs. Compiling for a GPU needs none, nor its driver; opening a session does. */
typedef enum weft_device {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1,
} weft_device;

/* How gradients are summed over ranks. */
typedef enum weft_reduce {
    WEFT_REDUCE_AUTO = 0,    /* ordered on the CPU, fast on a GPU */
    WEFT_REDUCE_ORDERED = 1, /* by a tree over the numbers of micro-batches: the same bits in any world */
    WEFT_REDUCE_FAST = 2,    /* in whatever order the communicator is fastest (MPI's, NCCL's own) */
} weft_reduce;

/* Zero-initialized means the defaults. */
typedef struct weft_compile_options {
    weft_device device;
    int64_t batch; /* what WEFT_BATCH is, an error where no shape has it; 0: the model's default */
    int threads;   /* 0: every core the process may use */
    weft_isa isa;
    /* What products, convolutions and attention compute in where weft_precision says nothing: WEFT_BF16, WEFT_F16; 0: f32
     * (docs/precision.md). */
    weft_dtype precision;
    int accumulate; /* micro-batches a step, for training graphs; 0 and 1: no accumulation */

    /* ---- many ranks (include/weft/ddp.h has the same for one subgraph) ---- */
    int world; /* ranks that train together, each on its own micro-batches; 0: 1 */
    int rank;  /* which rank's share of what is sharded this plan's store holds */
    /* MiB of gradients a bucket; 0: a sixteenth of its subgraph, at most 25 (of one rank alone: 25). Plans that train on
     * one store must agree on it. */
    double bucket_cap_mb;
    /* ZeRO stage where weft_ddp says none: 1 shards the optimizer's state, 2 the gradients too; and how. */
    int zero;
    weft_shard shard; /* of what ZeRO shards; nothing without it */
    /* Collectives are awaited where they start, so that nothing overlaps: for measuring, for tests. */
    bool serial;
    weft_reduce reduce;
    /* Ranks' values at the start are checked to be equal, not made so (weft_session_open_on). */
    bool check_equal;

    /* ---- a GPU; but for `calibration` nothing on a CPU, whose runs are deterministic and in full f32 ---- */
    bool deterministic; /* the same bits on any two runs: no algorithm whose order of adding is left to chance */
    bool tf32;          /* matrix products and convolutions of f32 may round operands to 10 bits of mantissa */
    /* A file of measured choices of the libraries' algorithms, as `graphtool calibrate` writes it; NULL: their own. It is
     * part of what makes two plans the same. An error on the CPU. */
    const char *calibration;

    const char *graph;      /* compile this graph alone; NULL: all */
    const char *stop_after; /* leave the pipeline after this pass (for dumps); such a plan cannot run */
    bool verify;            /* run the verifier after every pass, not only at the end */
} weft_compile_options;

/* Compiles; NULL on failure with *error filled (the model's sticky error first). Free with weft_plan_free. */
WEFT_API weft_plan *weft_compile(const weft_model *model, const weft_compile_options *options,
                                 weft_error *error);
WEFT_API void weft_plan_free(weft_plan *plan);

/* Bytes a rank needs, by kind; total is exactly what a store and a session allocate together. */
typedef struct weft_memory {
    uint64_t parameters; /* and state */
    uint64_t gradients;  /* that outlast a run (accumulation) */
    uint64_t optimizer;
    uint64_t derived;
    uint64_t activations;   /* the arena: activations, gradients of one run, kernels' workspace */
    uint64_t workspace;     /* of which kernels' scratch, at the arena's peak program */
    uint64_t communication; /* of which scratch of collectives, likewise */
    uint64_t inputs;        /* on a GPU: two places for what is fed, so that a step's data come while the last one runs */
    uint64_t
        in_flight; /* of which what outlasts a run: gradients that are being summed, where a later run hides that */
    uint64_t total;
} weft_memory;
WEFT_API weft_memory weft_plan_memory(const weft_plan *plan);

/* The plan as text (parses back), or as JSON with stable keys. Free with free(). NULL when memory is out. */
WEFT_API char *weft_plan_text(const weft_plan *plan);
WEFT_API char *weft_plan_json(const weft_plan *plan);

/* Proves the plan again with code of its own: every read follows its write, no two live buffers overlap, every
 * operand lies as its reader's kernel takes it, every gradient reaches its update once, collectives come in one order. On
 * failure *error names the rule and the nodes. */
WEFT_API weft_status weft_plan_verify(const weft_plan *plan, weft_error *error);

/* The names of the passes, in order; NULL past the end. */
WEFT_API const char *weft_pass_name(int index);

#ifdef __cplusplus
}
#endif
#endif
