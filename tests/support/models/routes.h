/* routes.h - trains an op's sample as users would: one operand is made from a parameter by some route
 * (permuted, sliced, cast ...), and the result goes into a loss that is minimized by sgd with a learning rate
 * of 1, so that a step subtracts the gradient. The expected gradient comes from central differences in f64 of
 * the graph as written (evaluate.h).
 *
 *     loss = s (sum(result c) + sum(q k))
 *
 * where s, c, k and the sample's other operands are inputs, and q is a second parameter. */
#ifndef WEFT_TEST_ROUTES_H
#define WEFT_TEST_ROUTES_H

#include "support/kernels/sample.h"
#include "weft/weft.h"

typedef enum route {
    ROUTE_DIRECT,
    ROUTE_PERMUTED,  /* axes in reverse order */
    ROUTE_SLICED,    /* a slice of a longer axis */
    ROUTE_BROADCAST, /* along the longest axis */
    ROUTE_RESHAPED,  /* from one axis */
    ROUTE_CAST,      /* to f64 and back */
    ROUTE_TWICE,     /* directly, and permuted in a second term of the loss: sum(permuted d) s */
    ROUTES,
} route;
extern const char *const route_names[ROUTES];

/* Why operand `i` of a sample cannot be trained on a route; NULL: it can. */
const char *op_untrained(const weft_op *op);
const char *sample_untrained(const weft_op *op, const op_sample *spec, int i);
const char *route_missing(route way, const tensor_type *operand);

enum { ROUTE_PLACES = 12, ROUTE_INPUTS = SAMPLE_MAX_IN + 4 };

typedef struct trained {
    char what[700];
    const weft_op *op;
    const op_sample *spec;
    int operand;
    route way;
    weft_model *m;
    weft_graph *g; /* "t" */
    weft_value *p, *q, *loss;
    int n_feeds;
    weft_value *fed[ROUTE_INPUTS];
    tensor data[ROUTE_INPUTS]; /* row-major; the first one, s, has a value for each micro-batch */
    tensor at;                 /* the parameter's initial values */
    float q_at[3], k[3];
} trained;

/* False after a failed check. Free with trained_free in either case. */
bool trained_build(trained *t, const weft_op *op, const op_sample *spec, int operand, route way);
void trained_free(trained *t);

/* The gradient of the loss with respect to p with s = 1, at `n` places spread over p, with this run's random
 * numbers; NaN where there is no gradient. */
typedef struct expected {
    int n;
    int64_t place[ROUTE_PLACES];
    double gradient[ROUTE_PLACES];
    /* how far disturbances of each result move it, divided by their size relative to the results */
    double moved[ROUTE_PLACES];
    double most; /* largest |gradient| of these places */
} expected;
bool trained_differences(const trained *t, const run_state *run, expected *to);
/* Adds the effect of `n` disturbances of size `by`, numbers `first` and up, to to->moved. */
bool trained_disturb(const trained *t, const run_state *run, double by, int first, int n, expected *to);
/* Adds the effect of the same disturbances on the nodes that make the gradient, from their operands on: terms
 * that cancel in it (a softmax's, say) are rounded there, which no difference of losses shows. */
bool trained_disturb_backward(const trained *t, const run_state *run, double by, int n, expected *to);
/* The gradients at the same places when one element of the op's result, a term of the loss, is left out. */
bool trained_lose(const trained *t, const run_state *run, int64_t element, expected *to);
int64_t trained_terms(const trained *t); /* number of such elements */

#endif
