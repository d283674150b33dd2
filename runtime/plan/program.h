/* program.h - what a plan consists of. Passes fill it in, the verifier proves it, stores and sessions read
 * it.
 *
 *   plan     a private copy of the model's variables, and the programs; immutable once compiled
 *   program  one graph of the user in one phase of a step: a private graph whose node list is the schedule
 *   bucket   parameters of one subgraph that the same minimize calls train with the same settings. They are
 *            contiguous in the store; their optimizer state and gradients have the same layout, so that an
 *            update is one node over one flat buffer.
 */
#ifndef WEFT_RUNTIME_PLAN_PROGRAM_H
#define WEFT_RUNTIME_PLAN_PROGRAM_H

#include "graph/settings/ddp.h"
#include "graph/core/graph.h"
#include "graph/core/kernel.h"
#include "graph/settings/minimize.h"
#include "runtime/plan/launches.h"
#include "weft/comm.h"
#include "weft/flow.h"
#include "weft/plan.h"
#include "weft/session.h"
#include "weft/strategy.h"

/* A training graph that accumulates k > 1 micro-batches a step has the programs FIRST, ADD and LAST; with
 * options.manual it has FIRST, for k > 1 ADD, then UPDATE and LOSS. Any other graph has WHOLE. */
typedef enum program_phase {
    PHASE_WHOLE, /* assigns gradients in the arena, then updates */
    PHASE_FIRST, /* assigns gradients in the store, does not update */
    PHASE_ADD,   /* adds to the gradients in the store, does not update */
    PHASE_LAST,  /* adds, then updates */
    /* updates by the gradients in the store; it has no other nodes, inputs or outputs */
    PHASE_UPDATE,
    PHASE_LOSS, /* has no gradients and does not update */
} program_phase;

/* Parameters that one DDP trains (include/weft/ddp.h), and the ranks that sum their gradients. Each parameter
 * belongs to one subgraph. */
typedef struct subgraph {
    const char *path; /* its scope; "": the whole model, or the parameters outside any scope */
    const char *name; /* its buckets are called NAME.0, NAME.1, ...: the path, or "model" */
    ddp_attrs ddp;    /* what weft_model_set_ddp set; the compile options where it set nothing */
    /* the number of ranks in this plan's process group, and the place of this rank in it */
    int n_ranks, rank;
    /* ranks[n_ranks]: their numbers in the world, in the order of the group. */
    const int *ranks;
    int largest; /* size of the largest process group that the option names; equal on all ranks */
} subgraph;

/* A minimize call of the source model, and the parameters that it trains. */
typedef struct training {
    const weft_graph *graph;   /* of the source model; NULL once compiled */
    const weft_node *minimize; /* likewise */
    const char *name;          /* of that graph */
    const char *optimizer;     /* its name: that of an optimizer_entry */
    bool *trains;              /* by index of a parameter */
    bool clips;                /* by the norm of all its gradients */
    weft_variable *loss_mean;  /* f64[]: of this loss's size, below 0: none yet; NULL: no spikes */
} training;

/* One piece of an optimizer's state over one bucket, or the average of a state of the model. */
typedef struct optimizer_slot {
    const weft_variable *bucket; /* or of kind STATE */
    const char *name, *slot;     /* "optimizer.adam:generator" and "exp_avg" */
    slot_shape shape;
    bool is_average;         /* of the parameters, or of the state */
    weft_variable *variable; /* NULL: this rank updates no part of the bucket */
} optimizer_slot;

/* The variables of one optimizer. minimize calls that name the same optimizer share them. */
typedef struct optimizer_entry {
    const char *name;                       /* weft_optimizer.name */
    const char *path;                       /* "optimizer.NAME", with which its variables' paths begin */
    const char *schedule;                   /* its parts as text (graph/settings/schedule.h); NULL: none */
    weft_variable *step;                    /* f64[] */
    weft_variable *lr;                      /* f64[]; NULL: it has none (optimizer_kind.follows) */
    weft_variable *epoch;                   /* f64[]; NULL unless a part of a schedule counts epochs */
    weft_variable *loss_scale, *good_steps; /* f64[]; NULL unless it has gradients in f16 */
    weft_variable *product;                 /* f64[]: of update_product over the steps; NULL: it has none */
    bool is_elementwise;                    /* any range of a bucket can be updated alone */
    /* [n_variables][OPTIMIZER_STATES], by index of a bucket or state: index + 1 in plan->states; 0: none */
    int *slots;
} optimizer_entry;

