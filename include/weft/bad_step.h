/** @file
 * bad_step.h - bad steps: what is known of one, its file, and running it again.
 *
 * With weft_compile_options.guard, a run that would update by a loss that is not finite (or spikes, or has
 * gradients that are not finite) updates nothing, on any rank: it is WEFT_DATA, and parameters, state and
 * optimizers are to the bit what they were before the step. The step has been run again from copies of
 * its inputs, node by node, on all ranks. The error names the loss, the rank and the micro-batch, and the
 * first node that made a NaN of operands without NaN, or an infinity of finite operands.
 *
 * The same holds for an input value that a kernel before the losses rejects (a label outside the classes, an
 * index outside the axis): the run of its micro-batch continues with NaN, or 0 in integers, instead of that
 * kernel's results (on a GPU with class or row 0), so that no rank waits for this one. A kernel that no loss
 * needs may come later; then it is this rank's error, as in a run without a guard.
 *
 * The training may continue with the next batch: the bad step was not counted. f16's loss scale judges
 * gradients by itself: where they overflow the step is skipped and is not bad.
 */
#ifndef WEFT_BAD_STEP_H
#define WEFT_BAD_STEP_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether the last run of a training graph whose steps are guarded was a bad step; the same on all ranks. */
WEFT_API bool weft_bad_step(const weft_session *session);
/** How many bad steps the session has met; the same on all ranks. */
WEFT_API int64_t weft_bad_steps(const weft_session *session);
/** Where the last run, a bad step, went wrong: a rank with a bad loss (of several the one whose node was
 * found earliest in the program; without any, the rank of that node), and which of that rank's micro-batches
 * of the step it was, from 0; the same on all ranks. `rank` and `micro_batch` may be NULL. False: it was not
 * a bad step, or no rank has found where it came from. */
WEFT_API bool weft_bad_step_at(const weft_session *session, int *rank, int64_t *micro_batch);
/** Row of that micro-batch's inputs, along axis 0, in which an input has the first NaN, or the value that its
 * kernel does not take; the same on all ranks. -1: it is not in an input, or not known. */
WEFT_API int64_t weft_bad_step_row(const weft_session *session);
/** The report of the last run, if it was a bad step: losses with their bits, and the nodes found, with types,
 * scopes, source lines and numbers of their operands and results; the same on all ranks. Free it with
 * weft_text_free(). NULL: the last run of a training graph was not a bad step, or memory is out. */
WEFT_API char *weft_bad_step_text(const weft_session *session);

/** Saves the last run, if it was a bad step, as one file (docs/formats.md): the model, the plan's settings,
 * the values before the step, and the inputs of all ranks; `graphtool replay` runs it again. `model` is
 * the one that the plan was compiled from. All ranks call it; rank 0 writes `path`, the others' may be NULL.
 * WEFT_ORDER when the last run was not a bad step. */
WEFT_API weft_status weft_bad_step_save(weft_session *session, const weft_model *model, const char *path,
                                        weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
