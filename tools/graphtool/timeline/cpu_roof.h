/* cpu_roof.h - the roof of this processor, measured: no table has those of CPUs, and other programs take a
 * part of it. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_CPU_ROOF_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_CPU_ROOF_H

#include "ops/roof.h"
#include "tools/graphtool/model/tools.h"

/* Times a product of 1024 x 1024 matrices and a sum of arrays that fit into no cache, with the threads,
 * instruction set and type of `like`: the best of some runs, in about a second. False: there is no memory for
 * it (300 MiB). */
bool cpu_roof(const weft_compile_options *like, roof *r);

#endif
