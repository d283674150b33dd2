/* evaluate.h - runs a graph node by node with the reference kernels: the tests' own, independent executor.
 *
 * Every value has row-major memory of its own, every variable too; nothing is shared, moved or reused.
 * Parameters are read at the start of a run, state where its node stands. With `wide`, f32 values are held as
 * f64, which gives the same graph's answer nearly without rounding.
 */
#ifndef WEFT_TEST_EVALUATE_H
#define WEFT_TEST_EVALUATE_H

#include "graph/core/graph.h"

typedef struct evaluation evaluation;
evaluation *evaluate_new(const weft_graph *g, bool wide);
void evaluate_free(evaluation *e);
/* One run of all nodes, without what minimize does. run may be NULL: zeroes. */
weft_status evaluate_run(evaluation *e, const run_state *run, weft_error *error);

/* From now on each float that a node makes is multiplied by 1 - by to 1 + by, as rounding to a reduced type might; the same
 * factors in each run, drawn from `seed`. by = 0: no more. */
void evaluate_disturb(evaluation *e, double by, uint64_t seed);

/* Values by number of element, row-major. Inputs are set before a run. */
tensor evaluate_tensor(const evaluation *e, const weft_value *v);
double evaluate_get(const evaluation *e, const weft_value *v, int64_t i);
void evaluate_set(evaluation *e, const weft_value *v, int64_t i, double value);
/* Memory of a variable; members of a bucket lie in the bucket's. */
tensor evaluate_variable(const evaluation *e, const weft_variable *v);

/* Element i in row-major order of any tensor. */
double tensor_get(const tensor *t, int64_t i);
void tensor_set(const tensor *t, int64_t i, double value);

#endif
