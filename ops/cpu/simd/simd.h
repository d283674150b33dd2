/* simd.h - names for the sources of this folder. Each source is compiled once for each instruction set (sse2,
 * avx2, avx512) and defines whole kernels, `const weft_kernel SIMD(name)`, so there is no dispatch in here;
 * ops/cpu/list.h names them all with ALL(name). The loops are plain C that the compiler vectorizes. */
#ifndef WEFT_OPS_CPU_SIMD_SIMD_H
#define WEFT_OPS_CPU_SIMD_SIMD_H

#include "graph/core/kernel.h"

#define SIMD_PASTE_(name, isa) name##_##isa
#define SIMD_PASTE(name, isa)  SIMD_PASTE_(name, isa)
#define SIMD(name)             SIMD_PASTE(name, SIMD_ISA) /* name_avx2 */

#define SIMD_TEXT_(isa) #isa
#define SIMD_TEXT(isa)  SIMD_TEXT_(isa)
#define SIMD_NAME       SIMD_TEXT(SIMD_ISA) /* "avx2": the kernel's name in dumps */

#define SIMD_LEVEL_plain  WEFT_ISA_SSE2
#define SIMD_LEVEL_sse2   WEFT_ISA_SSE2
#define SIMD_LEVEL_avx2   WEFT_ISA_AVX2
#define SIMD_LEVEL_avx512 WEFT_ISA_AVX512
#define SIMD_LEVEL        SIMD_PASTE(SIMD_LEVEL, SIMD_ISA) /* WEFT_ISA_AVX2: the kernel's min_isa */

/* Before a loop, in each compiler's words. SIMD_INDEPENDENT: no iteration reads what another wrote.
 * SIMD_UNROLL: the loop has at most 12 iterations, a constant number after inlining, and becomes code without
 * a loop, so that the arrays that it indexes are registers. */
#ifdef __clang__
#define SIMD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define SIMD_UNROLL      _Pragma("clang loop unroll(full)")
#else
#define SIMD_INDEPENDENT _Pragma("GCC ivdep")
#define SIMD_UNROLL      _Pragma("GCC unroll 12")
#endif

/* The row of the kernel NAME of op OF; its other fields come last. */
#define SIMD_KERNEL_OF(NAME, OF, ...)                                                                        \
    const weft_kernel SIMD(NAME) = {                                                                         \
        .name = SIMD_NAME, .op = &weft_op_##OF, .min_isa = SIMD_LEVEL, __VA_ARGS__}
#define SIMD_KERNEL(OF, ...) SIMD_KERNEL_OF(OF, OF, __VA_ARGS__)

/* Reasons to decline that kernels share. */
static inline const char *declines_rows(const weft_node *n, const kernel_env *env) {
    return n->in[0]->type.dtype == WEFT_F32 || dtype_is_reduced(n->in[0]->type.dtype)
               ? NULL
               : "not f32, bf16 or f16";
}
static inline const char *declines_all_but_f32(const weft_node *n, const kernel_env *env) {
    return n->in[0]->type.dtype == WEFT_F32 ? NULL : "not f32";
}

#endif
