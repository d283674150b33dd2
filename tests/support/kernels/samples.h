/* samples.h - iterates over the samples of ops with random operands: in f32, in bf16 and f16, and pointwise
 * ops at all sizes and broadcasts. The caller provides the check of each node. */
#ifndef WEFT_TEST_SAMPLES_H
#define WEFT_TEST_SAMPLES_H

#include "ops/catalog/catalog.h"
#include "support/kernels/sample.h"

/* Whether the suites of ops are to test this op: one of WEFT_TEST_OPS=relu,add,...
 * (tests/ops/kernel_mutants.py), or any op where that is not set. */
bool samples_are_of(const weft_op *op);
bool samples_are_all(void);

#define EACH_SAMPLE(op, s)                                                                                   \
    for (int op##_index = 0; op##_index < op_count(); op##_index++)                                          \
        for (const weft_op *op = op_at(op##_index), *op##_once = samples_are_of(op) ? op : NULL; op##_once;  \
             op##_once = NULL)                                                                               \
            for (const op_sample *s = op->samples; s && s->in; s++)

/* `data`: the node's operands, row-major; `what` names the node in messages. */
typedef void node_check(weft_node *n, const char *what, const tensor *data);

void sample_describe(const op_sample *s, const weft_op *op, char text[600]);
/* Checks the sample's node on random operands; does nothing if it cannot be built. */
void sample_check(const weft_op *op, const op_sample *spec, node_check *check);
/* Checks what the precision pass makes of it for `reduced`. */
void sample_check_reduced(const weft_op *op, const op_sample *spec, weft_dtype reduced, bool wide,
                          node_check *check);
/* Checks all samples that have no error. */
void samples_check(node_check *check);
/* Checks what the precision pass makes of them, for both reduced types, and the results' types. With
 * `in_turn`, where a case costs much, each sample meets one of the two, by the seed of the run. */
void samples_check_reduced(node_check *check, bool in_turn);
/* Checks pointwise ops at more sizes than their samples have: lengths around the vector and the tile, and all
 * kinds of broadcasting, in f32 and bf16. With `in_turn`, where a case costs a compilation, an op meets two
 * of the eight in each, or one in short runs. */
void samples_check_sizes(node_check *check, bool in_turn);

#endif
