/** @file
 * hooks.h - hooks that Weft brings: progress, logs and pictures, early stop, the best weights, a plateau.
 *
 * Logs show means over an interval: of the metrics of all ranks, weighted by the samples of each iteration.
 * With them go "lr" (with several optimizers "lr/NAME": the rate of the last update), "samples_per_second" in
 * the interval, on all ranks, without the time of the trainer's validations, and "memory_mib", what the plan
 * of the training needs. A metric that has the name of one of these, or is called step, epoch, samples or
 * seconds, is metric/NAME. Rank 0 writes. A log that cannot be opened is an error before the first step, and
 * the next weft_trainer_fit() tries again; where one cannot be written later (a full disk), it ends there,
 * the training continues, and weft_trainer_check() reports it. What is written is on the disk when
 * weft_trainer_fit() returns. A training that resumes from a checkpoint continues its JSON and CSV files
 * where they were then, and what was written later is cut off; all others begin their files again.
 *
 * Each function copies its texts. weft_trainer_new() refuses what cannot be, and says why: arguments, the
 * metric of a hook that the validation will not give, a graph or an output, a folder that is not there.
 */
#ifndef WEFT_HOOKS_H
#define WEFT_HOOKS_H

#include "weft/plateau.h"
#include "weft/trainer.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Logs and pictures
 * @{ */

/** Writes a line every so many iterations, and one for each validation and test:
 *
 *     epoch 1  step 10/125  loss1 0.3021  loss2 0.4410  24.3 steps/s  lr 0.01  0:05 left
 *
 * A learning rate is in the first line and in those where it has changed; where all are equal, "lr" stands
 * for all. Time is left for the iterations that are left, at the pace so far, in which validations count.
 * With `every` 0 there are about twenty lines in a run, after iterations 10, 20, 50, 100 and so on and then
 * as far apart as that takes; on a terminal (of one rank) a bar. Where a train_step and epochs leave the
 * number of iterations open, lines are as far apart as for a run that ends now: about ten more for each
 * doubling of the iterations. The caller closes the file. */
WEFT_API weft_hook weft_hook_text(FILE *file, int64_t every);
/** Writes a line of JSON into a file every so many iterations (0: 10), and one for each validation and
 * test, whose keys begin with "val_" and "test_". */
WEFT_API weft_hook weft_hook_json(const char *path, int64_t every);
/** Writes rows "step,epoch,phase,name,value" into a file every so many iterations (0: 10), a row for each
 * number, and after each validation and test. The phase is train, val or test. */
WEFT_API weft_hook weft_hook_csv(const char *path, int64_t every);
/** Writes a new event file for TensorBoard into a folder, which is made if it is not there: scalars
 * "train/NAME" every so many iterations (0: 10), "val/NAME" and "test/NAME" after each validation and
 * test. */
WEFT_API weft_hook weft_hook_tensorboard(const char *folder, int64_t every);

/** Draws curves of the metrics over the steps when a run ends, training beside validation: a panel for each
 * of the first 24 names, and how many names are left out. A resumed run has the steps since then.
 * The file is an .svg or a .png. Points are means of `every` iterations (0: 10). A run that fails before its
 * first point writes no picture. weft_trainer_check() reports a file that cannot be written then. */
WEFT_API weft_hook weft_hook_curves(const char *path, int64_t every);

/** What weft_hook_samples() draws; what `data` points to must outlive the trainer. */
typedef struct weft_samples {
    const char *graph;  /**< of an evaluation; NULL: "predict" */
    const char *output; /**< [N,H,W] or [N,C,H,W], u8 or f32, C 1 or 3; NULL: the graph's first */
    weft_dataset data;  /**< what the graph runs on: as weft_trainer_predict() */
    /** "out/photo.png" becomes out/photo-500.png after iteration 500; a strip is out/photo.png. NULL: no
     * files. */
    const char *path;
    const char *tensorboard; /**< folder of an event file with the pictures; NULL: none */
    int64_t every;           /**< iterations between pictures; 0: 500 */
    int rows;                /**< of images in a picture; 0: 8 */
    int columns;             /**< likewise */
    int scale;               /**< pixels of the picture, each way, for one of an image; 0: 1 */
    /** One picture of the whole training instead of many: so many rows, one for each moment, from before the
     * first iteration to the last, each with twice the iterations of the one above. It is written each time
     * that a row is added. A resumed training keeps the rows that its file has. 0: a picture every so many
     * iterations. */
    int strip;
    /** The input of the training whose first samples are two rows below, to compare with; NULL: none. They
     * are as large as the images, u8 or f32. */
    const char *real;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_samples;
/** Its plain fields but the paths (field.h). */
WEFT_API const weft_field *weft_samples_fields(void);
/** Runs a graph every so many iterations and writes its images as one PNG picture, a grid: u8 as it is, f32
 * from [-1, 1] if a number is negative, else from [0, 1]. The graph draws the same random numbers each time,
 * so a generator gets the same latents, and reads averages of parameters where optimizers keep some, as
 * validations do. TensorBoard shows an event file best when it is the only one of its folder: say
 * "logs/samples". */
WEFT_API weft_hook weft_hook_samples(const weft_samples *options);
/** @} */

/** @name By the metrics of validations
 * Ranks have the same metrics, so they decide alike. A metric that validations do not give is WEFT_NAME
 * of weft_trainer_new(), or of the first validation where your own evaluator would report it.
 * @{ */

/** What weft_hook_early_stop() looks at. */
typedef struct weft_early_stop {
    const char *metric; /**< of the validation */
    bool max;           /**< it should grow; else it should fall */
    int patience;       /**< validations in a row without improvement after which it stops; 0: 3 */
    double min_delta;   /**< an improvement is more than this */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_early_stop;
/** Stops the training (weft_trainer_stop()) when a metric no longer improves, or is NaN or infinite: as
 * Lightning's EarlyStopping. */
WEFT_API weft_hook weft_hook_early_stop(const weft_early_stop *options);

/** What weft_hook_best() keeps. */
typedef struct weft_best {
    const char *metric;               /**< of the validation */
    bool max;                         /**< the greatest is best; else the least */
    const char *path;                 /**< safetensors */
    bool optimizer_state;             /**< with what weft_session_save() calls training */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_best;
/** Saves the weights after each validation whose metric is better than all before it: the file always has the
 * best ones, as MMEngine's save_best. Without optimizer_state it has what validations read: averages of
 * parameters where optimizers keep some. With it, it has parameters, and their averages beside them. Saving
 * is collective. */
WEFT_API weft_hook weft_hook_best(const weft_best *options);

/** Lowers the base learning rate of an optimizer (its name as in weft_optimizer; NULL: of all) when a metric
 * no longer improves: weft_plateau_step() after each validation, as ReduceLROnPlateau. `*rules` is copied,
 * with what it holds of evaluations so far; NULL: PyTorch's defaults. Evaluations are counted in the hook:
 * checkpoints keep the counts, and a training that starts from a file of weights counts from 0. */
WEFT_API weft_hook weft_hook_plateau(const char *metric, const char *optimizer, const weft_plateau *rules);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
