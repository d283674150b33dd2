/* state.h - the parts of a session, shared by its files. open.c binds tensors and builds kernels; run.c
 * feeds, walks and fetches; in_flight.c keeps what a run leaves to later ones; collectives.c and agree.c work
 * with the other ranks; save.c writes what all ranks hold together; profile.c measures times. */
#ifndef WEFT_RUNTIME_SESSION_STATE_H
#define WEFT_RUNTIME_SESSION_STATE_H

#include "dist/core/exchange.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "runtime/store/safetensors.h"
#include "runtime/store/store.h"
#include "weft/support.h"

/* One node, ready to run: its tensors point to their memory. */
typedef struct step {
    const weft_node *node;
    const weft_kernel *kernel;
    void *state; /* what the kernel's open made; the session closes it */
    /* What the kernel is called with, and its operands and results in the node's order. */
    kernel_call call;
    tensor *in, *out;
    /* length of touched[]: variables of the store that it reads or writes, the bucket for parameters in one
     */
    int n_touched;
    const weft_variable **touched;
    /* runs after any pending deferred part: it starts a collective, or touches the in-flight region */
    bool ends_deferred;
    bool is_gated; /* it updates what outlasts the step, which a bad step must not */
    /* A pack or cast of a parameter runs only when the parameter's *version differs from *packed, which it
     * was made from last. NULL for other nodes. */
    const uint64_t *version;
    uint64_t *packed;
    double nanoseconds; /* summed over the runs that were timed */
    int64_t runs;       /* how many of these */
    /* among ranks: where this rank is while it runs, and what its collective holds; NULL: alone, or nothing
     * to say */
    const char *place, *contents;
} step;

/* An input of a graph, and where the caller's data for it are in the present run. */
typedef struct input_binding {
    const char *name;
    weft_value *value;
    size_t bytes;
    size_t at; /* its offset where all inputs lie one after the other, each aligned */
    /* The caller's memory, during a run. */
    const void *data;
} input_binding;

/* An operand that reads an input: its pointer is set at each run. */
typedef struct relocation {
    tensor *operand;
    int input;
    int64_t offset; /* bytes from the start of the input */
} relocation;

/* An output, as fetches find it. */
typedef struct fetched {
    const char *name;
    /* Where its bytes are; NULL for an input handed through. */
    const char *memory;
    int input;      /* >= 0: index of the input that it is, from byte `offset` on; else -1 */
    int64_t offset; /* bytes */
    /* The variable of the store that holds it, whose next value may still be on its way; NULL: another
     * memory. */
    const weft_variable *owner;
    size_t bytes;
} fetched;

/* What a session keeps of a graph's step, to run it again (bad_step.c, plan/kept.h). */
typedef struct kept_variable {
    char *memory, *copy;
    size_t bytes;
    uint64_t *version;
} kept_variable;
typedef struct kept_step {
    char *inputs; /* of micro-batch m from m * head->input_bytes on */
    int n_variables;
    kept_variable *variables;
    /* On the device: the flags of this rank's micro-batches so far, as the guard makes them. */
    double *carried;
    double *flags; /* the host's: of the gate of the last step; as many or fewer */
} kept_step;

/* The last step, if it was bad; head NULL: it was not. */
typedef struct bad_step {
    struct bound_program *head, *last; /* of its graph; the program that ended it */
    int runs;                          /* runs that it had */
    int rank;                          /* of the first bad loss, or of the first node found; -1: unknown */
    int64_t micro;                     /* its micro-batch there */
    int64_t row;                       /* of its inputs; -1: unknown */
    char *report;                      /* malloc'd */
} bad_step;

/* A program of the plan, bound to this session's memory. Arrays are the session's arena's. */
typedef struct bound_program {
    const program *p;
    int n_steps, n_inputs, n_relocations, n_outputs;
    size_t input_bytes; /* of all inputs, each aligned */
    uint64_t *tickets;  /* of collectives in flight, by order */
    step *steps;
    input_binding *inputs;
    relocation *relocations;
    fetched *outputs;
    uint64_t **written; /* versions in the store of what its updates change */
    int n_written;
    /* Versions of the gradients in the store that it adds to, of each bucket's lowest level, which all graphs
     * have that train it; at most n_written. */
    uint64_t **sums;
    int n_sums;
    int deferred; /* index of the first step of the deferred part (passes/deferred.c); n_steps: it has none */
    bool deferred_sends; /* the deferred part starts collectives */
    /* By variable: how many steps must have run before another program touches it; NULL without a deferred
     * part. */
    int *needs;
    store_entry **owners; /* variables that the deferred part touches */
    int n_owners;
    double *counter; /* the graph's random step counter, in the store's memory; NULL: it draws nothing */
    /* Of a graph's first program only: the counter's value, read when the store had this version of it. */
    double random_step;
    uint64_t *counter_version, random_version;
    /* Of a graph's first program only, for steps with accumulation: */
    int64_t micro;         /* micro-batches of this step so far */
    bool ends_next;        /* one of them was weft_run_no_sync: the next weft_run ends the step */
    uint64_t sums_version; /* sum of the gradient buffers' versions after the last run */
    /* What kernels read about the run: seed, step, micro-batch. */
    run_state run;
    const char *left;         /* where this rank is after a run; NULL: alone */
    const step *guard, *gate; /* its steps of these ops; NULL: it has none */
    bool skips;               /* the step is bad: gated steps do nothing */
    bool is_broken;           /* a value broke a kernel's rule in this run: its losses count as bad (CPU) */
    char *keep;               /* where this run keeps its inputs, on the device; NULL: it does not */
    kept_step *of;            /* that of its graph, while it runs */
    kept_step *kept;          /* of a graph's first program only; NULL: its steps are not guarded */
} bound_program;

