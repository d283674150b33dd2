/* samples.h - walks over the samples of ops, with random operands: in f32, in bf16 and f16, and pointwise ops at all sizes
 * and broadcasts. What is checked of each node is the caller's. */
#ifndef WEFT_TEST_SAMPLES_H
#define WEFT_TEST_SAMPLES_H

#include "support/sample.h"

#define EACH_SAMPLE(op, s)                                                                                   \
    for (int op##_index = 0; op##_index < op_count(); op##_index++)                                          \
        for (const weft_op *op = op_at(op##_index), *op##_once = op; op##_once; op##_once = NULL)            \
            for (const op_sample *s = op->samples; s && s->in; s++)

/* `data`: the node's operands, row-major; `what` names the node in messages. */
typedef void node_check(weft_node *n, const char *what, const tensor *data);

void sample_describe(const op_sample *s, const weft_op *op, char text[600]);
/* The sample's node on random operands; nothing where it cannot be made. */
void sample_check(const weft_op *op, const op_sample *spec, node_check *check);
/* What the precision pass makes of it for `reduced`. */
void sample_check_reduced(const weft_op *op, const op_sample *spec, weft_dtype reduced, bool wide,
                          node_check *check);
/* All good samples that say no error. */
void samples_check(node_check *check);
/* What the precision pass makes of them, for both reduced types; checks the results' types too. */
void samples_check_reduced(node_check *check);
/* Samples of pointwise ops are small; the tiles of their kernels want more: lengths around the vector and the tile, all
 * kinds of broadcasting; in f32 and in bf16. With `in_turn`, where a case costs a compilation, an op meets two of the eight in each. */
void samples_check_sizes(node_check *check, bool in_turn);

#endif
