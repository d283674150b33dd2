/* isa.h - the instruction sets of the processor. */
#ifndef WEFT_OPS_CPU_ISA_H
#define WEFT_OPS_CPU_ISA_H

#include "weft/plan.h"

/* The instruction set that WEFT_ISA_AUTO stands for on this machine, and its name. */
weft_isa isa_best(void);
const char *isa_name(weft_isa isa);
extern const char *const isa_words[]; /* "auto", "reference" ..., in the order of weft_isa; NULL ends them */

#endif
