/* session.c - runs a plan's programs on a store: opening binds every tensor to its memory and builds the kernels,
 * a run then walks an array of prepared calls. While it steps, a session makes no heap allocation of its own.
 */
#include "runtime/program.h"

#include "ops/collective.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* ---- opening: where every value lies ---- */

static uint64_t arena_bytes(const weft_plan *plan) {
    return size_align(plan->memory.activations, MEM_ALIGN);
}

static char *variable_memory(weft_session *s, const weft_variable *v) {
    if (v->kind == VARIABLE_DERIVED) return s->memory + arena_bytes(s->plan) + s->offsets[v->index];
    const weft_variable *root = v->kind == VARIABLE_PARAMETER && v->segment ? v->segment : v;
    char *base = store_memory(s->store, root->path, &root->type);
    return base && root != v ? base + v->offset * (int64_t)sizeof(float) : base;
}

static int input_index(const runnable *r, const weft_value *root) {
    for (int i = 0; i < r->n_inputs; i++)
        if (r->inputs[i].value == root) return i;
    return -1;
}

static bool bind(weft_session *s, runnable *r, const weft_value *v, tensor *t, weft_error *error) {
    const weft_value *root = value_root(v);
    t->type = v->type;
    memcpy(t->stride, v->stride, sizeof t->stride);
    if (root->variable) {
        char *memory = variable_memory(s, root->variable);
        if (!memory)
            return !error_set(
                error, WEFT_ORDER,
                "session: the store has no %s %s: it was made from another model, or for a plan without "
                "accumulation",
                root->variable->path, TYPE(&root->variable->type));
        t->data = memory + value_offset(v);
        return true;
    }
    int input = input_index(r, root);
    if (input >= 0) {
        r->patches[r->n_patches++] = (patch){t, input, value_offset(v)};
        return true;
    }
    t->data = s->memory + root->arena_offset + value_offset(v);
    return true;
}

/* ZeRO: an update belongs to the rank that owns its segment's optimizer state. */
static bool is_ours(const weft_session *s, const weft_node *n) {
    const weft_variable *v = n->op->writes && n->in[0] ? n->in[0]->variable : NULL;
    if (n->op->flags & OP_COMMUNICATES || !v || v->kind != VARIABLE_SEGMENT || !v->owner) return true;
    return v->owner == s->plan->options.rank + 1;
}

/* The segment whose memory an operand lies in, or NULL. */
static const weft_variable *segment_of(const weft_value *v) {
    const weft_variable *root = v ? value_root(v)->variable : NULL;
    if (!root) return NULL;
    return root->kind == VARIABLE_PARAMETER ? root->segment : root->kind == VARIABLE_SEGMENT ? root : NULL;
}

static bool note_segments(weft_session *s, step *st, const weft_node *n) {
    st->touched = arena_new_array(&s->arena, (size_t)n->n_in + 1, sizeof *st->touched);
    for (int i = 0; st->touched && i < n->n_in; i++) {
        const weft_variable *v = segment_of(n->in[i]);
        if (v && v->owner) st->touched[st->n_touched++] = v->index;
    }
    return st->touched != NULL;
}

static bool prepare_step(weft_session *s, runnable *r, weft_node *n, weft_error *error) {
    step *st = &r->steps[r->n_steps];
    st->node = n;
    st->kernel = n->kernel;
    st->in = arena_new_array(&s->arena, (size_t)n->n_in + 1, sizeof *st->in);
    st->out = arena_new_array(&s->arena, (size_t)n->n_out + 1, sizeof *st->out);
    if (!st->in || !st->out || !note_segments(s, st, n)) return !error_memory(error, "session");
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !bind(s, r, n->in[i], &st->in[i], error)) return false;
    for (int k = 0; k < n->n_out; k++)
        if (!bind(s, r, &n->out[k], &st->out[k], error)) return false;
    st->call = (kernel_call){.node = n,
                             .attrs = n->attrs,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = st->in,
                             .out = st->out,
                             .workspace = n->workspace_bytes ? s->memory + n->workspace_offset : NULL,
                             .threads = s->plan->kernels.threads,
                             .run = &r->run};
    const weft_variable *made = n->n_out ? n->out[0].variable : NULL;
    if (made && made->kind == VARIABLE_DERIVED) {
        st->version = store_version(s->store, n->in[0]->variable);
        st->packed = &s->packed[made->index];
    }
    if (n->op->writes && n->in[0]->variable)
        r->written[r->n_written++] = store_version(s->store, n->in[0]->variable);
    r->n_steps++; /* from here on closing closes it */
    return !n->kernel || !n->kernel->open ||
           n->kernel->open(n, &s->plan->kernels, &st->state, error) == WEFT_OK;
}

