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

#include "graph/ddp.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "runtime/device.h"
#include "runtime/launches.h"
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

/* State of an optimizer over a segment. */
typedef struct optimizer_slot {
    const weft_variable *segment;
    const char *name, *slot;       /* "optimizer.adam:generator", "exp_avg" */
    const weft_variable *variable; /* NULL: this rank has no share of it */
    int next;                      /* number of another one of the segment, from 1; 0: none */
} optimizer_slot;

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
    int n_passes;      /* that it has gone through */
    unsigned has;      /* properties that they gave */
    bool is_stopped;   /* by options.stop_after */
    uint64_t arena_bytes, workspace_bytes;
    bool trains; /* it updates or accumulates */
    int n_collectives;
    int n_launches; /* for a GPU */
    launch_entry *launches;
    /* Its tail (tails.c): nodes from this number on outlast the run; behind the last one: none does. */
    int tail;
    uint64_t carried_bytes;      /* of the arena: what lives into the tail */
    struct buffer_list *buffers; /* while memory is planned */
    int n_unpacked;
    weft_value ***unpacked; /* by id of a node: its operands before the layout pass, where some may be packed */
} program;

struct weft_plan {
    weft_env env;
    kernel_env kernels;
    weft_compile_options options;
    weft_model *model; /* variables (segments and optimizer state among them) and the programs' graphs */
    int n_subgraphs, n_trainings, n_unused;
    subgraph *subgraphs;
    name_table by_path; /* subgraphs */
    training *trainings;
    unused_parameter *unused;
    int n_states;
    optimizer_slot *states;
    int n_programs;
    program *programs;
    bool can_run;
    double compile_ms;
    uint64_t fingerprint;
    weft_memory memory;
    uint64_t carried_bytes; /* at the arena's start: the most that any program has */
};

/* ---- what all programs of a plan share, in the order in which compiling makes it ---- */
/* subgraphs.c: fills plan->subgraphs. */
bool subgraphs_find(weft_plan *plan, const weft_model *source);
/* The subgraph of a parameter, of the longest path that it lies under. */
const subgraph *subgraph_of(const weft_plan *plan, const char *parameter);
/* trainings.c: fills plan->trainings and plan->unused. */
bool trainings_find(weft_plan *plan, const weft_model *source);
/* segments.c: lays parameters out in segments (model->variables). */
bool segments_cut(weft_plan *plan);
/* optimizer_state.c: variables that updates need: state per segment or shard, step, lr, accumulated gradients. */
bool optimizer_variables(weft_plan *plan);

/* One parameter of a segment that is being cut; shards.c deals owners to them. */
typedef struct trained {
    weft_variable *parameter; /* in the plan's model */
    int subgraph;
    int owner;          /* ZeRO, greedy: a place in the largest process group */
    uint64_t signature; /* of the (minimize, group) pairs that train it; 0: none */
    int64_t first_use;  /* place in its first minimizing graph */
} trained;
/* Greedy: gives each an owner, subgraph by subgraph. */
bool shards_deal(weft_plan *plan, trained *list, int count);
/* Sets s->shards, and makes the variable of this rank's range unless that is empty. */
bool shards_cut(weft_plan *plan, weft_variable *s, const trained *members);
/* Where this rank's range of a sharded segment begins and ends, in elements. */
void shard_range(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end);
/* Its variable; NULL: it is empty. */
weft_variable *shard_find(const weft_model *m, const weft_variable *s);

/* ---- optimizer.c, reduction.c ---- */
bool pass_optimizer(program *p);

/* ---- the other passes of this folder ---- */
bool pass_epilogue(program *p);
bool pass_uploads(program *p);
bool pass_layout(program *p);
bool pass_schedule(program *p);
/* low_peak.c: for the schedule of one rank. list[i]->order is i; the better of `plain`, the same nodes in another order, and
 * a greedy order, in the arena's memory. NULL after an error. */
weft_node **order_low_peak(weft_graph *g, weft_node **list, weft_node **plain, int count);
/* lane_order.c: for the schedule; begins some of ZeRO's gathers early, and some sums late. */
bool lane_order(program *p);
/* tails.c: with all programs scheduled, whose tails outlast their runs; sets plan->carried_bytes. */
bool tails_find(weft_plan *plan);
/* memory_plan.c: collects a program's buffers and places those that live into its tail. */
bool memory_carry(program *p);
bool pass_memory(program *p);
bool pass_launches(program *p);
/* verify_packed.c: before the layout pass, which may put packed operands in the place of others. */
bool verify_note_operands(program *p);
bool pass_verify(program *p);
bool pass_verify_plan(weft_plan *plan);

/* These fail with WEFT_INTERNAL and the rule's name (verify.h has the list) unless the program's schedule and memory are
 * right; unless any program may run after any other; unless a session waits for all that it must. */
