/** @file
 * collectives.h - ops over ranks: sums, gathers and broadcasts of values within a graph.
 *
 * They are ops like others: of any graph (training, evaluation, assigning), with gradients, and in a world of
 * one rank they return their operand. A graph does not know its world when it is built: shapes are those of
 * one rank until weft_compile() binds the world, as it binds the batch. So write -1 for a length that a
 * gather multiplies, not a number from weft_dim().
 *
 *     weft_value *all = weft_all_gather(features, 0, NULL);            // [B, D] -> [world B, D]
 *     weft_value *logits = weft_matmul(queries, all, false, true);     // [B, world B]
 *     weft_value *loss = weft_cross_entropy(logits, weft_rank_rows(queries, NULL), NULL);
 *     weft_value *centre = weft_all_reduce(mean, WEFT_RANKS_MEAN, NULL);
 *
 * A collective of a training graph sees this micro-batch of all ranks: w ranks train as one rank with w times
 * the batch (to rounding), not as one that accumulates w micro-batches; the plan has a note that says so. All
 * ranks must run the graph equally often; their collectives are in one order, which the compiler proves.
 *
 * Gradients are those of torch.distributed.nn.functional: ranks together minimize the mean of their losses,
 * so the gradient by an operand is summed over all ranks that its value reached. Sums are added in the
 * order of the ranks, and have the same bits on all of them.
 *
 * `group` is NULL for all ranks, or process groups as in weft_ddp_options.process_group: "0-3;4-7"; a rank
 * takes part in its own group, and one that is not named is a group of its own. It is copied. A group that is
 * not such a text is WEFT_ARGUMENT, at once; one that does not fit the world, when the plan is made.
 */
#ifndef WEFT_COLLECTIVES_H
#define WEFT_COLLECTIVES_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How the values of all ranks become one. */
typedef enum weft_over_ranks {
    WEFT_RANKS_SUM = 0,  /**< their sum */
    WEFT_RANKS_MEAN = 1, /**< their mean; not of integers */
    WEFT_RANKS_MAX = 2,  /**< the largest, element by element; the gradient is shared by equal ones */
    WEFT_RANKS_MIN = 3,  /**< the smallest */
} weft_over_ranks;

/** x of all ranks, added or compared element by element; of x's type and shape, equal on all ranks. Sums of
 * floating-point values take scratch of x's size; WEFT_RANKS_MAX and WEFT_RANKS_MIN, and sums of integers,
 * gather all values first, which takes the memory of x times the number of ranks, an axis more than x's, and
 * groups of one size. f16 is added in f32. Within
 * weft_distribution.gradient (strategy.h) sums and means are over the ranks that share the bucket. */
WEFT_API weft_value *weft_all_reduce(weft_value *x, weft_over_ranks how, const char *group);
/** x of all ranks, in their order along `axis` (negative: from the last): [B, D] becomes [ranks B, D]. A
 * value without axes becomes [ranks]. Groups must be of one size. Any element type. */
WEFT_API weft_value *weft_all_gather(weft_value *x, int axis, const char *group);
/** The sum or the mean of x over the ranks, cut along `axis` into equal parts, of which each rank gets its
 * own: [ranks B, D] becomes [B, D]. The length must be a multiple of the number of ranks, whose groups
 * must be of one size. Floating-point values. */
WEFT_API weft_value *weft_reduce_scatter(weft_value *x, int axis, weft_over_ranks how, const char *group);
/** x of the rank whose place in its group is `root`, from 0. A gradient flows to the root alone, the sum over
 * the ranks. Any element type; groups must be of one size. */
WEFT_API weft_value *weft_broadcast(weft_value *x, int root, const char *group);
/** The place of this rank in its group, i64[], from 0. */
WEFT_API weft_value *weft_rank(weft_graph *graph, const char *group);
/** The number of ranks of its group, i64[]; groups must be of one size. */
WEFT_API weft_value *weft_world(weft_graph *graph, const char *group);
/** The places that rows of x[B, ...] have in weft_all_gather(x, 0, group): i64[B], on rank r r B to (r +
 * 1) B - 1. They are the labels where each row's match is at its own place. Groups must be of one size. */
WEFT_API weft_value *weft_rank_rows(weft_value *x, const char *group);

#ifdef __cplusplus
}
#endif
#endif
