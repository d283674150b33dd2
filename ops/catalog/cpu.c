/* cpu.c - ops/cpu/list.h as an array of kernels for the instruction sets of ops/cpu/isa.c; NULL ends it. For
 * each of ALL the best set comes first. */
#include "ops/catalog/catalog.h"

#define ONE(name) extern const weft_kernel name;
#ifdef __x86_64__
#define ALL(name) ONE(name##_avx512) ONE(name##_avx2) ONE(name##_sse2)
#else
#define ALL(name) ONE(name##_plain)
#endif
#include "ops/cpu/list.h"
#undef ONE

const weft_kernel *const cpu_kernels[] = {
#define ONE(name) &name,
#include "ops/cpu/list.h"
#undef ONE
#undef ALL
    NULL,
};