static bool prepare_outputs(weft_session *s, runnable *r, weft_error *error) {
    for (graph_output *o = r->p->graph->outputs; o; o = o->next) {
        tensor t = {0};
        int patches = r->n_patches;
        if (!bind(s, r, o->value, &t, error)) return false;
        r->n_patches = patches;
        r->outputs[r->n_outputs++] = (fetched){.name = o->name,
                                               .memory = t.data,
                                               .input = t.data ? -1 : input_index(r, value_root(o->value)),
                                               .bytes = type_bytes(&o->value->type)};
    }
    return true;
}

static double *counter_of(weft_session *s, const program *p) {
    tensor_type type = type_scalar(WEFT_F64);
    char path[300];
    snprintf(path, sizeof path, "optimizer.graph/%s/step", p->name);
    return store_memory(s->store, path, &type);
}

static bool prepare(weft_session *s, runnable *r, const program *p, weft_error *error) {
    size_t nodes = 0, operands = 0, outputs = 0;
    for (weft_node *n = p->graph->first; n; n = n->next) {
        nodes++;
        operands += (size_t)(n->n_in + n->n_out);
    }
    for (graph_output *o = p->graph->outputs; o; o = o->next) outputs++;
    r->p = p;
    r->run.seed = store_seed(s->store);
    r->counter = counter_of(s, p);
    r->steps = arena_new_array(&s->arena, nodes + 1, sizeof *r->steps);
    r->inputs = arena_new_array(&s->arena, nodes + 1, sizeof *r->inputs);
    r->patches = arena_new_array(&s->arena, operands + outputs + 1, sizeof *r->patches);
    r->outputs = arena_new_array(&s->arena, outputs + 1, sizeof *r->outputs);
    r->written = arena_new_array(&s->arena, nodes + 1, sizeof *r->written);
    r->tickets = arena_new_array(&s->arena, (size_t)p->n_collectives + 1, sizeof *r->tickets);
    if (!r->written || !r->tickets || !r->steps || !r->inputs || !r->patches || !r->outputs)
        return !error_memory(error, "session");
    for (weft_node *n = p->graph->first; n; n = n->next)
        if (n->op == &weft_op_input)
            r->inputs[r->n_inputs++] =
                (fed){.name = input_name(n), .value = &n->out[0], .bytes = type_bytes(&n->out[0].type)};
    for (weft_node *n = p->graph->first; n; n = n->next)
        if (!node_is_silent(n) && is_ours(s, n) && !prepare_step(s, r, n, error)) return false;
    return prepare_outputs(s, r, error);
}

static size_t session_bytes(const weft_plan *plan) {
    return arena_bytes(plan) + plan->memory.derived;
}

/* All ranks hold one plan, and begin with rank 0's values. */
static bool agree(weft_session *s, weft_error *error) {
    char fingerprint[40];
    uint64_t bytes;
    snprintf(fingerprint, sizeof fingerprint, "plan %016llx", (unsigned long long)plan_fingerprint(s->plan));
    weft_collective same = {.kind = WEFT_BARRIER, .name = fingerprint};
    if (weft_comm_run(s->comm, &same, error)) return false;
    weft_collective values = {.kind = WEFT_BROADCAST, .dtype = WEFT_U8, .name = "store"};
    values.buffer = store_block(s->store, &bytes);
    values.count = bytes;
    if (weft_comm_run(s->comm, &values, error)) return false;
    uint64_t number =
        store_seed(s->store); /* random nodes draw alike on all ranks: by micro-batch, not by rank */
    weft_collective seed = {
        .kind = WEFT_BROADCAST, .dtype = WEFT_U8, .name = "seed", .buffer = &number, .count = sizeof number};
    if (weft_comm_run(s->comm, &seed, error)) return false;
    for (int i = 0; i < s->plan->n_programs; i++) s->programs[i].run.seed = number;
    return true;
}

weft_session *weft_session_open(const weft_plan *plan, weft_store *store, weft_error *error) {
    return weft_session_open_on(plan, store, NULL, error);
}

