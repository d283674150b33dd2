/* examine.h - what is found while a bad step runs again. */
#ifndef WEFT_RUNTIME_SESSION_EXAMINE_H
#define WEFT_RUNTIME_SESSION_EXAMINE_H

#include "runtime/session/state.h"

/* Numbers of one tensor. min, max and mean are of its finite elements. */
typedef struct tally {
    int64_t n, nans, infinities;
    double min, max, mean;
} tally;

/* A step's place in the report: NULL text: none was found. */
typedef struct finding {
    text text;
    bool is_there;
} finding;

enum { HEADLINE = 300 };

typedef struct examination {
    weft_session *session;
    const double *flags;   /* of the step's gate: which losses are bad */
    bool judges_gradients; /* the gate reads norms; in f16 it does not, as gradients may overflow */
    bool *on_way;          /* by order of a node: a bad loss is computed from it */
    size_t room;           /* length of on_way */
    tally *before;         /* of the operands of the step that runs */
    size_t n_before;
    int64_t micro; /* of this rank */
    int64_t first; /* that of the headline, or of the first finding; -1: there is neither */
    int64_t row;   /* of its inputs, along axis 0, where the finding is in one; -1: unknown */
    int order;     /* of the node of the first finding in micro-batch `first`; -1: there is none */
    /* the losses, a line each; the first result that is NaN of operands that are not, or value that its
     * kernel does not take; the first infinite result of finite operands */
    text losses;
    finding nan, infinity;
    char headline[HEADLINE]; /* of the first bad loss or value; "": none on this rank */
    weft_error error;        /* of memory, or of the device: what was found is not all */
} examination;

/* last: the program that ended the step; flags: of its gate. Call examine_close after a failure, too. */
weft_status examine_open(examination *e, weft_session *s, const bound_program *last, const double *flags,
                         weft_error *error);
void examine_close(examination *e);
/* Before a program runs again: which of its nodes lead to a bad loss. */
void examine_program(examination *e, const bound_program *r);

#endif
