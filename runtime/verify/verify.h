/* verify.h - what the verifier's files share. Each rule has a code, with which its message begins, and a
 * sentence at the top of its file; docs/concepts.md has this table:
 *     verify.c          V1-V5  memory of one program
 *     layouts.c         K1-K5  strides: what kernels read and write, what views name
 *     packed.c          K6, K7  packed operands, and other values derived from parameters
 *     collectives.c     L1-L3, L6, L10, L24  collectives beside the program's other nodes
 *     buckets.c         L4, L5, L7  gradients, their sums, and the updates that use them
 *     updates.c         L21  updates that are built from ops
 *     guard.c           L22  what a bad step changes
 *     summed.c          L23  sums over ranks that a strategy built
 *     plan.c            L8, L9, L11, L20  any program after any other
 *     world.c           L12, L13  the plans of all ranks
 *     deferred.c        L16, L17  deferred parts that outlast their runs
 *     session/verify.c  L14, L15, L18, L19  a session does what the plan relies on
 *     launches.c        S1-S6  a GPU's launches
 *     graph/core/check.c G1-G9  graphs, after every pass
 * map.c and index.c keep what the rules look up. The verifier reads what passes left in a plan and calls no
 * pass: whatever it checks, it works out a second time. */
#ifndef WEFT_RUNTIME_VERIFY_VERIFY_H
#define WEFT_RUNTIME_VERIFY_VERIFY_H

#include "runtime/plan/program.h"

/* ---- for the compiler, sessions and tests ---- */
/* verify/packed.c: notes operands before the layout pass, which may replace some by packed ones. pass_verify
 * and pass_verify_plan are verify_program and verify_plan as passes. */
bool verify_note_operands(program *p);
bool pass_verify(program *p);
bool pass_verify_plan(weft_plan *plan);

/* These return WEFT_INTERNAL and an error that begins with the rule's code, unless the program's schedule and
 * memory are right; any program may run after any other; the launches of a program are right. */
weft_status verify_program(const program *p, weft_error *error);
weft_status verify_plan(const weft_plan *plan, weft_error *error);
weft_status verify_launches(const program *p, weft_error *error);
/* The same for the plans of all n ranks of a world, by rank: they do the same collectives in the same order
 * (L12), in groups and of ranges in which they agree (L13). */
weft_status verify_world(const weft_plan *const *plans, int n, weft_error *error);
/* Of one rank, where the world is large: L12 beside the plan of rank 0; L13, for which plans[] has those of
 * rank 0, the rank, and the first rank of each of its process groups. It reads no programs: plans may end
 * with the pass "states". */
weft_status verify_rank_order(const weft_plan *first, const weft_plan *plan, weft_error *error);
weft_status verify_rank_ranges(const weft_plan *const *plans, int rank, weft_error *error);
/* All that a plan up to the pass "states" has of its rank, except for the numbers of ranks: ranks with one
 * text have one plan. The caller frees it; NULL: memory is out. */
char *verify_rank_text(const weft_plan *plan);

/* ---- for the rules ---- */
/* Bytes [begin, end) of the arena (space NULL) or of a variable's memory. */
typedef struct verify_range {
    const void *space;
    int64_t begin, end;
} verify_range;

/* Range number i of those that n touches: its workspace, operands, results; false: there is nothing, or it is
 * the caller's memory. */
bool verify_touched(const weft_node *n, int i, verify_range *range);
int verify_touches(const weft_node *n);
/* The sharded bucket whose memory holds v; NULL: none. */
const weft_variable *verify_sharded(const weft_value *v);
/* The place of a value, by the verifier's own walk; false for the caller's memory. begin is -1 if it has no
 * place. */
bool verify_locate(const weft_value *v, verify_range *range);
/* Whether v is `whole`, or in its memory. */
bool verify_lies_in(const weft_value *v, const weft_value *whole);
/* Whether two ranges share a byte. */
bool ranges_meet(verify_range a, verify_range b);

/* How often each happens to a bucket's gradients in one program. */
typedef struct verify_counts {
    int buckets, sums, updates, gathers, summed;
} verify_counts;

