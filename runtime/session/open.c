/* open.c - opens and closes sessions. Opening binds every tensor of every program to its memory and builds
 * the kernels, so that a run only walks an array of prepared calls. Views cost nothing: they are pointers
 * into their root's memory. */
#include "runtime/session/state.h"
#include "runtime/store/room.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"
#include "ops/work.h"

#include <omp.h>
#include <string.h>

/* Where a variable's bytes are: derived values and constants after the arena, others in the store. NULL: the
 * store lacks it. */
static char *variable_memory(weft_session *s, const weft_variable *v) {
    if (variable_is_sessions(v))
        return s->memory + size_align(s->plan->memory.activations, MEM_ALIGN) + s->offsets[v->index];
    return store_memory(s->store, v->path, &v->type);
}

/* The index of an input value; -1: it is not an input. Inputs are in the order of the schedule: binary
 * search. */
static int input_index(const bound_program *r, const weft_value *root) {
    int low = 0, high = root->node->op == &weft_op_input ? r->n_inputs : 0;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (r->inputs[middle].value->node->order < root->node->order)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n_inputs && r->inputs[low].value == root ? low : -1;
}

/* Sets t's type, strides and data. Data of an input are unknown until it is fed: t becomes a relocation, and
 * t->data stays NULL. */
static bool bind(weft_session *s, bound_program *r, const weft_value *v, tensor *t, weft_error *error) {
    const weft_value *root = value_root(v);
    t->type = v->type;
    memcpy(t->stride, v->stride, sizeof t->stride);
    /* Three kinds of memory: a variable's, the caller's, the arena's. */
    if (root->variable) {
        char *memory = variable_memory(s, root->variable);
        if (!memory)
            return !error_set(
                error, WEFT_ORDER,
                "session: the store has no %s %s: it was made from another model, or for a plan without "
                "accumulation or options.manual",
                root->variable->path, TYPE(&root->variable->type));
        t->data = memory + value_offset(v);
        return true;
    }
    int input = input_index(r, root);
    if (input >= 0) {
        r->relocations[r->n_relocations++] = (relocation){t, input, value_offset(v)};
        return true;
    }
    t->data = s->memory + root->arena_offset + value_offset(v);
    return true;
}

/* The in-flight region starts at offset 0, so a value's first byte decides. */
static bool touches_in_flight(const weft_session *s, const weft_value *v) {
    const weft_value *root = value_root(v);
    return value_is_arenas(root) && (uint64_t)root->arena_offset < s->plan->in_flight_bytes;
}

/* Lists the variables of the store that the step touches, which may still be arriving when it runs, and
 * whether it must run after any pending deferred part. */
static bool note_touched(weft_session *s, step *st, const weft_node *n) {
    st->ends_deferred = node_starts_collective(n);
    if (n->workspace_bytes) st->ends_deferred |= (uint64_t)n->workspace_offset < s->plan->in_flight_bytes;
    st->touched = arena_new_array(&s->arena, n->n_in + n->n_out, sizeof *st->touched);
    for (int i = 0; st->touched && i < n->n_in + n->n_out; i++) {
        const weft_value *v = node_value_at(n, i);
        const weft_variable *owner = v ? value_owner(v) : NULL;
        if (owner) st->touched[st->n_touched++] = owner;
        st->ends_deferred |= v && touches_in_flight(s, v);
    }
    return st->touched != NULL;
}

/* Fills in the next step. It counts as soon as its kernel may have been opened, so that closing the session
 * closes the kernel. */
static bool prepare_step(weft_session *s, bound_program *r, weft_node *n, weft_error *error) {
    step *st = &r->steps[r->n_steps];
    st->node = n;
    st->kernel = n->kernel;
    st->in = arena_new_array(&s->arena, n->n_in, sizeof *st->in);
    st->out = arena_new_array(&s->arena, n->n_out, sizeof *st->out);
    if (!st->in || !st->out || !note_touched(s, st, n)) return !error_memory(error, "session");
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
                             /* On the CPU a node with little work uses one thread. */
                             .threads = s->cuda ? s->kernels.threads : node_threads(n, s->kernels.threads),
                             .run = s->cuda ? s->cuda_run : &r->run,
                             .cuda = s->kernels.cuda};
    /* Packs and casts of parameters: the store counts the parameter's versions, the session which one was
     * used. */
    const weft_variable *made = n->n_out ? n->out[0].variable : NULL;
    if (made && made->kind == VARIABLE_DERIVED) {
        st->version = store_version(s->store, value_root(n->in[0])->variable);
        st->packed = &s->packed[made->index];
    }
    const weft_variable *written = node_written(n);
    if (n->op == &weft_op_accumulate)
        written = n->in[accumulate_levels(((const accumulate_attrs *)n->attrs)->of) - 1]->variable;
    if (written) r->written[r->n_written++] = store_version(s->store, written);
    if (written && written->kind == VARIABLE_GRADIENT) r->sums[r->n_sums++] = r->written[r->n_written - 1];
    r->n_steps++; /* closing the session closes it from here on */
    return !n->kernel || !n->kernel->open || n->kernel->open(n, &s->kernels, &st->state, error) == WEFT_OK;
}

