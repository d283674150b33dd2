/* accuracy.h - `bench --check-accuracy`: results and gradients of the first step beside the same graph run in
 * f64 (wide.h), with the same parameters, batch and random numbers. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_ACCURACY_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_ACCURACY_H

#include "tools/graphtool/bench/difference.h"
#include "tools/graphtool/training/workload.h"

/* For each graph of the workload's flow its outputs and the gradients of its parameters, as "accuracy" in
 * docs/graphtool.md. */
json_t *accuracy_json(const weft_model *m, const options *o, const workload *w);
/* One line for each graph of such JSON. */
void accuracy_print(const json_t *accuracy);

#endif
