/* routes.h - an op's sample as users train it: one operand is made from a parameter on some route (a permuted, sliced, cast
 * ... one), the result goes into a loss that is minimized by sgd with a learning rate of 1, so that a step subtracts
 * the gradient. The expected gradient is told by central differences in f64 of the graph as it stands (evaluate.h).
 *
 *     loss = s (sum(result c) + sum(q k))        s, c, k and the sample's other operands are inputs, q a second parameter
 */
#ifndef WEFT_TEST_ROUTES_H
#define WEFT_TEST_ROUTES_H

#include "support/sample.h"
#include "weft/weft.h"

typedef enum route {
    ROUTE_DIRECT,
    ROUTE_PERMUTED,  /* axes in reverse order */
    ROUTE_SLICED,    /* cut out of a longer axis */
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
    route way;
    weft_model *m;
    weft_graph *g; /* "t" */
    weft_value *p, *q, *loss;
    int n_feeds;
    weft_value *fed[ROUTE_INPUTS];
    tensor data[ROUTE_INPUTS]; /* row-major; of the first one, s, there is one for each micro-batch */
    tensor at;                 /* the parameter's first values */
    float q_at[3], k[3];
} trained;

/* false after a failed check. Free with trained_free, also then. */
bool trained_build(trained *t, const weft_op *op, const op_sample *spec, int operand, route way);
void trained_free(trained *t);

/* The gradient of the loss by p with s = 1, at `n` places spread over p; by this run's random numbers. */
typedef struct expected {
    int n;
    int64_t place[ROUTE_PLACES];
    double gradient[ROUTE_PLACES];
    double moved[ROUTE_PLACES]; /* how far disturbances of each result move it, over what they are relative to results */
    double most;                /* |gradient|, over these places */
} expected;
bool trained_differences(const trained *t, const run_state *run, expected *to);
/* Adds to to->moved what `n` disturbances of this size move, of numbers `first` and up. */
bool trained_disturb(const trained *t, const run_state *run, double by, int first, int n, expected *to);
/* The same places' gradients when one element of the op's result, a term of the loss, is lost. */
bool trained_lose(const trained *t, const run_state *run, int64_t element, expected *to);
int64_t trained_terms(const trained *t); /* how many elements there are */

#endif
