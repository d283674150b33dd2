/* state.h - what a session is made of, shared by its files: session/open.c binds tensors and builds kernels,
 * session/run.c feeds, walks and fetches, session/in_flight.c keeps what a run left to later ones, session/collectives.c and
 * session/agree.c talk to the other ranks, session/save.c saves what they hold together, session/profile.c tells times. */
#ifndef WEFT_RUNTIME_SESSION_STATE_H
#define WEFT_RUNTIME_SESSION_STATE_H

#include "runtime/plan/program.h"
#include "runtime/plan/value.h"
#include "runtime/store/store.h"

/* One node, ready to run. */
typedef struct step {
    const weft_node *node;
    const weft_kernel *kernel;
    void *state;
    kernel_call call;
    tensor *in, *out;
    int n_touched; /* variables of the store that it reads or writes (a bucket for its parts) */
    const weft_variable **touched;
    bool ends_deferred; /* it starts a collective, or touches the in-flight region of the arena */
    const uint64_t
        *version; /* a pack or cast of a parameter: runs only when this has moved on from *packed */
    uint64_t *packed;
    double nanoseconds; /* of the runs that were timed */
    int64_t runs;
} step;

/* A fed input and the operands that read it: pointers to set at each run. */
typedef struct input_binding {
    const char *name;
    weft_value *value;
    size_t bytes;
    const void *data;
} input_binding;

typedef struct relocation {
    tensor *operand;
    int input;
    int64_t offset; /* bytes */
} relocation;

typedef struct fetched {
    const char *name;
    const char *memory;
    int input;      /* >= 0: it is an input handed through, from byte `offset` on; memory is NULL */
    int64_t offset; /* bytes */
    const weft_variable
        *owner; /* it lies in this one, whose next value may still be on its way; NULL: it cannot be */
    size_t bytes;
} fetched;

typedef struct bound_program {
    const program *p;
    int n_steps, n_inputs, n_relocations, n_outputs;
    uint64_t *tickets; /* of collectives under way, by order */
    step *steps;
    input_binding *inputs;
    relocation *relocations;
    fetched *outputs;
    uint64_t **written; /* versions of what its updates change */
    int n_written;
    uint64_t **sums; /* versions of the store's gradient buffers that it adds to: at most n_written of them */
    int n_sums;
    int deferred;        /* from this step on it may be left to later runs; n_steps: no step is */
    bool deferred_sends; /* collectives start there */
    int *
        needs; /* by variable: steps that come before another program's touch of it; NULL without a deferred part */
    store_entry **owners; /* what the deferred part touches */
    int n_owners;
    double *counter; /* the graph's random step counter in the store's memory, or NULL */
    /* Kept in the graph's first program: what the counter holds, as of this version of it in the store. */
    double random_step;
    uint64_t *counter_version, random_version;
    /* Of a step with accumulation, kept in the graph's first program: */
    int64_t micro;       /* micro-batches so far */
    bool ends_next;      /* weft_run_no_sync was among them: the next weft_run ends the step */
    uint64_t sums_stand; /* all versions of the gradient buffers added up, as the last run left them */
    run_state run;
} bound_program;

/* A program whose deferred part is not over; r NULL: there is none. */
typedef struct pending {
    bound_program *r;
    int next;     /* its first step that has not run */
    uint64_t run; /* its number: that of its collectives */
} pending;

/* How a kind of device runs programs. */
typedef struct executor {
    /* Before kernels are built: makes s->kernels.cuda and what else runs need. */
    weft_status (*open)(weft_session *s, weft_error *error);
    weft_status (*prepare)(weft_session *s, weft_error *error); /* once they are built */
    /* Feeds are in r->inputs; *reached: how many steps were taken, the one behind them failed. May return before the
     * device is done. */
    weft_status (*walk)(weft_session *s, bound_program *r, int *reached, weft_error *error);
    /* An output as the last walk of r made it, once it is there. */
    weft_status (*fetch)(weft_session *s, const bound_program *r, const fetched *from, void *into,
                         weft_error *error);
    /* Writes a number to the store's memory behind all that is under way, and need not wait for it. */
    weft_status (*put)(weft_session *s, double *to, double value, weft_error *error);
    /* What is in flight for a bucket has arrived when this returns, or when the device reaches what comes next. */
    weft_status (*arrive)(weft_session *s, const weft_variable *bucket, weft_error *error);
    /* Returns when the device has done all, with the error that it met, if any. */
    weft_status (*settle)(weft_session *s, weft_error *error);
    void (*close)(weft_session *s);
} executor;

