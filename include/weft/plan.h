/** @file
 * plan.h - compiling: a model becomes an immutable plan that can be read, verified, and run by sessions.
 *
 * A plan holds programs: each is one graph at one batch size. Compiling needs no device, builds no machine
 * code and measures no time. Threads may share a plan, and it outlives its model.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "weft/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A compiled model. Free it with weft_plan_free(). */
typedef struct weft_plan weft_plan;

/** The instruction set of a plan's kernels. */
typedef enum weft_isa {
    WEFT_ISA_AUTO = 0,      /**< the best that this processor has */
    WEFT_ISA_REFERENCE = 1, /**< reference kernels only: slow, simple loops */
    /** x86-64 without extensions. Other processors have WEFT_ISA_REFERENCE and this one: plain C, vectorized
     * for what every processor of the kind has; dumps call it "plain". */
    WEFT_ISA_SSE2 = 2,
    WEFT_ISA_AVX2 = 3,   /**< with AVX2 and FMA */
    WEFT_ISA_AVX512 = 4, /**< with AVX-512 F, BW, VL and DQ */
} weft_isa;

/** Keeps the libraries that Weft calls within an instruction set, too. oneDNN accepts this once in a process,
 * before the first compile. Without this call, plans below the machine's best do not use oneDNN. */
WEFT_API weft_status weft_limit_isa(weft_isa isa, weft_error *error);

/** Where a plan runs. Compiling for a GPU needs neither a GPU nor its driver; opening a session does. */
typedef enum weft_device {
    WEFT_DEVICE_CPU = 0,  /**< the host's processor and memory */
    WEFT_DEVICE_CUDA = 1, /**< an NVIDIA GPU: see weft_cuda_select() */
} weft_device;

/** How gradients are summed over ranks. */
typedef enum weft_reduce {
    WEFT_REDUCE_AUTO = 0,    /**< ordered on the CPU, fast on a GPU */
    WEFT_REDUCE_ORDERED = 1, /**< by a tree over the numbers of micro-batches: the same bits in any world */
    WEFT_REDUCE_FAST = 2,    /**< in the order in which the communicator is fastest (MPI's, NCCL's own) */
} weft_reduce;

/** What makes a step bad, so that it changes nothing: weft_compile_options.guard. */
typedef enum weft_guard {
    WEFT_GUARD_OFF = 0,   /**< nothing: the steps are as they come */
    WEFT_GUARD_NAN = 1,   /**< a minimized loss that is NaN or infinite */
    WEFT_GUARD_SPIKE = 2, /**< also one whose size is above guard_factor times its running mean */
    /** Also a gradient that is NaN or infinite: no update starts before the norm of all gradients is known.
     * f16's loss scale judges gradients itself, by the same norm. */
    WEFT_GUARD_GRAD = 3,
} weft_guard;

