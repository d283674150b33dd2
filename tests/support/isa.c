/* isa.c - see isa.h. */
#include "support/isa.h"

#include "graph/core/kernel.h"
#include "ops/cpu/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By weft_isa; what oneDNN reads in ONEDNN_MAX_CPU_ISA. It has no name for "only your reference": Weft's own
 * reference kernels do not call it. */
static const struct cap {
    const char *name, *onednn;
} caps[] = {
    [WEFT_ISA_REFERENCE] = {"reference", "SSE41"},
    [WEFT_ISA_SSE2] = {"sse2", "SSE41"},
    [WEFT_ISA_AVX2] = {"avx2", "AVX2"},
    [WEFT_ISA_AVX512] = {"avx512", NULL},
};
enum { CAPS = sizeof caps / sizeof *caps };

static weft_isa cap = WEFT_ISA_AVX512; /* set before main, then only read */

/* Before main: oneDNN reads its variable once. A variable that is set already stays. */
__attribute__((constructor)) static void read_cap(void) {
    const char *name = getenv("WEFT_TEST_ISA");
    if (!name || !*name) return;
    int i = WEFT_ISA_REFERENCE;
    while (i < CAPS && strcmp(caps[i].name, name)) i++;
    if (i == CAPS) {
        fprintf(stderr, "WEFT_TEST_ISA=%s: it must be reference, sse2, avx2 or avx512\n", name);
        exit(2);
    }
    cap = (weft_isa)i;
    setenv("WEFT_ISA", name, 0);
    if (caps[i].onednn) setenv("ONEDNN_MAX_CPU_ISA", caps[i].onednn, 0);
}

/* The linker's names (--wrap=isa_best): calls of isa_best arrive at the first, the library's own is the
 * second. */
weft_isa __wrap_isa_best(void);
weft_isa __real_isa_best(void);

weft_isa __wrap_isa_best(void) {
    weft_isa best = __real_isa_best();
    return best < cap ? best : cap;
}

weft_isa isa_within(weft_isa isa) {
    weft_isa best = isa_best();
    return isa < best ? isa : best;
}