/* A parameter that a graph minimizes over but does not reach (allowed by find_unused_parameters). */
typedef struct unused_parameter {
    const char *graph, *path;
} unused_parameter;

/* One schedule: its nodes in order, the memory that they need, and for a GPU the launches. */
typedef struct program {
    weft_plan *plan;
    const char *name;         /* of the user's graph */
    const weft_graph *source; /* that graph; NULL once compiled */
    program_phase phase;
    int accumulate;    /* micro-batches of the graph in a step */
    weft_graph *graph; /* private to the plan; from the pass `order` on, its node list is the schedule */
    /* Size of the arena, and of the largest kernel workspace in it. */
    uint64_t arena_bytes, workspace_bytes;
    bool trains;            /* it updates parameters or accumulates gradients */
    const char *over_ranks; /* its first op over ranks, for weft_plan_over_ranks; NULL: it has none */
    int n_collectives;
    int n_launches; /* 0 for a CPU plan */
    launch_entry *launches;
    /* The deferred part (passes/deferred.c): the last waits and updates, which may run during the next run.
     * It consists of the nodes whose order is at least `deferred`; a number past the last node: there is
     * none. */
    int deferred;
    uint64_t in_flight_bytes;    /* bytes at the arena's start: values that the deferred part still needs */
    struct buffer_list *buffers; /* while memory is planned; NULL afterwards */
    /* For the verifier: unpacked[id of a node] is the array of its operands before the layout pass, which may
     * replace some by packed copies; NULL for nodes whose kernels pack nothing. n_unpacked entries. */
    int n_unpacked;
    weft_value ***unpacked;
} program;

/* How the training is spread over ranks (runtime/strategy.c). */
typedef struct plan_strategy {
    const char *text; /* as it was chosen; "separate_ddp" where none was */
    bool is_chosen;
    bool is_compressed; /* a bucket is summed by nodes of the strategy: another world has other bits */
    weft_strategy runs; /* the functions of runs; zero for Weft's own */
    /* While it compiles: what the strategy was asked, and the builder of sums; NULL: none. */
    const weft_strategy_call *call;
    const struct strategy_parts *parts; /* its text */
    weft_value *(*gradient)(const weft_bucket *bucket);
} plan_strategy;

/* The library that computes products and convolutions (library.c); NULLs where it computes none. */
typedef struct plan_library {
    const char *name, *version, *isa; /* "onednn", "2.6.3", "avx2" */
    const char *implementations;      /* their names, sorted: "gemm:jit,jit:avx2" */
    const char *set;                  /* the highest of our instruction sets in `isa` */
} plan_library;

/* A sentence for the reader of a plan, in the order of finding. */
typedef struct plan_note {
    struct plan_note *next;
    const char *text;
} plan_note;

