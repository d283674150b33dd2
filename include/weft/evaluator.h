/** @file
 * evaluator.h - numbers by sample that a validation or a test gives beside the graph's own: accuracy, errors,
 * a confusion matrix, perplexity, or one of your own.
 *
 * An evaluator is called with the batches of an evaluation. For each sample it adds to what it counts and
 * sums up; these are merged over all batches and ranks, and then it reports numbers, which are metrics like
 * all others: weft_metrics, logs and hooks have them. Counts are exact, and so are sums (they are kept with
 * all their bits, and rounded once at the end): the numbers are the same to the bit whatever the batch, the
 * smaller last batch, and the world, as long as the tensors that are read are. What needs all samples at once
 * keeps rows of numbers, which reach every rank in one order.
 *
 *     weft_evaluator how_good[] = {weft_evaluator_accuracy("logits", "label", 1),
 *                                  weft_evaluator_confusion("logits", "label", NULL)};
 *     options.evaluators = how_good, options.n_evaluators = 2;
 */
#ifndef WEFT_EVALUATOR_H
#define WEFT_EVALUATOR_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name An evaluator of your own
 * @{ */

/** What an evaluator counted and summed up, and the rows that it kept. */
typedef struct weft_tally weft_tally;
/** What `open` of an evaluator says of its tally; zeros before. */
typedef struct weft_tally_size {
    int64_t counts;                   /**< number of counts */
    int64_t sums;                     /**< number of sums */
    int64_t width;                    /**< numbers in each row; 0: it keeps no rows */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_tally_size;
/** Adds to count `index`. Counts are exact up to 2^53. */
WEFT_API void weft_tally_count(weft_tally *tally, int64_t index, int64_t n);
/** Adds to sum `index`, without any rounding. */
WEFT_API void weft_tally_add(weft_tally *tally, int64_t index, double value);
/** Count `index` so far; in `report`, that of all samples. */
WEFT_API int64_t weft_tally_counted(const weft_tally *tally, int64_t index);
/** Sum `index`, rounded to the nearest number. */
WEFT_API double weft_tally_sum(const weft_tally *tally, int64_t index);
/** Adds a copy of a row of `width` numbers. */
WEFT_API void weft_tally_row(weft_tally *tally, const double *row);
/** In `report` the rows of all batches and ranks, [*n,width], until it returns. They are sorted by the first
 * number, then by the second, and so on (-0 before 0, NaN at the ends): the same bits whatever the batch and
 * the world. In `batch` those of this rank so far.
 *
 * Every rank holds the rows of all, 8 bytes a number, in the trainer's memory until `report` returns, and up
 * to three times as much while they grow or are gathered. Without that memory the evaluation fails
 * (WEFT_MEMORY). */
WEFT_API const double *weft_tally_rows(const weft_tally *tally, int64_t *n);
/** Reports a metric: "NAME/PART", with the evaluator's name; NULL: "NAME". The
 * first 79 characters of both count. */
WEFT_API void weft_tally_report(weft_tally *tally, const char *part, double value);

/** A tensor of a batch, as an evaluator reads it. */
typedef struct weft_view {
    const char *name; /**< of the output or the input */
    weft_dtype dtype; /**< type of its elements */
    int ndim;         /**< number of axes */
    /** In this batch: the first axis of what has a row for each sample is the number of samples. */
    int64_t shape[WEFT_MAX_NDIM];
    const void *data;                 /**< row-major; NULL in `open` */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_view;

enum { WEFT_MAX_READS = 8 /**< tensors that an evaluator reads */ };

/** Functions, and what they work on. */
typedef struct weft_evaluator {
    /** Of its metric; no other evaluator or output of one number has it. Without functions it is why there is
     * no evaluator. weft_trainer_new() copies it and `reads`. */
    const char *name;
    /** What it reads, up to a NULL: an output of the graph, or else one of its inputs. */
    const char *reads[WEFT_MAX_READS];
    /** Called by weft_trainer_new(), once for each graph and size of a batch: checks types and shapes, and
     * says what the tally keeps, the same for all sizes. */
    weft_status (*open)(void *self, int64_t rows, const weft_view *reads, weft_tally_size *keeps,
                        weft_error *error);
    /** Adds the samples of a batch to the tally: reads[i] is the tensor reads[i]. Each rank has other
     * batches. */
    weft_status (*batch)(void *self, int64_t rows, const weft_view *reads, weft_tally *tally,
                         weft_error *error);
    /** Reports what follows from the tally of all batches and ranks, on every rank. */
    weft_status (*report)(void *self, weft_tally *tally, weft_error *error);
    void (*free)(void *self); /**< called once, by weft_trainer_free(); NULL: nothing to free */
    void *self;               /**< the first argument of all four */
    /** What it reports, so that a misspelt name is found before the first step: the parts, "" for the name
     * alone, up to a NULL. NULL: not known before. */
    const char *const *parts;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_evaluator;
/** @} */

/** @name Evaluators that Weft brings
 * Scores are f32 or f64 [N,C] or [N,C,...], as weft_cross_entropy() takes them; labels are u8, i32 or i64 of
 * the same shape without C. An element whose label is negative (-100, say) does not count; a label of C or
 * more is WEFT_DATA. An element with a score that is NaN has no class: it counts, and is wrong.
 * @{ */

/** "accuracy", or for k > 1 "accuracy_topK": how many of the labels have one of the k highest scores. Among
 * equal scores the first is higher. */
WEFT_API weft_evaluator weft_evaluator_accuracy(const char *scores, const char *label, int k);
/** The mean of an output with a row for each sample: the mean of a sample's elements, over samples. Its name
 * is `name`. */
WEFT_API weft_evaluator weft_evaluator_mean(const char *name, const char *output);
/** "mse": the mean squared difference of two tensors f32 or f64 of one shape, over all elements. */
WEFT_API weft_evaluator weft_evaluator_mse(const char *output, const char *target);
/** "psnr": 10 log10(range^2 / mse) of each sample, as a mean over samples. `range` is the width of the
 * numbers: 1, 2 or 255. A sample without any error makes it infinite. */
WEFT_API weft_evaluator weft_evaluator_psnr(const char *output, const char *target, double range);
/** The highest score against the label: "confusion/accuracy", and as means over the classes that occur, as a
 * label or a score, "confusion/precision", "/recall", "/f1" and "/iou" (the mean IoU). A class that is never
 * given has precision 0, one that never is a label recall 0. `matrix` (or NULL) becomes the matrix after each
 * evaluation: [C,C], a row for each label, without elements that have no class; it must outlive the
 * trainer. */
WEFT_API weft_evaluator weft_evaluator_confusion(const char *scores, const char *label, int64_t *matrix);
/** "perplexity": exp of the mean, over all tokens that count, of -log of the softmax of the label's score.
 * With `label` NULL, `scores` are these values themselves, of any shape, and all count. */
WEFT_API weft_evaluator weft_evaluator_perplexity(const char *scores, const char *label);
/** "auc": the area under the ROC curve of two classes, as scikit-learn's roc_auc_score: the part of all pairs
 * of a sample with label 1 and one with label 0 in which the first has the higher score. A pair of equal
 * scores counts half, and one with a NaN is wrong. Scores are f32 or f64 [N] or [N,1], or [N,2], one for
 * each class: then the second minus the first is the score. Labels are u8, i32, i64, f32 or f64, [N] or
 * [N,1], and 0 or 1, else WEFT_DATA; one that is negative does not count. Without samples of both classes
 * the area is NaN. A row of two numbers is kept for each sample (weft_tally_rows). */
WEFT_API weft_evaluator weft_evaluator_auc(const char *scores, const char *label);
/** "recall_at_K": retrieval by vectors, f32 or f64 [N,...], of one shape. Sample i of `a` is found when its
 * own vector of `b` is among the k with the highest dot products, over all N samples of the evaluation; the
 * number is the part of samples that are found. Among equal products its own is the last, so vectors that are
 * all alike find nothing. Where its own product is NaN it is not found; a NaN of another counts as higher.
 * With N <= k all but these are found. For the other direction exchange `a` and `b`, and set `name` of the
 * second evaluator.
 *
 * Every rank keeps both vectors of all samples (weft_tally_rows) and computes N^2 dot products in f64 on one
 * thread: 10,000 samples of 256 numbers took 10 s. */
WEFT_API weft_evaluator weft_evaluator_recall_at(const char *a, const char *b, int k);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
