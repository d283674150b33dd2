/** @file
 * memory.h - whether the memory that a plan needs is there, asked before any of it is allocated.
 *
 * A plan states its bytes (weft_plan_memory()). What is free is the least of what the machine has available
 * without swapping, what each control group of the process leaves (a container's limit; caches that can be
 * dropped count as free), and `ulimit -v`; on a GPU, what is free there. weft_store_new(),
 * weft_session_open() and weft_trainer_new() ask by themselves. A host with its own allocator answers
 * by weft_allocator.room.
 */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How an error calls the options with which a plan would fit, for programs whose users give them by other
 * names. Numbers follow those of the first three. NULL: as in C. */
typedef struct weft_fit_words {
    const char *batch;                /**< "batch=" */
    const char *accumulate;           /**< "accumulate=" */
    const char *zero;                 /**< "zero=" */
    const char *bf16;                 /**< "bf16" */
    const char *no_memory_check;      /**< "no_memory_check" */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_fit_words;

/** What weft_plan_fits() counts beside the plan, and what it may try. NULL or zeroes: the plan alone. */
typedef struct weft_fit_options {
    bool checkpoints;         /**< a writer of checkpoints is opened, which takes weft_memory.checkpoint */
    uint64_t more;            /**< bytes that are needed beside the plan's: of other sessions, of copies */
    uint64_t more_per_sample; /**< more for each sample of the batch: of data in memory */
    const char *more_name; /**< what an error calls these; NULL: "other sessions and a checkpoint's copy" */
    int local_world;       /**< ranks on this machine, which share its memory (weft_comm.local_world); 0: 1 */
    /** The plan's model and what it was compiled with, to find out what would fit. NULL: nothing is tried. */
    const weft_model *model;
    const weft_compile_options *compile; /**< needed with `model` */
    const weft_fit_words *words;         /**< NULL: as in C */
    uint64_t reserved[WEFT_RESERVED];    /**< zeros (status.h) */
} weft_fit_options;

/** Whether a store and a session of the plan fit into what is free now. WEFT_MEMORY says what is needed and
 * what is free, the three that take most, and, with a model, the options that would fit, each compiled, with
 * its bytes: a smaller batch, the same with as many micro-batches, a ZeRO stage, and bf16. With
 * options.no_memory_check everything fits. Below 16 MiB nothing is checked, unless an allocator
 * answers. */
WEFT_API weft_status weft_plan_fits(const weft_plan *plan, const weft_fit_options *options,
                                    weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
