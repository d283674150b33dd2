/* isa.h - WEFT_TEST_ISA=reference|sse2|avx2|avx512 caps this processor for the tests: no program that links
 * this folder, and no graphtool that it starts, finds a higher instruction set, and neither does oneDNN.
 *
 * The library reads no variable. It asks isa_best() what the processor has, and CMakeLists.txt links each
 * test so that isa.c answers. Whatever a test expects of a processor it asks there too. */
#ifndef WEFT_TEST_ISA_H
#define WEFT_TEST_ISA_H

#include "weft/plan.h"

/* `isa`, or the best one if that is lower. */
weft_isa isa_within(weft_isa isa);

#endif