weft_session *weft_session_open_on(const weft_plan *plan, weft_store *store, weft_comm *comm,
                                   weft_error *error) {
    if (plan && plan->options.world != (comm ? comm->world : 1)) {
        error_set(error, WEFT_ORDER, "session: the plan is for a world of %d, the communicator has %d",
                  plan->options.world, comm ? comm->world : 1);
        return NULL;
    }
    if (!plan || !store || !plan->can_run) {
        if (!error || !error->status)
            error_set(error, WEFT_ARGUMENT, "session: a whole plan and a store are needed");
        return NULL;
    }
    weft_session *s = mem_new(&plan->env, sizeof *s);
    if (!s) {
        error_memory(error, "session");
        return NULL;
    }
    s->env = plan->env;
    s->plan = plan;
    s->store = store;
    s->comm = comm;
    arena_init(&s->arena, &s->env);
    uint64_t kinds[VARIABLE_KINDS];
    size_t variables = (size_t)plan->model->n_variables + 1;
    s->memory = mem_raw(&s->env, session_bytes(plan));
    s->offsets = arena_new_array(&s->arena, variables, sizeof *s->offsets);
    s->packed = arena_new_array(&s->arena, variables, sizeof *s->packed);
    s->carried = arena_new_array(&s->arena, variables, sizeof *s->carried);
    if (s->offsets) store_layout(plan, s->offsets, kinds);
    s->programs = arena_new_array(&s->arena, (size_t)plan->n_programs + 1, sizeof *s->programs);
    bool good = (s->memory && s->programs && s->offsets && s->packed && s->carried) ||
                !error_memory(error, "session");
    int threads = omp_get_max_threads();
    omp_set_num_threads(plan->kernels.threads);
    for (int i = 0; good && i < plan->n_programs; i++)
        good = prepare(s, &s->programs[i], &plan->programs[i], error);
    omp_set_num_threads(threads);
    if (good && (!comm || comm->world == 1 || agree(s, error))) return s;
    weft_session_close(s);
    return NULL;
}

static weft_status arrive_all(weft_session *s, weft_error *error);

void weft_session_close(weft_session *s) {
    if (!s) return;
    if (s->carried) arrive_all(s, NULL);
    weft_env env = s->env;
    for (int i = 0; s->programs && i < s->plan->n_programs; i++)
        for (int k = 0; k < s->programs[i].n_steps; k++) {
            step *st = &s->programs[i].steps[k];
            if (st->kernel && st->kernel->close && st->state) st->kernel->close(st->state);
        }
    mem_free(&env, s->memory, session_bytes(s->plan));
    arena_free(&s->arena);
    mem_free(&env, s, sizeof *s);
}

/* ---- running ---- */

static runnable *find_runnable(weft_session *s, const char *graph, program_phase phase) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (s->programs[i].p->phase == phase && strcmp(s->programs[i].p->name, graph) == 0)
            return &s->programs[i];
    return NULL;
}

/* The program of this run: with accumulation the first, the middle ones, the last. */
static runnable *choose(weft_session *s, const char *graph, runnable **head) {
    runnable *whole = find_runnable(s, graph, PHASE_WHOLE);
    *head = whole ? whole : find_runnable(s, graph, PHASE_FIRST);
    if (whole || !*head || (*head)->micro == 0) return *head;
    bool last = (*head)->micro == s->plan->options.accumulate - 1;
    return find_runnable(s, graph, last ? PHASE_LAST : PHASE_ADD);
}

static weft_status feed(runnable *r, const weft_feed *feeds, int n_feeds, weft_error *error) {
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].data = NULL;
    for (int f = 0; f < n_feeds; f++) {
        int i = 0;
        while (i < r->n_inputs && (!feeds[f].name || strcmp(r->inputs[i].name, feeds[f].name))) i++;
        if (i == r->n_inputs)
            return error_set(error, WEFT_NAME, "graph %s has no input '%s'", r->p->name, SHOW(feeds[f].name));
        const fed *in = &r->inputs[i];
        if (in->data)
            return error_set(error, WEFT_NAME, "graph %s: input '%s' is fed twice", r->p->name, in->name);
        if (feeds[f].bytes != in->bytes)
            return error_set(error, WEFT_SHAPE, "graph %s: input '%s' is %s, %zu bytes; it was fed %zu",
                             r->p->name, in->name, TYPE(&in->value->type), in->bytes, feeds[f].bytes);
        if (!feeds[f].data || (uintptr_t)feeds[f].data % dtype_bytes(in->value->type.dtype))
            return error_set(error, WEFT_ARGUMENT,
                             "graph %s: the data of input '%s' are NULL or not aligned to %zu", r->p->name,
                             in->name, dtype_bytes(in->value->type.dtype));
        r->inputs[i].data = feeds[f].data;
    }
    for (int i = 0; i < r->n_inputs; i++)
        if (!r->inputs[i].data)
            return error_set(error, WEFT_NAME, "graph %s: input '%s' (%s) is not fed", r->p->name,
                             r->inputs[i].name, TYPE(&r->inputs[i].value->type));
    for (int i = 0; i < r->n_patches; i++) {
        const patch *p = &r->patches[i];
        p->operand->data = (char *)(uintptr_t)r->inputs[p->input].data + p->offset;
    }
    return WEFT_OK;
}

