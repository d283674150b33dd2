/* weight_norms.h - the weight of a layer by its parametrization. */
#ifndef WEFT_OPS_WEIGHT_NORMS_H
#define WEFT_OPS_WEIGHT_NORMS_H

#include "graph/core/graph.h"
#include "weft/layers.h"

/* The parameter `weight`, or what it is computed from and its value. `axis` is that of the weight's
 * outputs. */
weft_value *layer_weight(weft_value *x, int ndim, const int64_t *shape, const weft_init *said,
                         weft_init otherwise, weft_parametrization form, int axis);

#endif
