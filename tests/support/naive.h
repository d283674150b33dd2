/* naive.h - what ops mean, once more: plain loops over logical elements in double, row-major, written from the
 * documentation. No kernel, no stride, no view and nothing else of ops/ but the structs of attributes, so that a mistake
 * there is no mistake here. */
#ifndef WEFT_TEST_NAIVE_H
#define WEFT_TEST_NAIVE_H

#include "graph/graph.h"

/* Elements of one value, row-major. */
typedef struct naive {
    tensor_type type;
    double *v;
} naive;

/* in[i].v NULL: left out. Fills out[k].v, which have room; false: the op is not known here. */
bool naive_run(const weft_node *n, const naive *in, const naive *out);

#endif
