/* wide.h - runs a graph node by node by the reference kernels, with every floating-point value held as f64,
 * whatever type it has: what the graph means, nearly without rounding. Slow. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_WIDE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_WIDE_H

#include "tools/graphtool/bench/difference.h"

#include "graph/core/graph.h"

typedef struct wide wide;

/* For a graph whose values have no layouts yet. The memory of a value is freed after its last reader. */
wide *wide_new(const weft_graph *g, int threads, uint64_t seed);
void wide_free(wide *w);
/* Except for values that are read after the run. */
void wide_keep(wide *w, const weft_value *v);
/* Copies elements of the variable's or value's own type, row-major. */
void wide_set_variable(wide *w, const weft_variable *v, const void *data);
void wide_set_input(wide *w, const weft_value *v, const void *data);
/* The first run of the graph in a training. */
weft_status wide_run(wide *w, weft_error *error);
/* How far row-major elements of that type are from a kept value. */
difference wide_difference(const wide *w, const weft_value *v, weft_dtype dtype, const void *data);

#endif