/* The program whose deferred part has not ended; r NULL: none. */
typedef struct pending {
    bound_program *r;
    int next;     /* index of its first step that has not run */
    uint64_t run; /* the number of its run, which its collectives carry */
} pending;

/* What a kind of device does for sessions. All but close return a status; `close` also follows a failed open.
 */
typedef struct executor {
    /* Before kernels are built: makes s->kernels.cuda and whatever else runs need. */
    weft_status (*open)(weft_session *s, weft_error *error);
    weft_status (*prepare)(weft_session *s, weft_error *error); /* after kernels are built */
    /* Runs r's steps; feeds are in r->inputs. *reached becomes the number of steps that ran; on an error, the
     * next one failed. May return before the device is done. While s->examines is set, the inputs are where
     * r's tensors have them, every step runs by itself, and none is left for later. */
    weft_status (*walk)(weft_session *s, bound_program *r, int *reached, weft_error *error);
    /* Copies an output of r's last run into the caller's memory, once the device has made it. */
    weft_status (*fetch)(weft_session *s, const bound_program *r, const fetched *from, void *into,
                         weft_error *error);
    /* Writes a number into the store's memory, in order after all work in flight; need not wait. */
    weft_status (*put)(weft_session *s, double *to, double value, weft_error *error);
    /* Copies within the device's memory, in order after all work in flight; need not wait. */
    weft_status (*copy)(weft_session *s, void *to, const void *from, size_t bytes, weft_error *error);
    /* Copies the inputs of r's present or last run to the device's memory, each aligned. */
    weft_status (*keep)(weft_session *s, const bound_program *r, char *to, weft_error *error);
    /* Waits for what is in flight for a bucket: the call, or the device before its next work. */
    weft_status (*arrive)(weft_session *s, const weft_variable *bucket, weft_error *error);
    /* Waits until the device has done all work, and returns its error, if any. */
    weft_status (*settle)(weft_session *s, weft_error *error);
    void (*close)(weft_session *s);
} executor;

/* One thread at a time uses a session. It frees all it has when it closes, but not the plan, the store or
 * comm. */
struct weft_session {
    weft_env env;
    arena arena;
    const weft_plan *plan;
    const device *device;
    kernel_env kernels;        /* the plan's, with this session's libraries on the device */
    struct cuda_session *cuda; /* session/cuda; NULL on the CPU */
    run_state *cuda_run;       /* a copy of the present run's run_state in GPU memory */
    weft_store *store;
    weft_comm *comm; /* the world; NULL: this rank is alone */
    /* By index of a subgraph: its process group, which is comm or made by this session; then comm. */
    weft_comm **groups;
    uint64_t *in_flight; /* by index of a bucket: ticket + 1 of a gather that outlasts its run; 0: none */
    int n_in_flight;
    int32_t *votes; /* [world]: one number of each rank, when all exchange one */
    uint64_t runs;  /* number of runs with collectives so far */
    uint64_t run;   /* number of the run whose steps are running: the last one, or the deferred part's */
    pending deferred;
    bad_step bad;
    int64_t n_bad;                /* bad steps so far */
    struct examination *examines; /* while a bad step runs again */
    /* The element by which a value broke a kernel's rule last (kernel_fail_at); -1: unknown. */
    int64_t broken;
    char *memory;      /* the arena, then derived values and constants, on a GPU then the inputs */
    uint64_t *offsets; /* by index of a variable: where derived values and constants are */
    /* By index of a variable: of a derived one the version of the parameter that it was made from, of a
     * constant 1 once it has been written. */
    uint64_t *packed;
    /* [plan->n_programs], in the plan's order. */
    bound_program *programs;
    weft_feed *feeds; /* a run's, which the strategy may change; as many as a graph has inputs at most */
    int n_feeds;
    bool profiles;
    bool checks, no_capture; /* weft_session_set_check, weft_session_set_capture */
    void (*event)(void *context, const weft_node_event *event); /* called after each node; NULL: no tracer */
    void *event_context;
};