/* Binds outputs like operands, but without relocations: an input handed through is copied from where it was
 * fed. */
static bool prepare_outputs(weft_session *s, bound_program *r, weft_error *error) {
    for (graph_output *o = r->p->graph->outputs; o; o = o->next) {
        tensor t = {0};
        int relocations = r->n_relocations;
        if (!bind(s, r, o->value, &t, error)) return false;
        r->n_relocations = relocations;
        r->outputs[r->n_outputs++] = (fetched){.name = o->name,
                                               .memory = t.data,
                                               .input = t.data ? -1 : input_index(r, value_root(o->value)),
                                               .offset = value_offset(o->value),
                                               .owner = value_owner(o->value),
                                               .bytes = type_bytes(&o->value->type)};
    }
    return true;
}

/* The random step counter of the graph, if it has one. */
static void find_counter(weft_session *s, bound_program *r) {
    tensor_type type = type_scalar(WEFT_F64);
    counter_path path = counter_path_of(r->p->name);
    const weft_variable *v = variable_find(s->plan->model, path.text);
    r->counter = v ? store_memory(s->store, path.text, &type) : NULL;
    if (r->counter) r->counter_version = store_version(s->store, v);
}

/* Fills the memory of a tensor's bytes, which no step writes; once, whichever program has it first. */
static bool fill_constant(weft_session *s, const weft_variable *v, weft_error *error) {
    if (s->packed[v->index]) return true;
    s->packed[v->index] = 1;
    return !s->device->write(NULL, variable_memory(s, v), v->bytes->data, v->bytes->n, error);
}

static void add_input(bound_program *r, weft_node *n) {
    const tensor_type *t = &n->out[0].type;
    r->inputs[r->n_inputs++] = (input_binding){
        .name = input_name(n), .value = &n->out[0], .bytes = type_bytes(t), .at = r->input_bytes};
    r->input_bytes += type_room(t);
}

/* Binds one program: its inputs, its steps that have work, its outputs. */
static bool prepare_program(weft_session *s, bound_program *r, const program *p, weft_error *error) {
    /* Upper bounds for the arrays. */
    size_t nodes = 0, operands = 0, outputs = 0;
    for (weft_node *n = p->graph->first; n; n = n->next) {
        nodes++;
        operands += (size_t)(n->n_in + n->n_out);
    }
    for (graph_output *o = p->graph->outputs; o; o = o->next) outputs++;
    r->p = p;
    r->run.seed = s->store->seed;
    find_counter(s, r);
    r->steps = arena_new_array(&s->arena, nodes, sizeof *r->steps);
    r->inputs = arena_new_array(&s->arena, nodes, sizeof *r->inputs);
    /* Each operand, result or output may read an input. */
    r->relocations = arena_new_array(&s->arena, operands + outputs, sizeof *r->relocations);
    r->outputs = arena_new_array(&s->arena, outputs, sizeof *r->outputs);
    r->written = arena_new_array(&s->arena, nodes, sizeof *r->written);
    r->sums = arena_new_array(&s->arena, nodes, sizeof *r->sums);
    r->tickets = arena_new_array(&s->arena, p->n_collectives, sizeof *r->tickets);
    if (!r->written || !r->sums || !r->tickets || !r->steps || !r->inputs || !r->relocations || !r->outputs)
        return !error_memory(error, "session");
    for (weft_node *n = p->graph->first; n; n = n->next)
        if (n->op == &weft_op_input) add_input(r, n);
    for (weft_node *n = p->graph->first; n; n = n->next) {
        if (n->op == &weft_op_constant_tensor && !fill_constant(s, n->out[0].variable, error)) return false;
        if (!node_is_silent(n) && !prepare_step(s, r, n, error)) return false;
    }
    return prepare_outputs(s, r, error);
}

weft_session *weft_session_open(const weft_plan *plan, weft_store *store, weft_error *error) {
    return weft_session_open_on(plan, store, NULL, error);
}