/* What the rules ask about one program again and again (verify/index.c), and what they find. */
typedef struct verify_index {
    const weft_plan *plan;
    const program *p; /* NULL: rules of the whole plan are asked */
    weft_error error; /* of the rule that is broken */
    arena memory;     /* of the arrays below, and of the rules' own */
    int n_ids, n_variables, n_scopes;
    const weft_node **wait;     /* by id of a collective: the last wait for it */
    int *waits;                 /* by id of a collective: how many waits there are */
    verify_counts *counts;      /* by index of a bucket */
    const subgraph **owner;     /* by index of a parameter; NULL: not looked up yet */
    const char **scopes;        /* scopes that weft_model_set_ddp names, sorted */
    const subgraph **subgraphs; /* sorted by path */
} verify_index;
/* p: of the plan, or NULL. Rules return false when they are broken, or without an error when memory is out;
 * so does this. */
bool verify_index_open(verify_index *x, const weft_plan *plan, const program *p);
/* Frees it. Returns WEFT_OK, or where the rules were not `good` the error. */
weft_status verify_index_close(verify_index *x, bool good, weft_error *error);
/* Zeroed, until the index is closed. */
void *verify_array(verify_index *x, int64_t count, size_t width);
/* Sets the error "RULE: graph d_step, step 12, node: what". */
bool verify_broken(verify_index *x, const char *rule, const weft_node *n, const char *what);

/* A wait for a collective, or NULL; *count becomes the number of waits. */
const weft_node *verify_wait_of(const verify_index *x, const weft_node *start, int *count);
/* Whether n is a gather without a wait in its program, so in flight when the run ends. */
bool verify_outlasts_run(const verify_index *x, const weft_node *n);
/* Whether n sums a bucket's gradients over ranks, all at once: not as a step of a strategy's sum. */
bool verify_sums_gradients(const weft_node *n);
/* The bucket whose gradients n gathers: where they are made, or in a program of the update alone where what
 * is stored is added up. NULL: none. */
const weft_variable *verify_filled_by(const weft_node *n);
/* The bucket whose whole gradients n has, over all micro-batches so far; NULL: none. */
const weft_variable *verify_gradients_in(const weft_node *n);
/* The bucket that an update changes, whole or in a rank's range; NULL: n is not an update. */
const weft_variable *verify_updated_by(const weft_node *n);
/* The subgraph of a parameter's path or of a scope, from what weft_model_set_ddp said; NULL: none. The
 * second one remembers it. */
const subgraph *verify_subgraph(const verify_index *x, const char *path);
const subgraph *verify_subgraph_of(verify_index *x, const weft_variable *parameter);
/* The operand that a result is computed from, apart from numbers, where there is one alone; NULL: none, or
 * several. Within a fused node it is looked for in the body. */
const weft_value *verify_only_operand(const weft_value *v);
/* The bucket, wait or sum that gradients are a part, a copy or a multiple of, or clipped from. *first: their
 * first element in it. */
const weft_node *verify_source_of(const weft_value *v, int64_t *first);
/* Walks back from values: each node's operands are asked once in a walk. */
typedef struct verify_walk {
    int *seen, number; /* by id of a node: the number of the last walk that met it */
    const weft_node **stack;
    int depth;
} verify_walk;
/* Why v must not be read; NULL: it may. *goes_on: its own operands are to be asked. */
typedef const char *(*verify_why_not)(void *of, const weft_value *v, bool *goes_on);
bool verify_walk_open(verify_walk *w, verify_index *x);
/* The first reason against v, or what it is computed from; NULL: there is none. */
const char *verify_walk_back(verify_walk *w, const weft_value *v, verify_why_not why_not, void *of);
/* The elements [*begin, *end) of a bucket that this plan's rank updates. */
void verify_own(verify_index *x, const weft_variable *s, int64_t *begin, int64_t *end);

bool verify_layouts(verify_index *x);
/* Operand i of n, a pack's result; a value that no kernel may read packed; derived values of all programs. */
bool verify_packed_operand(verify_index *x, const weft_node *n, int i);
bool verify_not_packed(verify_index *x, const weft_node *n, const weft_value *v);
bool verify_derived(verify_index *x);
bool verify_memory(verify_index *x);
bool verify_collectives(verify_index *x);
bool verify_buckets(verify_index *x);
bool verify_updates(verify_index *x);
bool verify_guard(verify_index *x);
bool verify_summed(verify_index *x);
bool verify_deferred(verify_index *x);
bool verify_streams(verify_index *x);

#endif
