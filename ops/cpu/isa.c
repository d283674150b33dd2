/* isa.c - what depends on the processor: its instruction sets.
 *
 * The library has every kernel of ops/cpu/simd for each set and selects one when a plan is compiled, so one
 * binary runs on every x86-64. Another processor has one set, "plain": the same sources, vectorized by the
 * compiler for what every processor of its kind has; it takes the place of the lowest set, WEFT_ISA_SSE2.
 * CMakeLists.txt compiles the same list of sets. */
#include "ops/cpu/isa.h"

#ifdef __x86_64__

/* In the order of weft_isa; names of dumps and of --isa. */
const char *const isa_words[] = {"auto", "reference", "sse2", "avx2", "avx512", NULL};

/* By cpuid. AVX-512 counts only with the four parts that kernels are compiled for. */
weft_isa isa_best(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return WEFT_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return WEFT_ISA_AVX2;
    return WEFT_ISA_SSE2;
}

#else

const char *const isa_words[] = {"auto", "reference", "plain", "avx2", "avx512", NULL};

weft_isa isa_best(void) {
    return WEFT_ISA_SSE2;
}

#endif

/* "?" for a number that is not a set. */
const char *isa_name(weft_isa isa) {
    return (unsigned)isa <= WEFT_ISA_AVX512 ? isa_words[isa] : "?";
}