/* The order matters: memory, the device (kernels need it), programs, and last the other ranks. */
weft_session *weft_session_open_on(const weft_plan *plan, weft_store *store, weft_comm *comm,
                                   weft_error *error) {
    /* The plan may have been compiled for other ranks, another device, or only in part. */
    if (plan && plan->options.world != (comm ? comm->world : 1))
        return error_set(error, WEFT_ORDER, "session: the plan is for a world of %d, the communicator has %d",
                         plan->options.world, comm ? comm->world : 1),
               NULL;
    if (!plan || !store || !plan->can_run) {
        if (!error || !error->status)
            error_set(error, WEFT_ARGUMENT, "session: a whole plan and a store are needed");
        return NULL;
    }
    if (store->device->kind != plan->options.device)
        return error_set(error, WEFT_ORDER, "session: the plan is for %s, the store's values are on %s",
                         device_name(plan->options.device), store->device->name),
               NULL;
    if (room_check(plan, "a session", session_bytes(plan), 0, NULL, comm ? comm->local_world : 1, NULL,
                   error))
        return NULL;
    weft_session *s = mem_new(&plan->env, sizeof *s);
    if (!s) return error_memory(error, "session"), NULL;
    s->env = plan->env;
    s->plan = plan;
    s->store = store;
    __atomic_fetch_add(&((weft_plan *)plan)->sessions, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&store->sessions, 1, __ATOMIC_RELAXED);
    s->comm = comm;
    arena_init(&s->arena, &s->env);
    uint64_t kinds[VARIABLE_KINDS];
    size_t variables = (size_t)plan->model->n_variables + 1;
    s->device = store->device;
    s->kernels = plan->kernels;
    s->memory =
        device_alloc(s->device, &s->env, session_bytes(plan), "session", weft_model_name(plan->model), error);
    s->offsets = arena_new_array(&s->arena, variables, sizeof *s->offsets);
    s->packed = arena_new_array(&s->arena, variables, sizeof *s->packed);
    s->in_flight = arena_new_array(&s->arena, variables, sizeof *s->in_flight);
    s->groups = arena_new_array(&s->arena, plan->n_groups, sizeof *s->groups);
    if (s->offsets) store_layout(plan, s->offsets, kinds);
    s->programs = arena_new_array(&s->arena, plan->n_programs, sizeof *s->programs);
    bool good = s->memory && s->programs && s->offsets && s->packed && s->in_flight && s->groups;
    if (!good && (!error || !error->status)) error_memory(error, "session");
    /* From here on kernels may be opened; s->kernels has this session's libraries. */
    good = good && !s->device->executor->open(s, error);
    for (int i = 0; good && i < plan->n_programs; i++)
        good = !plan->programs[i].trains || !store_check_cuts(store, plan, error);
    /* Kernels are built with the number of threads that they will run with. */
    int threads = omp_get_max_threads();
    omp_set_num_threads(plan->kernels.threads);
    for (int i = 0; good && i < plan->n_programs; i++)
        good = prepare_program(s, &s->programs[i], &plan->programs[i], error);
    omp_set_num_threads(threads);
    good = good && !s->device->executor->prepare(s, error);
    good = good && deferred_open(s, error) && places_open(s, error) && guard_open(s, error);
    if (good && comm && comm->world > 1) good = !store_check_parameters(store, "session", error);
    /* Only on request: it compares addresses of all steps. */
    if (good && plan->options.verify) good = verify_session(s, error) == WEFT_OK;
    good = good && (!comm || comm->world == 1 || (groups_open(s, error) && ranks_agree(s, error)));
    if (good && strategy_begin(s, error)) return s;
    weft_session_close(s);
    return NULL;
}

/* Also after a failed open, so any part may be missing. */
void weft_session_close(weft_session *s) {
    if (!s) return;
    /* A gather in flight would write into a store that is freed next. */
    if (s->in_flight) weft_sync(s, NULL);
    weft_env env = s->env;
    for (int i = 0; s->programs && i < s->plan->n_programs; i++)
        for (int k = 0; k < s->programs[i].n_steps; k++) {
            step *st = &s->programs[i].steps[k];
            if (st->kernel && st->kernel->close && st->state) st->kernel->close(st->state);
        }
    guard_close(s);
    s->device->executor->close(s);
    groups_close(s); /* after it: captured collectives hold on to their communicators */
    s->device->free(&env, s->memory, session_bytes(s->plan));
    arena_free(&s->arena);
    weft_plan_free((weft_plan *)s->plan);
    weft_store_free(s->store);
    mem_free(&env, s, sizeof *s);
}

/* Device memory in use beyond the session's own plan: libraries, other sessions and other processes. */
weft_status weft_session_extra_bytes(const weft_session *s, uint64_t *bytes, weft_error *error) {
    uint64_t own = s ? s->plan->memory.total : 0;
    if (!s || !bytes)
        return error_set(error, WEFT_ARGUMENT, "weft_session_extra_bytes: a session and a place are needed");
    size_t left, all;
    *bytes = 0;
    weft_status status = s->device->room ? s->device->room(&left, &all, error) : WEFT_OK;
    if (!status && s->device->room && all - left > own) *bytes = all - left - own;
    return status;
}
