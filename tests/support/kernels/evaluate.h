/* evaluate.h - runs a graph node by node with the reference kernels: the tests' own, independent executor.
 *
 * Every value and every variable has row-major memory of its own; nothing is shared, moved or reused.
 * Parameters are read at the start of a run, state at its node. With `wide`, f32 values are held as f64,
 * which gives the same graph's result nearly without rounding. */
#ifndef WEFT_TEST_EVALUATE_H
#define WEFT_TEST_EVALUATE_H

#include "graph/core/graph.h"

typedef struct evaluation evaluation;
evaluation *evaluate_new(const weft_graph *g, bool wide);
void evaluate_free(evaluation *e);
/* One run of all nodes, without the effect of minimize. run may be NULL: zeroes. */
weft_status evaluate_run(evaluation *e, const run_state *run, weft_error *error);

/* From now on each float that a node computes is multiplied by a factor in [1 - by, 1 + by], as rounding to a
 * reduced type might do. The factors are the same in each run, drawn from `seed`. by = 0 ends this. */
void evaluate_disturb(evaluation *e, double by, uint64_t seed);

/* Elements of values by row-major index. The caller sets the inputs before a run. */
tensor evaluate_tensor(const evaluation *e, const weft_value *v);
double evaluate_get(const evaluation *e, const weft_value *v, int64_t i);
void evaluate_set(evaluation *e, const weft_value *v, int64_t i, double value);
/* Memory of a variable; members of a bucket are in the bucket's. */
tensor evaluate_variable(const evaluation *e, const weft_variable *v);

/* Element i in row-major order of a tensor with any strides. */
double tensor_get(const tensor *t, int64_t i);
void tensor_set(const tensor *t, int64_t i, double value);

#endif
