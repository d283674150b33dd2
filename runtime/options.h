/* options.h - weft_compile's options are checked and filled in before the first pass. */
#ifndef WEFT_RUNTIME_OPTIONS_H
#define WEFT_RUNTIME_OPTIONS_H

#include "graph/core/graph.h"
#include "weft/plan.h"

/* WEFT_OK, or sets *error: an option is out of range, or no plan can be made from this model. */
weft_status compile_options_check(const weft_model *m, const weft_compile_options *o, weft_error *error);
/* WEFT_NAME: there is no pass, or strategy, of that name, with the nearest one and all `names` that there
 * are, up to a NULL; `more` ends the text. */
weft_status compile_no_name(const char *kind, const char *name, const char *const *names, const char *more,
                            weft_error *error);
/* Cores that this process may use, not those of the machine: containers and taskset limit them. */
int usable_cores(void);
/* A copy in which the defaults of this machine and this model replace zeros. */
weft_compile_options compile_options_filled(const weft_model *m, const weft_compile_options *o);

#endif