/* ---- session/step.c ---- */
/* Bytes of s->memory: the arena, derived values and constants, and on a GPU the inputs. */
size_t session_bytes(const weft_plan *plan);

/* ---- session/strategy.c ---- */
/* Tells the log who this rank is, and lets the strategy set up optimizers. False after an error. */
bool strategy_begin(weft_session *s, weft_error *error);
/* Before a run of a graph: lets the strategy look at the feeds and change them; *feeds becomes the
 * session's own list then. */
weft_status strategy_before_forward(weft_session *s, const char *graph, const weft_feed **feeds, int n_feeds,
                                    weft_error *error);

/* ---- session/check.c ---- */
/* WEFT_DATA when a floating-point result of the step is not finite. */
weft_status session_check_results(weft_session *s, const bound_program *r, const step *st, weft_error *error);

/* ---- session/bad_step.c, and step.c for single steps and what they share ---- */
/* Finds what a program's steps do about bad ones, once all are prepared. False without memory. */
bool guard_open(weft_session *s, weft_error *error);
void guard_close(weft_session *s);
struct chosen;
/* Before a run of a graph whose steps are guarded: keeps what it needs to be run again. */
weft_status guard_before(weft_session *s, struct chosen *c, weft_error *error);
/* Whether later micro-batches of the step read the result of this step, which has just run: it belongs into
 * r->of->carried. */
bool guard_carries(const bound_program *r, const step *st);
/* Whether a value that breaks the rule of a step's kernel makes a bad step: one before the losses are judged,
 * or in a run that has met one there. Else it is the run's error. */