struct weft_session {
    weft_env env;
    arena arena;
    const weft_plan *plan;
    const device *device;
    kernel_env kernels;        /* the plan's, with what this session has on its device */
    struct cuda_session *cuda; /* session/cuda; NULL on the CPU */
    run_state *cuda_run;       /* of the run under way, in the GPU's memory */
    weft_store *store;
    weft_comm *comm;    /* NULL: alone */
    weft_comm **groups; /* process group of each subgraph, by its index: comm itself, or one of ours */
    uint64_t *in_flight; /* tickets of gathers that outlast their run, plus 1; by the bucket's index */
    int n_in_flight;
    int32_t *votes; /* [world]: what each rank says when all are asked */
    uint64_t runs;  /* of programs with collectives so far */
    uint64_t run;   /* the number of that whose steps are run: the last one, or that of a deferred part */
    pending deferred;
    char *memory;      /* the arena, then the derived values */
    uint64_t *offsets; /* of variables, by index: used for derived ones */
    uint64_t *packed;  /* version of the parameter that a derived variable was made from, by index */
    bound_program *programs;
    bool profiles;
    bool checks, no_capture;                                    /* weft_session_check, weft_session_capture */
    void (*event)(void *context, const weft_node_event *event); /* NULL: nobody traces */
    void *event_context;
};

/* ---- session/open.c ---- */
/* The arena, derived values, on a GPU the places for inputs behind them. */
size_t session_bytes(const weft_plan *plan);

/* ---- session/check.c ---- */
/* WEFT_DATA when a result of the step is not finite. */
weft_status session_check_results(weft_session *s, const bound_program *r, const step *st, weft_error *error);

/* ---- session/collectives.c ---- */
/* The collective that a step starts, on the step's own buffers. */
weft_collective session_collective(const weft_session *s, const bound_program *r, const step *st);
/* Outlasts its run: nothing in its program waits for it. */
bool collective_outlasts_run(const weft_session *s, const weft_node *n);
/* Process groups. */
bool groups_open(weft_session *s, weft_error *error);
void groups_close(weft_session *s);
/* Starts a collective, or waits for a sum. */
weft_status collective_run(weft_session *s, bound_program *r, const step *st, weft_error *error);
/* After a failure: collectives of the first `reached` steps still work on the arena; waits for them. */
void collectives_drain(weft_session *s, bound_program *r, int reached);

/* ---- session/run.c ---- */
/* One step, whatever deferred part is pending; gathers in flight are waited for. */
weft_status session_step(weft_session *s, bound_program *r, step *st, weft_error *error);

/* ---- session/in_flight.c ---- */
/* A gather that outlasts its run is under way for n's bucket, by this ticket; it has arrived. */
void in_flight_add(weft_session *s, const weft_node *n, uint64_t ticket);
void in_flight_remove(weft_session *s, const weft_variable *bucket);
weft_status in_flight_await(weft_session *s, const weft_variable *bucket, weft_error *error);
/* In flight gathers of the variables that a step touches have arrived when this returns. */
weft_status in_flight_await_touched(weft_session *s, const step *st, weft_error *error);
/* Once all programs are prepared: what their deferred parts touch. */
bool deferred_open(weft_session *s, weft_error *error);
/* How far r's deferred part, if pending, must have come before a step, and before what is fetched; in steps. */
int deferred_needed_by(const bound_program *r, const step *st);
int deferred_needed_by_outputs(const bound_program *r, const bound_program *next);
/* Runs the pending deferred part as far as a step needs. At the end of a run: as far as its outputs need, and leaves its own. After an
 * error none is pending, and the rest of it is lost. */
weft_status deferred_before(weft_session *s, const step *st, weft_error *error);
weft_status deferred_at_end(weft_session *s, bound_program *r, weft_error *error);
/* To its end, from outside of a run. */
weft_status deferred_finish(weft_session *s, weft_error *error);

/* ---- session/agree.c ---- */
/* All ranks hold one plan, and begin with the same values and seed. */
bool ranks_agree(weft_session *s, weft_error *error);
/* "a=1 b=2\n" in place as *n settings, with room for one more: *room of them, to be freed. NULL: out of memory, or a word
 * has no '=', so that it could not be compared. */
weft_setting *settings_split(const weft_env *env, char *text, size_t *room, int *n, weft_error *error);
/* All ranks of the world call it with how it went for each: WEFT_OK when it went well for all, else an error on all, the
 * own or that of the first rank that has one. `error` holds the own and is not NULL. */
weft_status ranks_settle(weft_session *s, const char *name, weft_status own, weft_error *error);
/* Communicator of the ranks that share a part's gradients; the world for what belongs to no subgraph. */
weft_comm *part_group(const weft_session *s, const store_part *p);

/* ---- session/profile.c ---- */
uint64_t clock_ns(void);
/* A step that began at `began` has ended: counts it, tells the tracer. */
void note_time(weft_session *s, const bound_program *r, step *st, uint64_t began);
/* Before a step, since `began`, gathers in flight were waited for: tells the tracer. */
void note_arrival(weft_session *s, const bound_program *r, const step *st, uint64_t began);

/* verify.c: WEFT_INTERNAL and the rule's name unless the session waits for all that it must. */
weft_status verify_session(const weft_session *s, weft_error *error);

#endif
