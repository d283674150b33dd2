/* program.h - what a plan is made of, shared by the passes of this folder, the store and the session.
 *
 *   plan     private copy of the model's variables + programs; immutable once compiled
 *   program  one graph of the user's in one phase, compiled: a private graph whose node list is the schedule
 *   segment  parameters of one subgraph that the same minimize calls train with the same settings; they lie one
 *            after the other in the store, with their optimizer state and gradients laid out alike, so that an
 *            update is one node over one flat buffer
 */
#ifndef WEFT_RUNTIME_PROGRAM_H
#define WEFT_RUNTIME_PROGRAM_H

#include "graph/graph.h"
#include "graph/kernel.h"
#include "weft/plan.h"
#include "weft/session.h"

/* With accumulation of k micro-batches a training graph has three programs, else one. */
typedef enum program_phase {
    PHASE_WHOLE, /* gradients assigned in the arena, update */
    PHASE_FIRST, /* gradients assigned to the store's, no update */
    PHASE_ADD,   /* gradients added to the store's, no update */
    PHASE_LAST,  /* added, then the update */
} program_phase;

typedef struct program {
    weft_plan *plan;
    const char *name; /* of the user's graph */
    program_phase phase;
    weft_graph *graph; /* private; its list is the schedule from the order pass on */
    unsigned has;      /* properties that passes gave */
    uint64_t arena_bytes, workspace_bytes;
    bool trains; /* it updates or accumulates */
    int n_collectives;
} program;

struct weft_plan {
    weft_env env;
    kernel_env kernels;
    weft_compile_options options;
    weft_model *model; /* variables (segments and optimizer state among them) and the programs' graphs */
    int n_programs;
    program *programs;
    bool can_run;
    double compile_ms;
    uint64_t fingerprint;
    weft_memory memory;
};

/* ---- segments (runtime/segments.c): needs the source model's minimize nodes; fills model->variables ---- */
bool segments_cut(weft_model *model, const weft_model *source, const weft_compile_options *options);

/* ---- optimizer.c ---- */
/* Variables that the minimize nodes of the source need (state per segment, step, lr, accumulated gradients). */
bool optimizer_variables(weft_model *model, const weft_model *source, int accumulate);
bool pass_optimizer(program *p);

/* ---- the other passes of this folder ---- */
bool pass_layout(program *p);
bool pass_schedule(program *p);
bool pass_memory(program *p);
bool pass_verify(program *p);

/* Fails with WEFT_INTERNAL and the rule's name unless the program's schedule and memory are right. */
weft_status verify_program(const program *p, weft_error *error);

/* ---- questions about values in a scheduled program ---- */
/* Nothing to run: inputs, parameters, state reads, views. */
bool node_is_silent(const weft_node *n);
/* Puts a collective on the communication lane (a wait does not). */
bool node_starts_collective(const weft_node *n);
/* The value whose memory `v` lies in: follows base. */
const weft_value *value_root(const weft_value *v);
/* Bytes that `v` spans in memory from its first element, by its strides. */
size_t value_span(const weft_value *v);
/* Offset in bytes from its root's first element. */
int64_t value_offset(const weft_value *v);

/* The node behind which a bucket (or what is made of it: n) is ready: the last of its gradients. */
const weft_node *plan_ready_after(const weft_node *n);

/* Path of the counter of steps of a graph that draws random numbers. */
typedef struct counter_path {
    char text[300];
} counter_path;
counter_path counter_path_of(const char *graph);

/* ---- figures (plan.c, flops.c) ---- */
bool plan_measure(weft_plan *plan); /* fills plan->memory */
uint64_t plan_fingerprint(const weft_plan *plan);
double program_flops(const program *p);

/* ---- where variables lie in a store (runtime/store.c) ---- */
typedef struct store_entry {
    const char *path;
    variable_kind kind;
    tensor_type type;
    weft_init init;
    uint64_t offset;  /* bytes */
    uint64_t version; /* changes so far, from 1; of members of a segment the segment's counts */
} store_entry;

/* Bytes of the whole store of a model's variables; offsets[model->n_variables] (or NULL) are filled in, those of
 * derived values count from the start of a session's derived region. */
uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]);
/* Whether this plan's rank holds a variable: all but what ZeRO gives to another. */
bool variable_is_held(const weft_plan *plan, const weft_variable *v);

/* The memory of a variable in a store, NULL when there is none of this path and type. */
void *store_memory(const weft_store *store, const char *path, const tensor_type *type);
/* The store's memory that all ranks hold alike, for a writer. */
void *store_block(weft_store *store, uint64_t *bytes);
uint64_t store_seed(const weft_store *store);
/* Counts the changes of a variable's memory (a parameter's: of its segment's), from 1; writers add to it. */
uint64_t *store_version(const weft_store *store, const weft_variable *v);
const weft_env *store_env(const weft_store *store);
bool store_has_parameter(const weft_store *store,
                         const char *path); /* false for state, and for no such path */

#endif
