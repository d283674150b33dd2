/* calibration.h - tables of measured choices: which of a library's algorithms runs a node, by the node's
 * signature.
 *
 *     weft calibration 1
 *     # any comment: the GPU and the library's version it was made on
 *     matmul(bf16[8,64], bf16[80,64]) transpose_b=1 -> id=66 tile=20 stages=36
 *
 * `graphtool calibrate` writes tables, kernels look up their node when a session opens, and the fingerprint
 * of a plan covers the whole text. A choice is a hint: where the present library no longer has it, or it does
 * not fit the session's rules, the library's own first choice is taken. */
#ifndef WEFT_OPS_CALIBRATION_H
#define WEFT_OPS_CALIBRATION_H

#include "graph/core/graph.h"
#include "graph/core/kernel.h"

typedef struct calibration calibration;

/* What measuring the ways of one node found (weft_kernel.tune). */
typedef struct tuned {
    text choice;       /* the fastest way, in the form of tables */
    double ms;         /* of one call of it */
    int ways, dropped; /* ways that ran; of these, those that were timed by one call only */
    text skipped;      /* ways that the session's rules exclude: "2 nondeterministic"; empty: none */
} tuned;

/* Reads the file at `path` into memory of `a`; NULL after setting *error. */
const calibration *calibration_load(const char *path, arena *a, weft_error *error);
/* The same from text in memory; `where` names it in errors. */
const calibration *calibration_read(const char *data, const char *where, arena *a, weft_error *error);
/* Hash of the whole text; 0 for NULL. */
uint64_t calibration_hash(const calibration *c);

/* The choice for the node in env's table; NULL: none, or there is no table. */
const char *calibration_find(const weft_node *n, const kernel_env *env);

/* The name of the node in tables, to be released with free(). NULL when memory is out. */
char *calibration_key(const weft_node *n, const kernel_env *env);
/* Append the beginning of a table, and one of its lines. */
void calibration_head(text *t, const char *comment);
void calibration_write(text *t, const char *key, const char *choice);

#endif