bool guard_takes(const weft_session *s, const bound_program *r, const step *st);
/* Of such a step: its results are NaN, or 0 in integers, and the run continues without *error. */
void guard_take(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* Flags all losses of a run, whose guard has just run. */
void guard_flag(const step *guard);
/* The gate's result is in r->of->flags: whether the step is bad. */
void guard_judge(bound_program *r);
/* After a run: WEFT_DATA if it has ended a bad step, which has been run again by then, on all ranks. */
weft_status guard_after(weft_session *s, struct chosen *c, weft_error *error);
/* Numbers the run of a program for its micro-batch, and walks. */
void session_number(weft_session *s, bound_program *head, bound_program *r, int64_t micro);
/* Copies memory of the device to the host, after all work of r's last run. */
weft_status session_fetch(weft_session *s, const bound_program *r, void *into, const void *from, size_t bytes,
                          weft_error *error);
/* Sets a program's inputs: r->inputs[].data are set. */
void session_relocate(bound_program *r);

/* ---- session/examine.c ---- */
/* While a bad step runs again: looks at the operands and results of a step, around its kernel. */
void examine_before(struct examination *e, const bound_program *r, const step *st);
void examine_after(struct examination *e, const bound_program *r, const step *st);
/* A value has broken the rule of its kernel; s->broken is the element. */
void examine_broken(struct examination *e, const bound_program *r, const step *st, const weft_error *error);

/* ---- session/collectives.c ---- */
/* Describes the collective that a step starts, on the step's own buffers. */
weft_collective session_collective(const weft_session *s, const bound_program *r, const step *st);
/* Whether a collective outlasts its run: no node of its program waits for it. */
bool collective_outlasts_run(const weft_session *s, const weft_node *n);
/* Makes the process groups of all subgraphs, together with the other ranks; and frees them. */
bool groups_open(weft_session *s, weft_error *error);
void groups_close(weft_session *s);
/* Runs a step without a kernel: starts its collective, or waits for one. */
weft_status collective_run(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* After a failure: waits for the collectives that the first `reached` steps started, since they still use the
 * arena. */
void collectives_drain(weft_session *s, bound_program *r, int reached);

/* ---- session/places.c ---- */
/* Among ranks, fills in where each step is and what each collective holds, for messages of other ranks. */
bool places_open(weft_session *s, weft_error *error);

/* ---- session/choose.c ---- */
/* What a caller asks for: weft_run, weft_run_no_sync, and for a plan with options.manual weft_run_loss and
 * weft_run_update. */
typedef enum run_kind { RUN_WHOLE, RUN_NO_SYNC, RUN_LOSS, RUN_UPDATE } run_kind;
/* The programs of a graph. Where runs leave gradients to others, `head` is the first one, which keeps the
 * count, and `add` one that adds to them; else it is NULL. `now` is the one to run. */
typedef struct chosen {
    bound_program *head, *add, *now;
} chosen;
/* The bound program of a graph in a phase; NULL: none. */
bound_program *session_program(const weft_session *s, const char *graph, program_phase phase);
/* Finds a graph; WEFT_NAME: the plan has none of that name. */
weft_status session_find(weft_session *s, const char *graph, chosen *c, weft_error *error);
/* Also selects the program of this run, or says why the graph cannot run so now. */
weft_status session_choose(weft_session *s, const char *graph, run_kind kind, chosen *c, weft_error *error);
/* A number that changes whenever one of the gradient buffers does to which `add` adds. */
uint64_t session_sums_version(const bound_program *add);
/* WEFT_ORDER when the graph's gradients are lost, or those of another graph are where they would be. */
weft_status session_check_sums(weft_session *s, const chosen *c, weft_error *error);
/* Makes the next run of this graph the first of a step. */
void session_forget_step(bound_program *head);

/* ---- session/gradients.c ---- */
/* Before an update alone, on every rank; `own` is the error of this one so far. WEFT_OK when all have added
 * as many micro-batches, and at least one. */
weft_status session_agree_on_update(weft_session *s, const char *graph, const chosen *c, weft_status own,
                                    weft_error *error);

/* ---- session/step.c: the step ---- */
/* Runs one step, after waiting for gathers in flight that it touches. Ignores pending deferred parts. */
weft_status session_step(weft_session *s, bound_program *r, step *st, weft_error *error);

/* ---- session/collectives.c: gathers; session/in_flight.c: deferred parts ---- */
/* A gather of n's bucket has started and outlasts its run (add); has arrived (remove); wait for it (await).
 */
void in_flight_add(weft_session *s, const weft_node *n, uint64_t ticket);
void in_flight_remove(weft_session *s, const weft_variable *bucket);
weft_status in_flight_await(weft_session *s, const weft_variable *bucket, weft_error *error);
/* Waits for the gathers in flight of all variables that a step touches. */
weft_status in_flight_await_touched(weft_session *s, const step *st, weft_error *error);
/* Finds what the deferred parts touch, once all programs are prepared. */
bool deferred_open(weft_session *s, weft_error *error);
/* How many steps of r must have run before `st`, and before the outputs of `next` are fetched, if r's
 * deferred part is pending. */
int deferred_needed_by(const bound_program *r, const step *st);
int deferred_needed_by_outputs(const bound_program *r, const bound_program *next);
/* Runs the pending deferred part as far as a step needs. deferred_at_end: leaves r's own deferred part
 * pending, and runs what is pending as far as r's outputs need. After an error none is pending; the rest of
 * it is lost. */
weft_status deferred_before(weft_session *s, const step *st, weft_error *error);
weft_status deferred_at_end(weft_session *s, bound_program *r, weft_error *error);
/* Runs the pending deferred part to its end, from outside of a run. */
weft_status deferred_finish(weft_session *s, weft_error *error);

/* ---- session/agree.c ---- */
/* Makes sure that all ranks hold one plan, and start from the same values and seed. False after an error. */
bool ranks_agree(weft_session *s, weft_error *error);
/* Every rank of the world calls it with its own status. WEFT_OK when all succeeded, else an error on all: the
 * rank's own, or that of the first rank that has one. `error` holds this rank's own and is not NULL. A
 * session without other ranks: own. */
weft_status ranks_settle(weft_session *s, const char *name, weft_status own, weft_error *error);
/* The same without a session. `comm` NULL, or of one rank: own. */
weft_status comm_settle(weft_comm *comm, const weft_env *env, const char *name, weft_status own,
                        weft_error *error);
/* The communicator of the ranks that share a part's gradients; the world for a part of no subgraph. */
weft_comm *part_group(const weft_session *s, const store_part *p);

/* ---- session/save.c ---- */
/* What a file has beside the store's values, whose names then begin with `prefix`. All ranks give the same
 * tensors, and `fill` is called on all of them, for the same pieces in the same order. */
typedef struct save_more {
    const char *prefix;
    int n;
    safetensors_tensor *tensors;
    safetensors_fill fill;
    void *context;
    byte_hash *hash; /* of what rank 0 has written so far; NULL: nobody asks */
} save_more;
/* One file of what all ranks hold, and more (NULL: no more). Nothing is in flight; every rank calls it, and
 * `error` is not NULL. */
weft_status session_save_with(weft_session *s, const char *path, bool training, const save_more *more,
                              weft_error *error);

/* ---- session/profile.c ---- */
/* A step ran from `began` to `finished`: adds its time, and calls the tracer. */
void note_time(weft_session *s, const bound_program *r, step *st, uint64_t began, uint64_t finished);
/* Before a step, from `began` on, the session waited for gathers in flight: calls the tracer. */
void note_arrival(weft_session *s, const bound_program *r, const step *st, uint64_t began);

/* session/verify.c: WEFT_INTERNAL with the rule's name, unless the session waits for all that it must. */
weft_status verify_session(const weft_session *s, weft_error *error);

#endif
