/* simd.h - for the sources of this folder, each compiled once per instruction set (sse2, avx2, avx512): names
 * that differ by it. Plain C loops that the compiler vectorizes; no dispatch in here: each compilation defines
 * whole kernels, `const weft_kernel SIMD(name)`, and ops/cpu/list.h names them with ALL(name). */
#ifndef WEFT_OPS_CPU_SIMD_SIMD_H
#define WEFT_OPS_CPU_SIMD_SIMD_H

#include "graph/core/kernel.h"

#define SIMD_PASTE_(name, isa) name##_##isa
#define SIMD_PASTE(name, isa)  SIMD_PASTE_(name, isa)
#define SIMD(name)             SIMD_PASTE(name, SIMD_ISA)

#define SIMD_TEXT_(isa) #isa
#define SIMD_TEXT(isa)  SIMD_TEXT_(isa)
#define SIMD_NAME       SIMD_TEXT(SIMD_ISA) /* "avx2": the kernel's name in dumps */

#define SIMD_LEVEL_sse2   WEFT_ISA_SSE2
#define SIMD_LEVEL_avx2   WEFT_ISA_AVX2
#define SIMD_LEVEL_avx512 WEFT_ISA_AVX512
#define SIMD_LEVEL        SIMD_PASTE(SIMD_LEVEL, SIMD_ISA)

#endif