static const fetched *find_output(const runnable *r, const char *name) {
    for (int i = 0; i < r->n_outputs; i++)
        if (name && strcmp(r->outputs[i].name, name) == 0) return &r->outputs[i];
    return NULL;
}

static weft_status check_fetches(const runnable *r, const weft_fetch *fetches, int n, weft_error *error) {
    for (int f = 0; f < n; f++) {
        const fetched *o = find_output(r, fetches[f].name);
        if (!o)
            return error_set(error, WEFT_NAME, "graph %s has no output '%s'", r->p->name,
                             SHOW(fetches[f].name));
        if (fetches[f].bytes != o->bytes || !fetches[f].data)
            return error_set(error, WEFT_SHAPE,
                             "graph %s: output '%s' has %zu bytes; the caller has room for %zu", r->p->name,
                             o->name, o->bytes, fetches[f].data ? fetches[f].bytes : 0);
    }
    return WEFT_OK;
}

static void fetch(const runnable *r, const weft_fetch *fetches, int n) {
    for (int f = 0; f < n; f++) {
        const fetched *o = find_output(r, fetches[f].name);
        const void *from = o->memory ? o->memory : r->inputs[o->input].data;
        memcpy(fetches[f].data, from, o->bytes);
    }
}

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the communication lane ---- */

static bool is_sum(const weft_node *n) {
    return n->op == &weft_op_all_reduce || n->op == &weft_op_reduce;
}

/* After a failure: sums that were started still work on the arena; nobody else will wait for them. */
static void drain(weft_session *s, runnable *r, int reached) {
    for (int i = 0; i < reached; i++)
        if (is_sum(r->steps[i].node))
            weft_comm_wait(s->comm, r->tickets[((const collective_attrs *)r->steps[i].node->attrs)->order],
                           NULL);
}

/* Carried broadcasts of segment `index` have arrived when this returns. */
static weft_status arrive(weft_session *s, int index, weft_error *error) {
    if (!s->carried[index]) return WEFT_OK;
    weft_status status = weft_comm_wait(s->comm, s->carried[index] - 1, error);
    s->carried[index] = 0;
    s->n_carried--;
    return status;
}

static weft_status arrive_all(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; s->n_carried && i < s->plan->model->n_variables && !status; i++)
        status = arrive(s, i, error);
    return status;
}

weft_status weft_sync(weft_session *s, weft_error *error) {
    return s ? arrive_all(s, error) : error_set(error, WEFT_ARGUMENT, "sync: there is no session");
}

/* Starts a collective, or waits for a sum. */
static weft_status communicate(weft_session *s, runnable *r, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    if (n->op == &weft_op_wait) {
        const collective_attrs *a = n->in[0]->node->attrs;
        return weft_comm_wait(s->comm, r->tickets[a->order], error);
    }
    const collective_attrs *a = n->attrs;
    weft_collective c = {.kind = n->op == &weft_op_broadcast ? WEFT_BROADCAST
                                 : n->op == &weft_op_reduce  ? WEFT_REDUCE
                                                             : WEFT_ALL_REDUCE,
                         .dtype = WEFT_F32,
                         .buffer = st->in[0].data,
                         .count = (size_t)type_elements(&st->in[0].type),
                         .root = (int)a->root,
                         .scratch = is_sum(n) ? st->out[1].data : NULL,
                         .scratch_bytes = is_sum(n) ? (size_t)a->scratch : 0,
                         .order = (uint64_t)a->order,
                         .run = s->run,
                         .program = r->p->name,
                         .name = a->path};
    weft_status status = weft_comm_start(s->comm, &c, &r->tickets[a->order], error);
    if (status || is_sum(n)) return status;
    s->carried[n->variable->index] = r->tickets[a->order] + 1;
    s->n_carried++;
    return WEFT_OK;
}

/* Profile and trace: a node has just finished. */
static void note(weft_session *s, const runnable *r, step *st, uint64_t began) {
    uint64_t now = clock_ns();
    const weft_node *n = st->node;
    st->nanoseconds += (double)(now - began);
    if (!s->event) return;
    const weft_node *start = n->op == &weft_op_wait ? n->in[0]->node : n;
    weft_node_event e = {.graph = r->p->name,
                         .op = n->op->name,
                         .scope = n->scope,
                         .kernel = st->kernel ? st->kernel->name : NULL,
                         .id = n->n_out ? n->out[0].id : 0,
                         .run = r->p->n_collectives ? s->run : 0,
                         .order = st->kernel ? -1 : ((const collective_attrs *)start->attrs)->order,
                         .is_wait = start != n,
                         .began_ns = began,
                         .finished_ns = now};
    s->event(s->event_context, &e);
}

