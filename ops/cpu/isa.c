/* isa.c - which instruction set this processor has. */
#include "graph/core/kernel.h"

weft_isa isa_best(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return WEFT_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return WEFT_ISA_AVX2;
    return WEFT_ISA_SSE2;
}

const char *isa_name(weft_isa isa) {
    static const char *const names[] = {"auto", "reference", "sse2", "avx2", "avx512"};
    return (unsigned)isa < sizeof names / sizeof *names ? names[isa] : "?";
}
