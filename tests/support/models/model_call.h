/* model_call.h - a node of a case (model_case.h) as a call of a public builder. */
#ifndef WEFT_TEST_MODEL_CALL_H
#define WEFT_TEST_MODEL_CALL_H

#include "weft/weft.h"

#include <jansson.h>

enum { MOST_IN = 64, MOST_NUMBERS = 40, MOST_REALS = 800 };

/* A node being built. Operands, integers and reals mean what the op's line in model_call.c makes of them. */
typedef struct call {
    weft_graph *graph;
    const char *op, *name;
    const json_t *options; /* by the names of the fields of the builder's options */
    int n, n_i, n_r;
    weft_value *in[MOST_IN];
    int64_t i[MOST_NUMBERS];
    double r[MOST_REALS];
    weft_value *more[MOST_IN]; /* of gradients, which has several results */
} call;

/* Calls the builder that bears the name of the op. Ends the program when there is none. */
weft_value *call_build(call *c);

/* Ends the program with a line on what is wrong with the case. */
_Noreturn void call_stop(const char *what, const char *name);

#endif
