/* session_state.h - what a session is made of, shared by its files: session_open.c binds tensors and builds kernels,
 * session_run.c feeds, walks and fetches, session_lane.c talks to the other ranks, session_profile.c tells times. */
#ifndef WEFT_RUNTIME_SESSION_STATE_H
#define WEFT_RUNTIME_SESSION_STATE_H

#include "runtime/program.h"

/* One node, ready to run. */
typedef struct step {
    const weft_node *node;
    const weft_kernel *kernel;
    void *state;
    kernel_call call;
    tensor *in, *out;
    int n_touched; /* segments that it reads or writes, by variable index */
    int *touched;
    const uint64_t *version; /* a pack of a parameter: runs only when this has moved on from *packed */
    uint64_t *packed;
    double nanoseconds; /* when profiling */
    int64_t runs;
} step;

/* A fed input and the operands that read it: pointers to set at each run. */
typedef struct fed {
    const char *name;
    weft_value *value;
    size_t bytes;
    const void *data;
} fed;

typedef struct patch {
    tensor *operand;
    int input;
    int64_t offset; /* bytes */
} patch;

typedef struct fetched {
    const char *name;
    const char *memory;
    int input; /* >= 0: it is an input handed through; memory is NULL */
    size_t bytes;
} fetched;

typedef struct runnable {
    const program *p;
    int n_steps, n_inputs, n_patches, n_outputs;
    uint64_t *tickets; /* of collectives under way, by order */
    step *steps;
    fed *inputs;
    patch *patches;
    fetched *outputs;
    uint64_t **written; /* versions of what its updates change */
    int n_written;
    double *counter; /* the graph's random step counter in the store, or NULL */
    int64_t micro;   /* micro-batches since the last update (kept in the graph's first program) */
    run_state run;
} runnable;

struct weft_session {
    weft_env env;
    arena arena;
    const weft_plan *plan;
    weft_store *store;
    weft_comm *comm;   /* NULL: alone */
    uint64_t *carried; /* tickets of broadcasts that outlast their run, plus 1; by the segment\'s index */
    int n_carried;
    uint64_t run;      /* runs of programs with collectives so far */
    char *memory;      /* the arena, then the derived values */
    uint64_t *offsets; /* of variables, by index: used for derived ones */
    uint64_t *packed;  /* version of the parameter that a derived variable was made from, by index */
    runnable *programs;
    bool profiles;
    void (*event)(void *context, const weft_node_event *event); /* NULL: nobody traces */
    void *event_context;
};

/* ---- session_lane.c ---- */
/* All ranks hold one plan, and begin with rank 0's values and seed. */
bool lane_agree(weft_session *s, weft_error *error);
/* Starts a collective, or waits for a sum. */
weft_status lane_run(weft_session *s, runnable *r, const step *st, weft_error *error);
/* Carried broadcasts of the segments that a step touches have arrived when this returns. */
weft_status lane_arrive(weft_session *s, const step *st, weft_error *error);
/* After a failure: sums that were started in the first `reached` steps still work on the arena; waits for them. */
void lane_drain(weft_session *s, runnable *r, int reached);

/* ---- session_profile.c ---- */
uint64_t clock_ns(void);
/* A step that began at `began` has ended: counts it, tells the tracer. */
void note_time(weft_session *s, const runnable *r, step *st, uint64_t began);

#endif
