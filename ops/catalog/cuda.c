/* cuda.c - ops/cuda/list.h as an array that ends with NULL. */
#include "ops/catalog/catalog.h"
#include "ops/cuda/cuda.h"

const weft_kernel *const cuda_kernels[] = {
#define RUN(name)  &cuda_##name,
#define OPEN(name) RUN(name)
#include "ops/cuda/list.h"
#undef RUN
#undef OPEN
    NULL,
};
