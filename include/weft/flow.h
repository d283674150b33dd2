/** @file
 * flow.h - flows: which graphs a training runs, in which order, how often, and on which batches.
 *
 * A flow is a list of steps. One pass through it is an iteration, and training repeats the iteration. A model
 * without flows has one: each of its training graphs once, in the order in which they were made, all on the
 * same batch.
 *
 * Where a graph reads a state that another graph of the flow overwrites, that one must have one micro-batch
 * (WEFT_ORDER of weft_compile()): with more, the reader would see the last one's. A state that is renewed
 * from what it was, such as running statistics or a queue, holds all of them.
 */
#ifndef WEFT_FLOW_H
#define WEFT_FLOW_H

#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sets the flow "train", which holds where no other is named.
 *
 *     weft_model_set_flow(model, "d_step*5 g_step");
 *     weft_model_set_flow(model, "d_step{accumulate=4}*5 g_step");
 *     weft_model_set_flow(model, "0-999: d_step; 1000-: d_step*5 g_step");
 *
 * Steps have blanks between them. `*5` runs a step five times. In braces stand `accumulate=K`, the number of
 * micro-batches, and `batch=next` or `batch=same`, separated by commas. A graph has one number of
 * micro-batches in a flow, which any of its steps says; else weft_compile_options does. A range of
 * iterations, "0-999:" or "1000-:", holds for the steps up to the next ';', and steps without a range run in
 * each iteration. Every iteration must have a step.
 *
 * The first step of an iteration that has inputs takes new batches each time it runs, and the other steps run
 * on the batch that is there: in "d_step*5 g_step" an iteration takes five batches, and g_step sees the
 * fifth. batch=next lets a step take new ones, too; batch=same lets all runs of a step have those of the step
 * before. A step that runs on micro-batches of another may have fewer: of 4 it takes each, each second, or
 * the first. A graph without inputs takes no batches.
 *
 * A second call replaces the flow. Flows are saved with the model. Errors stick, like a builder's: a text
 * that breaks these rules is WEFT_ARGUMENT; weft_compile() reports a name that no graph has (WEFT_NAME). */
WEFT_API weft_status weft_model_set_flow(weft_model *model, const char *steps);
/** The same for a flow of any name, which weft_compile_options.flow selects. */
WEFT_API weft_status weft_model_set_flow_named(weft_model *model, const char *name, const char *steps);
/** The name of flow 0, 1, ... of a model; NULL past the end. The model owns it. */
WEFT_API const char *weft_flow_name(const weft_model *model, int index);

/** Which batches a step runs on. */
typedef enum weft_flow_batch {
    WEFT_FLOW_AUTO = 0, /**< the first step of an iteration that has inputs as NEXT, the others as SAME */
    WEFT_FLOW_NEXT = 1, /**< new batches, each time that it runs */
    WEFT_FLOW_SAME = 2, /**< those of the last step before it that took new ones */
} weft_flow_batch;

/** A step of a flow. */
typedef struct weft_flow_step {
    const char *graph;                /**< name of the graph that runs; the plan owns it */
    int repeat;                       /**< how many times in a row, from 1 */
    int accumulate;                   /**< micro-batches of each time, on each rank, from 1 */
    weft_flow_batch batch;            /**< which batches it takes; SAME of a graph without inputs */
    int64_t from;                     /**< first iteration that has the step */
    int64_t to;                       /**< the iteration after the last one; INT64_MAX: no end */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_flow_step;
/** Writes step 0, 1, ... of the flow that a plan is for to `*step`; false past the end. */
WEFT_API bool weft_plan_flow(const weft_plan *plan, int index, weft_flow_step *step);

/** A graph that assigns, but that no training runs. */
typedef struct weft_idle_graph {
    const char *graph;                /**< its name; the model owns these texts */
    const char *path;                 /**< of a state or parameter that it assigns */
    const char *reader;               /**< another graph, which reads that */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_idle_graph;
/** Finds graph 0, 1, ... that assigns what another graph reads, minimizes nothing, and is in no flow of the
 * model: a teacher that would never move. (Where there is no flow "train", graphs in train mode are in it.)
 * Returns false past the end. weft_trainer_new() refuses a model that has one, unless it runs the graph for
 * an evaluation, or options.train_step runs graphs. Where something else runs it, say so by a flow of another
 * name: weft_model_set_flow_named(model, "reset", "reset_graph"). */
WEFT_API bool weft_flow_idle(const weft_model *model, int index, weft_idle_graph *found);

enum { WEFT_MAX_FLOW_STEPS = 256 /**< steps of a flow */ };
/** Writes the steps of an iteration, up to WEFT_MAX_FLOW_STEPS, to `steps`, with NEXT or SAME as their batch.
 * Returns how many. */
WEFT_API int weft_plan_iteration(const weft_plan *plan, int64_t iteration, weft_flow_step *steps);

#ifdef __cplusplus
}
#endif
#endif