weft_status verify_program(const program *p, weft_error *error);
weft_status verify_plan(const weft_plan *plan, weft_error *error);
weft_status verify_launches(const program *p, weft_error *error);
weft_status verify_session(const weft_session *s, weft_error *error);
/* The same for the plans of all ranks of a world, by rank: they do the same collectives in the same order. */
weft_status verify_world(const weft_plan *const *plans, int n, weft_error *error);

/* ---- questions about values in a scheduled program ---- */
/* Nothing to run: inputs, parameters, state reads, views. */
bool node_is_silent(const weft_node *n);
/* Puts a collective on the communication lane (a wait does not). */
bool node_starts_collective(const weft_node *n);
/* The value whose memory `v` lies in: follows base. */
const weft_value *value_root(const weft_value *v);
/* The variable of the store whose memory `v` lies in, the segment for its parts; NULL: it lies elsewhere. */
const weft_variable *value_home(const weft_value *v);
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

/* ---- figures (plan.c) ---- */
bool plan_measure(weft_plan *plan);                            /* fills plan->memory */
/* Its options as text, NAME=VALUE and a space or a newline each; free() it; NULL: no memory. */
char *plan_settings(const weft_plan *plan);
bool plan_identify(weft_plan *plan, const weft_model *source); /* fills plan->fingerprint */
double program_flops(const program *p);

/* ---- where variables lie in a store (runtime/store.c) ---- */
/* How the optimizer's state of a segment is spread over its process group (ZeRO). */
typedef struct store_cut {
    int n_ranks;
    const int64_t
        *starts; /* [n_ranks + 1]: rank r has the segment's elements from starts[r] to starts[r + 1] */
} store_cut;

typedef struct store_entry {
    struct store_entry *home; /* whose version counts its changes: itself, or its segment */
    const char *path;
    variable_kind kind;
    tensor_type type;
    weft_init init;
    uint64_t offset;      /* bytes */
    uint64_t version;     /* changes so far, from 1 */
    const store_cut *cut; /* of a segment; NULL: all ranks have all */
    int arriving;         /* why it may not be read yet: a gather brings parameters, a tail is to update it */
} store_entry;

/* What a user can name: a parameter, state, or a parameter's part of an optimizer's state, of which this rank holds
 * elements [begin, end): all, or with ZeRO its own. */
typedef struct store_part {
    const char *path;
    tensor_type type;
    int64_t begin, end;
    char *memory;          /* of element `begin`, on the store's device; NULL: none is here */
    store_entry *home;     /* likewise */
    const char *parameter; /* itself, or whose optimizer state it is; NULL: a number that belongs to nobody */
    const store_cut *cut;  /* of its segment, in which the parameter begins at element `offset` */
    int64_t offset;
} store_part;
/* In a fixed order, the same on all ranks; NULL past the end. */
const store_part *store_part_at(const weft_store *store, int index);
/* Why a number of an optimizer (step, lr, ...) cannot be `value`; NULL: it can, or it is not one of these. */
const char *store_number_rule(const store_part *part, double value);
/* Bytes of a part's memory (from its element `begin` on), to and from the host's; writing counts as a change. */
weft_status store_read(const weft_store *store, const store_part *part, size_t at, void *into, size_t bytes,
                       weft_error *error);
weft_status store_write(weft_store *store, const store_part *part, size_t at, const void *from, size_t bytes,
                        weft_error *error);
const device *store_device(const weft_store *store);

/* Bytes of the whole store of a model's variables; offsets[model->n_variables] (or NULL) are filled in, those of
 * derived values count from the start of a session's derived region. */
uint64_t store_layout(const weft_plan *plan, uint64_t *offsets, uint64_t bytes_of_kind[VARIABLE_KINDS]);
/* The memory of a variable in a store, NULL when there is none of this path and type. */
void *store_memory(const weft_store *store, const char *path, const tensor_type *type);
uint64_t store_seed(const weft_store *store);
/* Counts the changes of a variable's memory (a parameter's: of its segment's), from 1; writers add to it. */
uint64_t *store_version(const weft_store *store, const weft_variable *v);
const weft_env *store_env(const weft_store *store);
/* Where a variable's changes are counted; NULL: the store has none of that path. */
store_entry *store_home(const weft_store *store, const weft_variable *v);
/* A session says that new values are on their way into a variable (1), or are there (-1). */
void store_note_arriving(weft_store *store, store_entry *entry, int change);
int store_arriving(const weft_store *store); /* how many are on their way */
/* WEFT_ORDER while any are on their way. */
weft_status store_check_settled(const weft_store *store, const char *what, weft_error *error);
/* WEFT_ORDER unless segments are shared out as the plan has them. */
weft_status store_check_cuts(const weft_store *store, const weft_plan *plan, weft_error *error);
/* What has come from files. */
enum { LOADED_VALUES = 1, LOADED_STATE = 2 };
unsigned *store_loaded(weft_store *store);
bool store_has_parameter(const weft_store *store,
                         const char *path); /* false for state, and for no such path */

#endif