/* What weft_compile returns. Sessions in any threads may share it. */
struct weft_plan {
    weft_env env;
    int sessions; /* that hold it, by atomic operations: weft_plan_free() leaves it to the last one */
    kernel_env kernels;
    weft_compile_options options;
    const struct device *device; /* of store/device.h; NULL: this build has none of the options' kind */
    plan_strategy strategy;
    const weft_model *source; /* the user's; NULL once compiled */
    /* Private: variables (buckets and optimizer state among them) and the programs' graphs. Its arena owns
     * all arrays below. */
    weft_model *model;
    const char *flow_name;
    int n_flow, accumulate_most; /* accumulate_most: micro-batches in a step of any graph */
    weft_flow_step *flow;        /* the flow that the plan is for; accumulate is at least 1 */
    plan_note *notes;
    int n_subgraphs, n_groups, n_trainings, n_unused;
    /* [n_groups]: n_subgraphs of them, then all ranks of the world, then the process groups that ops
     * over ranks name; these have no parameters */
    subgraph *subgraphs;
    bool has_values;    /* its graphs have ops over ranks, so each rank has a plan of its own */
    name_table by_path; /* subgraphs by path */
    const char *whole;  /* name of the one with the path "": "model", or "model_" where a scope has this */
    training *trainings;
    unused_parameter *unused;
    int n_states, n_optimizers;
    optimizer_slot *states;
    optimizer_entry *optimizers;
    /* [n_variables][accumulate_levels(accumulate_most)], by index of a bucket: the variables of its gradients
     * over micro-batches; NULL where no run leaves gradients to another */
    weft_variable **gradients;
    int n_programs;
    program *programs;
    bool can_run; /* false after stop_after: such a plan can be printed, not run */
    double compile_ms;
    /* Of a plan that can run: equal on all ranks that may train together (plan_identify); equal where a
     * training may continue (model_form). */
    uint64_t fingerprint, form;
    /* settings.c: what all ranks must have in common; what a training's numbers depend on */
    int n_agreed, n_settings;
    const weft_setting *agreed, *settings;
    plan_library library;
    weft_memory memory;
    uint64_t in_flight_bytes; /* the most that any program has; they start at offset 0 of every arena */
};

/* Whether runs of the program end a step: they update. */
bool program_ends_step(const program *p);

/* ---- subgraphs and their buckets (subgraph.c) ---- */
/* The subgraph of a parameter: the one with the longest path that the parameter's path begins with. */
const subgraph *subgraph_of(const weft_plan *plan, const char *parameter);
/* This rank's range of a sharded bucket, in elements: [*begin, *end). */
void shard_range(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end);

enum { BUCKET_ALIGN = 16 /* elements: 64 bytes of f32, a cache line, at which each member begins */ };
/* Where the bucket's element `at`, a border between members, is in a state of that shape over the whole
 * bucket. The members' state follow one another as they do, each aligned. */
int64_t slot_place(slot_shape shape, const weft_variable *bucket, int64_t at);

/* The path of the step counter of a graph that draws random numbers. */
typedef struct counter_path {
    char text[300];
} counter_path;
counter_path counter_path_of(const char *graph);

/* ---- optimizers (optimizers.c) ---- */
/* The optimizer of that name; NULL: no minimize call names it. */
optimizer_entry *optimizer_named(const weft_plan *plan, const char *name);
/* What a number of an optimizer, or a graph's counter, is. *optimizer: its name; NULL: of no optimizer. */
weft_stored_kind number_kind(const weft_plan *plan, const weft_variable *number, const char **optimizer);
/* The bucket's gradient variables, [accumulate_levels(accumulate_most)]: the levels of the tree in which
 * micro-batches are added (ops/optimizer/accumulate.c). Only where runs leave gradients to others. */
weft_variable **gradient_levels(const weft_plan *plan, const weft_variable *bucket);

/* ---- figures (plan.c) ---- */
/* Lays out the variables that a store holds, each aligned, and returns their total bytes. Fills in
 * offsets[model->n_variables] unless it is NULL: offsets of parameters are inside their bucket; those of
 * derived values count from the start of a session's derived region. bytes_of_kind[] counts each memory once.
 */
uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]);
/* "cpu", "cuda"; "?" for other numbers. */
const char *device_name(weft_device kind);
extern const char *const device_words[]; /* in the order of weft_device; NULL ends them */
void plan_measure(weft_plan *plan);      /* fills plan->memory */
/* Whether any program updates parameters or accumulates gradients. */
bool plan_trains(const weft_plan *plan);
bool plan_find_library(weft_plan *plan);                       /* fills library (library.c) */
bool plan_add_note(weft_plan *plan, const char *text);         /* copies the text */
bool plan_collect_settings(weft_plan *plan);                   /* fills agreed, settings (settings.c) */
bool plan_identify(weft_plan *plan, const weft_model *source); /* then: fills fingerprint, form */
/* Floating-point operations of one run. */
double program_flops(const program *p);

#endif
