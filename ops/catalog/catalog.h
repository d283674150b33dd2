/* catalog.h - the ops, kernels and optimizers that there are. */
#ifndef WEFT_OPS_CATALOG_CATALOG_H
#define WEFT_OPS_CATALOG_CATALOG_H

#include "graph/core/kernel.h"
#include "graph/settings/minimize.h"

/* Of every model that a program makes or reads. */
extern const op_catalog weft_catalog;
/* Its parts, which end with NULL: ops/cpu/list.h, ops/cuda/list.h, ops/optimizer/list.h. */
extern const weft_kernel *const cpu_kernels[], *const cuda_kernels[];
extern const optimizer_kind *const optimizer_kinds[];

/* The ops of ops/list.h, in its order; NULL past the end. */
int op_count(void);
const weft_op *op_at(int index);

#endif
