/* options.h - the options of weft_compile, before the first pass. */
#ifndef WEFT_RUNTIME_OPTIONS_H
#define WEFT_RUNTIME_OPTIONS_H

#include "graph/core/graph.h"
#include "weft/plan.h"

/* WEFT_OK, or what is wrong with the options, or with a model that no plan can be made of. */
weft_status compile_options_check(const weft_model *m, const weft_compile_options *o, weft_error *error);
/* A copy with this machine's and this model's defaults in the place of zeros. */
weft_compile_options compile_options_filled(const weft_model *m, const weft_compile_options *o);

#endif