/** Options of weft_compile(); zeroes mean the defaults. */
typedef struct weft_compile_options {
    weft_device device; /**< where the plan runs */
    int64_t batch;      /**< length of WEFT_BATCH, an error where no shape has it; 0: the model's default */
    int threads;        /**< threads of the CPU's kernels; 0: as many as the process has processors */
    weft_isa isa;       /**< instruction set of the CPU's kernels */
    /** Type in which products, convolutions and attention compute where weft_model_set_precision() does not
     * set one: WEFT_BF16, WEFT_F16; 0: f32 (docs/precision.md). */
    weft_dtype precision;
    /** Micro-batches per step, for training graphs whose flow does not say it; 0 and 1: no accumulation. */
    int accumulate;
    /** Manual optimization: the steps of a training, the loss, its gradients, the update and forgetting
     * gradients, are separate calls for every training graph (docs/training.md). weft_run() then adds the
     * gradients of a micro-batch, `accumulate` of them at most, and weft_run_update() updates by them. */
    bool manual;
    /** What makes a step bad. All ranks agree on it before any update of the step; then no update
     * happens: the run that ends the step is WEFT_DATA (bad_step.h). */
    weft_guard guard;
    double guard_factor; /**< of WEFT_GUARD_SPIKE, above 1; 0: 10 */

    /** @name Many ranks
     * ddp.h has the same for one subgraph.
     * @{ */
    int world; /**< ranks that train together, each on its own micro-batches; 0: 1 */
    int rank;  /**< the rank whose part of sharded values this plan's store holds, from 0 */
    /** MiB of gradients per bucket; 0: a sixteenth of its subgraph, at most 25 (with one rank: 25). Plans
     * that train on one store must agree on it. */
    double bucket_cap_mb;
    /** ZeRO stage where weft_model_set_ddp() does not set one: 1 shards the optimizer's state, 2 the
     * gradients too; 0: no ZeRO. */
    int zero;
    weft_shard shard; /**< how ZeRO cuts a bucket; without ZeRO it has no effect */
    /** Each collective is awaited where it starts, so that nothing overlaps: for measuring and for tests. */
    bool serial;
    weft_reduce reduce; /**< how gradients are summed over ranks */
    /** NAME or NAME:key=value,... of a strategy (strategy.h), which sets what is above and what
     * weft_model_set_ddp() sets. An option that contradicts it is an error. NULL: that of the model
     * (weft_model_strategy()); where it has none, the options alone decide. */
    const char *strategy;
    /** A strategy that is not one of Weft's, which `strategy` or the model's text then names. Where neither
     * does, it is used without keys. The structure is copied; what it points to outlives the plan and its
     * sessions. */
    const struct weft_strategy *own_strategy;
    /** weft_session_open_on() checks that the ranks' first values are equal, instead of making them equal. */
    bool check_equal;
    /** @} */

    /** @name On a GPU
     * On a CPU the first two have no effect: its runs are deterministic and in full f32.
     * @{ */
    /** Any two runs give the same bits: no algorithm that leaves the order of adding to chance. */
    bool deterministic;
    bool tf32; /**< matrix products and convolutions of f32 may round operands to 10 bits of mantissa */
    /** A file of measured choices of the libraries' algorithms, as `graphtool calibrate` writes it; NULL: the
     * libraries' own choices. Plans with different files are different plans. An error on the CPU. */
    const char *calibration;
    /** @} */

    const char *graph; /**< compile this graph alone; NULL: all */
    /** Compile the graphs of this flow alone (flow.h); NULL: all graphs, for the flow "train". */
    const char *flow;
    const char *stop_after; /**< stop after this pass (weft_pass_name()), for dumps; such a plan cannot run */
    bool verify;            /**< run the verifier after every pass, not only at the end */
    /** Stores, sessions and trainers of the plan do not ask whether their memory is there (memory.h): for
     * machines that can give more than they say, by swapping for instance. */
    bool no_memory_check;
    /** Nodes run as they were built and derived: the passes simplify, epilogue and fuse do nothing, and clean
     * removes nothing. For tests, and to find out whether one of these passes is to blame. */
    bool unoptimized;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_compile_options;
/** Its fields but own_strategy (field.h): "batch=64 zero=1 isa=avx2 guard=spike". */
WEFT_API const weft_field *weft_compile_fields(void);

/** Compiles a model. NULL on failure, with `*error` filled: by the model's first error, if it has one.
 * `options` may be NULL. Free the plan with weft_plan_free(). */
WEFT_API weft_plan *weft_compile(const weft_model *model, const weft_compile_options *options,
                                 weft_error *error);
/** Frees a plan; sessions that are open hold it until they close. NULL is fine. */
WEFT_API void weft_plan_free(weft_plan *plan);

/** The length of WEFT_BATCH in a plan: that of the options, or the model's default. */
WEFT_API int64_t weft_plan_batch(const weft_plan *plan);

/** Bytes that a rank needs, by kind. */
typedef struct weft_memory {
    uint64_t parameters;  /**< parameters and state */
    uint64_t gradients;   /**< gradients that outlast a run (accumulation) */
    uint64_t optimizer;   /**< the optimizers' state */
    uint64_t derived;     /**< copies of parameters in other types and layouts, and constant tensors */
    uint64_t activations; /**< the arena: activations, gradients of one run, kernels' workspace */
    /** Part of the arena: scratch of a program's kernels, in the program that needs most. */
    uint64_t workspace;
    uint64_t communication; /**< part of the arena: scratch of collectives, the most at once */
    /** On a GPU: two places for inputs, so that a step's data arrive while the last one runs. */
    uint64_t inputs;
    /** Part of the arena: what is in flight across runs, gradients whose sum a later run hides. */
    uint64_t in_flight;
    /** With a guard: copies of a step's inputs and of the state that its forward changes. */
    uint64_t guard;
    /** Exactly what a store and a session allocate together for tensors, a block each. Beside it, lists of
     * paths and steps and what kernels prepare take up to 3 KiB of the host's memory a node. */
    uint64_t total;
    /** Not in the total: the copy of what this rank writes of a checkpoint, which
     * weft_checkpoint_writer_open() takes of the host for a session on a store of this plan. */
    uint64_t checkpoint;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_memory;
/** Sentence 0, 1, ... that the compiler has for the reader of a plan; NULL past the end. The plan owns it.
 * One is of the order of arguments, which C leaves open: in weft_sub(d(a), d(b)) gcc builds d(b) first. Where
 * d updates state or draws random numbers, that is another model than clang's; build d(a) and d(b) in
 * statements before. Another, of a plan for several ranks, is of state that a loss reads and micro-batches
 * renew, or of ops over ranks that a loss reads: "differs from one rank: ...". `graphtool plan` and
 * `train` print notes. */
WEFT_API const char *weft_plan_note(const weft_plan *plan, int index);
/** The first op over ranks (collectives.h) of a graph, "gather_ranks (clip.c:31)"; NULL where it has
 * none, or the plan no such graph. Ranks that run such a graph must all run it. The plan owns the text. */
WEFT_API const char *weft_plan_over_ranks(const weft_plan *plan, const char *graph);
/** What a plan needs. */
WEFT_API weft_memory weft_plan_memory(const weft_plan *plan);

/** What a training's numbers depend on beside its model, its data and its learning rates: "threads" "2",
 * "onednn" "2.6.3", "precision of generator" "bf16", "clip_norm of adam:generator" "1". Setting 0, 1, ...;
 * false past the end. What is not set (a 0 of weft_optimizer) is left out, as is how ranks share values,
 * which changes no bit. Either pointer may be NULL; the plan owns the texts. */
WEFT_API bool weft_plan_setting_at(const weft_plan *plan, int index, const char **name, const char **value);

/** The plan as text, which weft_model_parse() reads. Free it with weft_text_free(). NULL when memory
 * is out. */
WEFT_API char *weft_plan_text(const weft_plan *plan);
/** The plan as JSON with stable keys. Free it with weft_text_free(). NULL when memory is out. */
WEFT_API char *weft_plan_json(const weft_plan *plan);

/** Verifies the plan again, with code that shares nothing with the compiler: every read follows its write, no
 * two live buffers overlap, every operand has the layout that its reader's kernel takes, every gradient
 * reaches its update once, collectives come in one order. On failure `*error` names the rule and the
 * nodes. */
WEFT_API weft_status weft_plan_verify(const weft_plan *plan, weft_error *error);

/** The name of pass 0, 1, ... in the order in which they run; NULL past the end. The text is static. */
WEFT_API const char *weft_pass_name(int index);

#ifdef __cplusplus
}
#endif
#endif
