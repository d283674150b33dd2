/* isa.c - finds the best instruction set of this processor by cpuid. The library compiles every kernel of
 * ops/cpu/simd for each set, and selects one at compile time of a plan, so one binary runs everywhere. */
#include "graph/core/kernel.h"

/* AVX-512 counts only with the four parts that kernels are compiled for (-mavx512f, bw, vl, dq). */
weft_isa isa_best(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return WEFT_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return WEFT_ISA_AVX2;
    return WEFT_ISA_SSE2;
}

/* The name that dumps and `--isa` use; "?" for a number that is no set. */
const char *isa_name(weft_isa isa) {
    /* In the order of weft_isa. */
    static const char *const names[] = {"auto", "reference", "sse2", "avx2", "avx512"};
    return (unsigned)isa < sizeof names / sizeof *names ? names[isa] : "?";
}
