/* program.h - what a plan is made of: the passes fill it in, the verifier proves it, store and session read it.
 *
 *   plan     private copy of the model's variables + programs; immutable once compiled
 *   program  one graph of the user's in one phase, compiled: a private graph whose node list is the schedule
 *   bucket  parameters of one subgraph that the same minimize calls train with the same settings; they lie one
 *            after the other in the store, with their optimizer state and gradients laid out alike, so that an
 *            update is one node over one flat buffer
 */
#ifndef WEFT_RUNTIME_PLAN_PROGRAM_H
#define WEFT_RUNTIME_PLAN_PROGRAM_H

#include "graph/core/ddp.h"
#include "graph/core/graph.h"
#include "graph/core/kernel.h"
#include "runtime/plan/launches.h"
#include "weft/plan.h"
#include "weft/session.h"

/* With accumulation of k micro-batches a training graph has three programs, else one. */
typedef enum program_phase {
    PHASE_WHOLE, /* gradients assigned in the arena, update */
    PHASE_FIRST, /* gradients assigned to the store's, no update */
    PHASE_ADD,   /* gradients added to the store's, no update */
    PHASE_LAST,  /* added, then the update */
} program_phase;

/* Parameters that are trained by one DDP (include/weft/ddp.h), and the ranks that share their gradients. */
typedef struct subgraph {
    const char *path;  /* its scope; "": the whole model, or parameters outside any scope */
    const char *name;  /* in front of its buckets' numbers: the path, or "model" */
    ddp_attrs ddp;     /* with the compile options where it says nothing */
    int n_ranks, rank; /* of this plan's process group, and this rank's place in it */
    const int *ranks;
    int largest; /* ranks of the largest group of its partition: the same seen from all */
} subgraph;

/* A minimize call of the source model and what it trains. */
typedef struct training {
    const weft_graph *graph;   /* of the source: while compiling only */
    const weft_node *minimize; /* likewise */
    const char *name;          /* of that graph */
    bool *trains;              /* by index of a parameter */
} training;

/* State of an optimizer over a bucket. */
typedef struct optimizer_slot {
    const weft_variable *bucket;
    const char *name, *slot; /* "optimizer.adam:generator", "exp_avg" */
    weft_variable *variable; /* NULL: this rank has no share of it */
} optimizer_slot;

/* The variables of an optimizer. minimize calls that name the same one share them. */
typedef struct optimizer_entry {
    const char *name;                       /* weft_optimizer.name */
    weft_variable *step, *lr;               /* f64[] */
    weft_variable *loss_scale, *good_steps; /* f64[]; NULL unless it has gradients in f16 */
    int *
        slots; /* [n_variables][OPTIMIZER_SLOTS], by a bucket's index: number in plan->states, from 1; 0: none */
} optimizer_entry;

/* A parameter that a graph minimizes over and does not reach (find_unused_parameters). */
typedef struct unused_parameter {
    const char *graph, *path;
} unused_parameter;

typedef struct program {
    weft_plan *plan;
    const char *name;         /* of the user's graph */
    const weft_graph *source; /* that graph: while compiling only */
    program_phase phase;
    weft_graph *graph; /* private; its list is the schedule from the order pass on */
    uint64_t arena_bytes, workspace_bytes;
    bool trains; /* it updates or accumulates */
    int n_collectives;
    int n_launches; /* for a GPU */
    launch_entry *launches;
    /* Its deferred part (deferred.c): nodes from this number on outlast the run; behind the last one: none does. */
    int deferred;
    uint64_t in_flight_bytes;    /* of the arena: what lives into the deferred part */
    struct buffer_list *buffers; /* while memory is planned */
    int n_unpacked;
    weft_value **
        *unpacked; /* by id of a node: its operands before the layout pass, where some may be packed */
} program;

struct weft_plan {
    weft_env env;
    kernel_env kernels;
    weft_compile_options options;
    const weft_model *source; /* while compiling only */
    weft_model *model; /* variables (buckets and optimizer state among them) and the programs' graphs */
    int n_subgraphs, n_trainings, n_unused;
    subgraph *subgraphs;
    name_table by_path; /* subgraphs */
    training *trainings;
    unused_parameter *unused;
    int n_states, n_optimizers;
    optimizer_slot *states;
    optimizer_entry *optimizers;
    /* [n_variables][accumulate_levels], by a bucket's index: its gradients over micro-batches; NULL without any. */
    weft_variable **gradients;
    int n_programs;
    program *programs;
    bool can_run;
    double compile_ms;
    uint64_t fingerprint;
    weft_memory memory;
    uint64_t in_flight_bytes; /* at the arena's start: the most that any program has */
};

/* ---- subgraphs and their buckets (subgraph.c) ---- */
/* The subgraph of a parameter, of the longest path that it lies under. */
const subgraph *subgraph_of(const weft_plan *plan, const char *parameter);
/* Where this rank's range of a sharded bucket begins and ends, in elements. */
void shard_range(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end);

/* Path of the counter of steps of a graph that draws random numbers. */
typedef struct counter_path {
    char text[300];
} counter_path;
counter_path counter_path_of(const char *graph);

/* ---- figures (plan.c) ---- */
/* Bytes of the whole store of a model's variables; offsets[model->n_variables] (or NULL) are filled in, those of
 * derived values count from the start of a session's derived region. */
uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]);
/* "cpu"; "?" outside the list. */
const char *device_name(weft_device kind);
bool plan_measure(weft_plan *plan); /* fills plan->memory */
/* Its options as text, NAME=VALUE and a space or a newline each; free() it; NULL: no memory. */
char *plan_settings(const weft_plan *plan);
bool plan_identify(weft_plan *plan, const weft_model *source); /* fills plan->fingerprint */
double program_flops(const program *p);

#endif