static weft_status walk(weft_session *s, runnable *r, weft_error *error) {
    weft_status status = WEFT_OK;
    int reached = 0;
    bool is_timed = s->profiles || s->event;
    for (; reached < r->n_steps && !status; reached++) {
        step *st = &r->steps[reached];
        if (st->version && *st->version == *st->packed) continue;
        for (int k = 0; s->n_carried && k < st->n_touched && !status; k++)
            status = arrive(s, st->touched[k], error);
        if (status) break;
        uint64_t began = is_timed ? clock_ns() : 0;
        st->call.error = error;
        status = st->kernel ? st->kernel->run(st->state, &st->call) : communicate(s, r, st, error);
        if (is_timed) note(s, r, st, began);
        st->runs++;
        if (st->version && !status) *st->packed = *st->version;
    }
    if (status && r->p->n_collectives) drain(s, r, reached);
    for (int i = 0; i < r->n_written; i++) ++*r->written[i];
    return status;
}

weft_status weft_run(weft_session *s, const char *graph, const weft_feed *feeds, int n_feeds,
                     const weft_fetch *fetches, int n_fetches, weft_error *error) {
    if (!s || !graph) return error_set(error, WEFT_ARGUMENT, "run: a session and a graph's name are needed");
    weft_error own = {0};
    runnable *head, *r = choose(s, graph, &head);
    if (!r) return error_set(error, WEFT_NAME, "run: the plan has no graph '%s'", SHOW(graph));
    weft_status status = feed(r, feeds, n_feeds, error);
    if (!status) status = check_fetches(r, fetches, n_fetches, error);
    if (status) return status;
    r->run.step = r->counter ? (int64_t)*r->counter : 0;
    r->run.local = head->micro;
    r->run.micro = head->micro + (s->comm ? (int64_t)s->comm->rank * s->plan->options.accumulate : 0);
    if (r->p->n_collectives) s->run++;
    int threads = omp_get_max_threads();
    omp_set_num_threads(s->plan->kernels.threads);
    status = walk(s, r, error ? error : &own);
    omp_set_num_threads(threads);
    if (status) return status;
    fetch(r, fetches, n_fetches);
    bool step_done = r->p->phase == PHASE_WHOLE || r->p->phase == PHASE_LAST;
    head->micro = step_done ? 0 : head->micro + 1;
    if (r->counter && step_done) *r->counter += 1;
    return WEFT_OK;
}

/* ---- profile ---- */

void weft_session_profile(weft_session *s, bool on) {
    if (s) s->profiles = on;
}

void weft_session_trace(weft_session *s, void (*event)(void *context, const weft_node_event *event),
                        void *context) {
    if (!s) return;
    s->event = event;
    s->event_context = context;
}

static int slower_first(const void *pa, const void *pb) {
    const step *a = *(step *const *)pa, *b = *(step *const *)pb;
    return a->nanoseconds < b->nanoseconds ? 1 : a->nanoseconds > b->nanoseconds ? -1 : 0;
}

static void profile_program(text *t, const runnable *r) {
    double total = 0;
    step **list = malloc(((size_t)r->n_steps + 1) * sizeof *list);
    if (!list) return;
    for (int i = 0; i < r->n_steps; i++) {
        list[i] = &r->steps[i];
        total += r->steps[i].nanoseconds;
    }
    qsort(list, (size_t)r->n_steps, sizeof *list, slower_first);
    text_add(t, "program %s: %.3f ms a run in %d nodes\n", r->p->graph->name,
             r->n_steps && r->steps[r->n_steps - 1].runs
                 ? total * 1e-6 / (double)r->steps[r->n_steps - 1].runs
                 : 0,
             r->n_steps);
    for (int i = 0; i < r->n_steps; i++) {
        if (!list[i]->runs) continue;
        text_add(t, "%10.1f us %5.1f%%  %%%-5d %s ", list[i]->nanoseconds * 1e-3 / (double)list[i]->runs,
                 total > 0 ? 100 * list[i]->nanoseconds / total : 0, list[i]->node->id,
                 list[i]->kernel->name);
        node_signature(t, list[i]->node);
        text_add(t, " in %s\n", list[i]->node->scope);
    }
    free(list);
}

char *weft_session_profile_text(const weft_session *s) {
    text t = {0};
    for (int i = 0; s && i < s->plan->n_programs; i++) profile_program(&t, &s->programs[i]);
    return text_take(&t);
}
