/* differences.h - a graph of the user's as it stands, run by naive.h, where `gradients` are central differences: the value
 * that is named is moved itself, element by element, and what comes after it is computed anew. So a gradient by any value,
 * also by one that equals another, is what the user reads, and knows nothing of passes. Nested ones work, up to three deep.
 */
#ifndef WEFT_TEST_DIFFERENCES_H
#define WEFT_TEST_DIFFERENCES_H

#include "graph/core/graph.h"

typedef struct differences differences;
differences *differences_new(const weft_graph *g);
void differences_free(differences *d);
/* A value's elements, row-major: inputs are filled before a run. */
double *differences_at(const differences *d, const weft_value *v);
/* All nodes; false: an op is not known to naive.h. */
bool differences_run(differences *d);

#endif
