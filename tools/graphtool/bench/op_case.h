/* op_case.h - one call of an op, by which `bench --op` makes a graph: read from text, or made of a sample. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_OP_CASE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_OP_CASE_H

#include "tools/graphtool/model/tools.h"

#include "graph/core/op.h"

enum { OP_CASE_IN = 64 };

typedef struct op_case {
    const weft_op *op;
    const char *attrs; /* as in dumps */
    int n_in;
    tensor_type in[OP_CASE_IN]; /* ndim below 0: an operand that is left out */
} op_case;

/* Reads "conv2d(f32[8,64,28,28], f32[64,64,3,3]) out=64 kernel=3,3 ..." as `bench --profile` prints it; its
 * " in SCOPE" is passed over. Ends the command where it is wrong. */
op_case op_case_read(const char *text);
/* The op's first good sample, with all axes multiplied by one number as long as the operands have at most 16
 * MiB, else the first axis alone, else as it is. False: it has none, or cannot run alone. */
bool op_case_of(const weft_op *op, op_case *c);
/* It again. */
const char *op_case_text(const op_case *c);

/* A model with graph "op": inputs in0, in1, ..., the node, and its results as outputs. NULL: tool_why says
 * why. Free it with weft_model_free(). */
weft_model *op_case_model(const op_case *c);
/* Fills an operand with numbers of the range that the op's samples have. */
void op_case_fill(const op_case *c, int operand, void *data);

#endif
