/* differences.h - runs a graph as the user wrote it by naive.h, where `gradients` are central differences:
 * the named value itself is moved, element by element, and everything after it is computed again. So a
 * gradient with respect to any value, also one that equals another, has the documented meaning, independent
 * of all passes. Nested gradients work, up to three deep. */
#ifndef WEFT_TEST_DIFFERENCES_H
#define WEFT_TEST_DIFFERENCES_H

#include "graph/core/graph.h"

typedef struct differences differences;
differences *differences_new(const weft_graph *g);
void differences_free(differences *d);
/* A value's elements, row-major; the caller fills the inputs before a run. */
double *differences_at(const differences *d, const weft_value *v);
/* Runs all nodes; false: naive.h does not know an op. */
bool differences_run(differences *d);

#endif
