/** @file
 * ddp.h - separate data-parallel training: which parameters form a subgraph, and how its gradients and
 * optimizer state are spread over ranks.
 *
 * Without any call each top-level scope with trained parameters is a subgraph with the defaults. Names and
 * defaults are those of torch.nn.parallel.DistributedDataParallel and ZeroRedundancyOptimizer;
 * docs/distribution.md has the whole table. In a world of one rank nothing here changes a run.
 */
#ifndef WEFT_DDP_H
#define WEFT_DDP_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How ZeRO cuts a bucket. */
typedef enum weft_shard {
    /** Whole parameters, the largest first, to the rank with the fewest bytes so far. */
    WEFT_SHARD_GREEDY = 0,
    /** Ranges of a bucket that are as equal as possible. */
    WEFT_SHARD_FLAT = 1,
} weft_shard;

/** Options of a subgraph; zeroes mean the defaults. */
typedef struct weft_ddp_options {
    /** MiB of gradients per bucket, at most 2^20; 0: as in weft_compile_options. */
    double bucket_cap_mb;
    /** ZeRO stage 1 or 2; 0: as in weft_compile_options; WEFT_NONE: no ZeRO, whatever is set there. */
    int zero;
    /** How ZeRO cuts a bucket. */
    weft_shard shard;
    /** Before each run that trains the subgraph, its state (running statistics) is set to rank 0's. */
    bool broadcast_buffers;
    /** A graph that minimizes over parameters which its loss does not reach leaves them out, unchanged, and
     * the plan lists them. Without this it is an error that names one. */
    bool find_unused_parameters;
    /** batch_norm takes its statistics over all ranks of the process group. */
    bool sync_batch_norm;
    /** WEFT_BF16: gradients travel in bf16 and are added in f32; 0: as they are. */
    weft_dtype wire;
    /** Ranks that share gradients: "0-3;4-7", "0,2;1,3". A ';' separates groups, a ',' separates ranks and
     * ranges of a group. A rank that is in no group is alone. NULL: the world. What one weft_minimize() clips
     * by one norm must have the same groups (WEFT_ARGUMENT from weft_compile()): ranks that share gradients
     * would scale them differently. */
    const char *process_group;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_ddp_options;

/** Makes the parameters under scope `path` that no longer path has claimed one subgraph with these options
 * (NULL: the defaults). "" or "/" is the whole model. A second call on a path replaces all its options. They
 * are copied, and saved with the model.
 *
 *     weft_model_set_ddp(model, "encoder/layer1", &(weft_ddp_options){.zero = 1, .bucket_cap_mb = 4});
 *
 * Errors stick, like a builder's: a path without parameters (WEFT_NAME), a value out of its range
 * (WEFT_ARGUMENT). */
WEFT_API weft_status weft_model_set_ddp(weft_model *model, const char *path, const weft_ddp_options *options);

/** The same from text, which changes only the options that it names: NAME=VALUE, separated by blanks or
 * commas. Names are those of weft_ddp_options, except bf16_wire=1, which is .wire = WEFT_BF16. Flags are 0 or
 * 1; shard is greedy or flat. A process group is quoted, or goes as far as its digits and "-,;" do. This is
 * also the language of dumps: what follows the path of a `ddp` line can be given here.
 *
 *     weft_model_set_ddp_text(model, "generator", "zero=1,shard=flat,process_group=0-3;4-7,bucket_cap_mb=4");
 *
 * Errors: those of weft_model_set_ddp(), and a text that cannot be read (WEFT_ARGUMENT). */
WEFT_API weft_status weft_model_set_ddp_text(weft_model *model, const char *path, const char *options);

#ifdef __cplusplus
}
#endif
#endif
