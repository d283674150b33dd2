/* own_op.h - ops of a program (include/weft/op.h): each becomes a weft_op, which the engine takes as its own.
 *
 * A set owns its ops, and outlives all that uses them. So two models of one set have the same weft_op, and a
 * node can be repeated in the compiler's copy of a model like any other. */
#ifndef WEFT_GRAPH_CORE_OWN_OP_H
#define WEFT_GRAPH_CORE_OWN_OP_H

#include "graph/core/graph.h"
#include "weft/op.h"

typedef struct own_op {
    weft_op op;            /* its `own` is this */
    weft_op_definition is; /* texts are the set's */
    op_attr attrs[2 * WEFT_MAX_OP_NUMBERS + 1];
    struct own_op *next; /* in the order of definition */
} own_op;

struct weft_op_set {
    weft_env env;
    arena arena;
    own_op *first, **end;
    bool shows_others; /* files may have calls of ops that nobody defines: see own_stand_in */
};
/* For a program that shows any model. */
extern const weft_op_set own_ops_shown;

/* In the place of an op that nobody defines: it has a name, operands and attributes (up to one without a
 * name, whose offsets are filled in), and nodes that node_new_typed makes. Its infer fails, so that it cannot
 * be compiled. NULL after the model's error. */
const weft_op *own_stand_in(weft_model *m, const char *name, int n_operands, const op_attr *attrs);

/* The attributes of a node of such an op: the numbers that its definition names, in their order. */
typedef struct own_attrs {
    double reals[WEFT_MAX_OP_NUMBERS];
    int64_t integers[WEFT_MAX_OP_NUMBERS];
} own_attrs;

enum { OWN_NUMBER_BYTES = sizeof(double) };
_Static_assert(sizeof(double) == sizeof(int64_t), "numbers of both kinds are copied alike");

/* A number that a definition or a call gives: its name and its value, of OWN_NUMBER_BYTES. */
typedef struct own_number {
    const char **name;
    attr_kind kind; /* ATTR_REAL or ATTR_INT */
    size_t offset;  /* of a definition's number in own_attrs; a call's is found by its name */
    const void *value;
} own_number;
/* The numbers of *n, in order; how many. The list points into *n. */
int own_numbers(weft_op_numbers *n, own_number list[2 * WEFT_MAX_OP_NUMBERS]);

/* The numbers of the definition into attributes that are zeros: what a call, a text or a file does not say.
 * */
void own_defaults(const own_op *o, void *attrs);

enum { OWN_NAME = 40 /* most characters of the name of an op, or of a number */ };

/* What a weft_op of a definition has for functions (graph/core/own_call.c). */
bool own_infer(op_call *c);
void own_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din);
weft_status own_kernel(const kernel_call *c);

#endif
