/* table.c - ops/cpu/list.h as an array that ends with NULL; within ALL the best instruction set comes
 * first. */
#include "graph/core/kernel.h"

#define ONE(name) extern const weft_kernel name;
#define ALL(name) ONE(name##_avx512) ONE(name##_avx2) ONE(name##_sse2)
#include "ops/cpu/list.h"
#undef ONE

const weft_kernel *const cpu_kernels[] = {
#define ONE(name) &name,
#include "ops/cpu/list.h"
#undef ONE
#undef ALL
    NULL,
};
