/* run.c - one run: binds feeds, walks an array of prepared calls, copies outputs. Once open, a session makes
 * no heap allocation of its own while it runs. */
#include "runtime/session/state.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Reads the random counter again if it was loaded, or another session changed it. */
static weft_status read_counter(weft_session *s, bound_program *head, weft_error *error) {
    if (!head->counter || *head->counter_version == head->random_version) return WEFT_OK;
    weft_status status =
        store_fetch(s->store, &head->random_step, head->counter, sizeof head->random_step, error);
    if (!status) head->random_version = *head->counter_version;
    return status;
}

/* After a successful run: counts the micro-batch, and at the end of a step the random counter. A loss alone
 * belongs to no step. */
static weft_status count(weft_session *s, chosen *c, run_kind kind, weft_error *error) {
    bool is_done = program_ends_step(c->now->p);
    bound_program *head = c->head;
    if (kind == RUN_LOSS) return WEFT_OK;
    head->micro = is_done ? 0 : head->micro + 1;
    head->ends_next = !is_done && (head->ends_next || kind == RUN_NO_SYNC);
    if (!head->counter || !is_done) return WEFT_OK;
    head->random_step += 1;
    head->random_version = ++*head->counter_version;
    return s->device->executor->put(s, head->counter, head->random_step, error);
}

/* After a run that failed after `reached` steps. A middle run may be repeated: adding its gradients again
 * changes nothing, because they go to a level of their own. A last run overwrites levels: after its first sum
 * or update the step is lost. */
static void discount(weft_session *s, chosen *c, int reached) {
    bool has_written = false, has_started = false;
    for (int i = 0; i < reached; i++) {
        const weft_node *n = c->now->steps[i].node;
        has_written |= n->op->writes && n->in[0]->variable;
        has_started |= node_starts_collective(n);
    }
    if (program_ends_step(c->now->p) && has_written) session_forget_step(c->head);
    /* the other ranks have not seen this run, so its repetition is the one that they wait for */
    if (c->now->p->n_collectives && !has_started) s->runs--;
}

/* ---- feeds and fetches ---- */

/* The error for a feed of another size. If it is whole rows, the error names the batch. */
static weft_status wrong_size(const bound_program *r, const input_binding *in, size_t bytes,
                              weft_error *error) {
    char batch[160] = "";
    const tensor_type *t = &in->value->type;
    size_t row = t->ndim ? in->bytes / (size_t)t->shape[0] : 0;
    if (row && bytes && bytes % row == 0)
        snprintf(batch, sizeof batch,
                 ", a batch of %zu: feed %jd, or compile with options.batch (for an axis that is WEFT_BATCH)",
                 bytes / row, t->shape[0]);
    return error_set(error, WEFT_SHAPE, "graph %s: input '%s' is %s, %zu bytes; it was fed %zu%s", r->p->name,
                     in->name, TYPE(t), in->bytes, bytes, batch);
}

/* Checks all feeds before any pointer is set: each input is fed once, with its size, aligned to its elements.
 */
static weft_status feed(bound_program *r, const weft_feed *feeds, int n_feeds, weft_error *error) {
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].data = NULL;
    for (int f = 0; f < n_feeds; f++) {
        int i = 0;
        while (i < r->n_inputs && (!feeds[f].name || strcmp(r->inputs[i].name, feeds[f].name))) i++;
        if (i == r->n_inputs)
            return error_set(error, WEFT_NAME, "graph %s has no input '%s'", r->p->name, SHOW(feeds[f].name));
        const input_binding *in = &r->inputs[i];
        if (in->data)
            return error_set(error, WEFT_NAME, "graph %s: input '%s' is fed twice", r->p->name, in->name);
        if (feeds[f].bytes != in->bytes) return wrong_size(r, in, feeds[f].bytes, error);
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
    session_relocate(r);
    return WEFT_OK;
}

/* Graphs have few outputs, so a linear search serves. */
static const fetched *find_output(const bound_program *r, const char *name) {
    for (int i = 0; i < r->n_outputs; i++)
        if (name && strcmp(r->outputs[i].name, name) == 0) return &r->outputs[i];
    return NULL;
}

/* Before the run, so that a misspelt output changes nothing. */
static weft_status check_fetches(const bound_program *r, const weft_fetch *fetches, int n,
                                 weft_error *error) {
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

static weft_status fetch(weft_session *s, const bound_program *r, const weft_fetch *fetches, int n,
                         weft_error *error) {
    weft_status status = WEFT_OK;
    for (int f = 0; f < n && !status; f++)
        status = s->device->executor->fetch(s, r, find_output(r, fetches[f].name), fetches[f].data, error);
    return status;
}

/* Outputs in the store's own memory may still be arriving from another rank. */
static weft_status arrive_for_fetch(weft_session *s, const bound_program *r, const weft_fetch *fetches, int n,
                                    weft_error *error) {
    weft_status status = WEFT_OK;
    for (int f = 0; s->n_in_flight && f < n && !status; f++) {
        const weft_variable *owner = find_output(r, fetches[f].name)->owner;
        if (owner) status = s->device->executor->arrive(s, owner, error);
    }
    return status;
}

/* ---- the CPU as an executor: it works at once, so nothing is ever left to wait for ---- */

static weft_status keep_here(weft_session *s, const bound_program *r, char *to, weft_error *error) {
    for (int i = 0; i < r->n_inputs; i++) memcpy(to + r->inputs[i].at, r->inputs[i].data, r->inputs[i].bytes);
    return WEFT_OK;
}

/* Up to the deferred part; before each step runs as much of the pending one as it needs. *reached: how many
 * steps ran; on an error, the next one failed. Versions count even then, since a failed run may have
 * written. */
static weft_status walk(weft_session *s, bound_program *r, int *reached, weft_error *error) {
    int end = s->examines ? r->n_steps : r->deferred;
    weft_status status = r->keep ? keep_here(s, r, r->keep, error) : WEFT_OK;
    for (*reached = 0; *reached < end; ++*reached) {
        step *st = &r->steps[*reached];
        if ((s->deferred.r && (status = deferred_before(s, st, error))) ||
            (status = session_step(s, r, st, error)))
            break;
    }
    if (status && r->p->n_collectives) collectives_drain(s, r, *reached);
    for (int i = 0; i < r->n_written; i++) ++*r->written[i];
    return status || s->examines ? status : deferred_at_end(s, r, error);
}

static weft_status open_nothing(weft_session *s, weft_error *error) {
    return WEFT_OK;
}

static weft_status fetch_here(weft_session *s, const bound_program *r, const fetched *from, void *into,
                              weft_error *error) {
    const char *memory =
        from->memory ? from->memory : (const char *)r->inputs[from->input].data + from->offset;
    memcpy(into, memory, from->bytes);
    return WEFT_OK;
}

static weft_status put_here(weft_session *s, double *to, double value, weft_error *error) {
    *to = value;
    return WEFT_OK;
}

static weft_status copy_here(weft_session *s, void *to, const void *from, size_t bytes, weft_error *error) {
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static void close_nothing(weft_session *s) {
}

const executor executor_cpu = {open_nothing, open_nothing,    walk,         fetch_here,   put_here, copy_here,
                               keep_here,    in_flight_await, open_nothing, close_nothing};

/* ---- a run, on any device ---- */

/* Runs the chosen program on the session's device, with its number of threads. */
static weft_status run_chosen(weft_session *s, chosen *c, weft_error *error) {
    bound_program *r = c->now;
    int reached, threads = omp_get_max_threads();
    weft_status status = read_counter(s, c->head, error);
    if (status) return status;
    /* an update alone follows the last micro-batch, and has its number */
    session_number(s, c->head, r, c->head->micro - (r->p->phase == PHASE_UPDATE));
    if (c->head->kept) status = guard_before(s, c, error);
    if (status) return status;
    omp_set_num_threads(s->plan->kernels.threads);
    status = s->device->executor->walk(s, r, &reached, error);
    omp_set_num_threads(threads);
    if (r->left) weft_comm_place(s->comm, r->left);
    /* the first program assigns the buffers that the others add to, so it changes them too */
    for (int i = 0; r->p->phase == PHASE_FIRST && i < c->add->n_sums; i++) ++*c->add->sums[i];
    /* a loss alone adds nothing, and must not hide what another session did to the buffers */
    if (c->add && r->p->phase != PHASE_LOSS) c->head->sums_version = session_sums_version(c->add);
    if (status) discount(s, c, reached);
    return status;
}

/* Averages are for reading: updating them would not update the parameters. */
static weft_status check_parameters(const weft_session *s, const bound_program *r, weft_error *error) {
    bool writes = r->p->trains;
    if (!s->store->has_averages) return WEFT_OK;
    for (const weft_node *n = r->p->graph->first; n && !writes; n = n->next)
        writes = n->op == &weft_op_assign &&
                 (n->variable->kind == VARIABLE_PARAMETER || store_has_average(s->store, n->variable->path));
    return writes ? store_check_parameters(s->store, r->p->name, error) : WEFT_OK;
}

/* What arrives in the store must be this session's own. */
static weft_status check_arriving(const weft_session *s, weft_error *error) {
    bool is_own = s->store->n_arriving == s->n_in_flight + (s->deferred.r ? s->deferred.r->n_owners : 0);
    return is_own ? WEFT_OK : store_check_settled(s->store, "run: another session on the store", error);
}

/* Everything is checked before the first step runs, so most errors change nothing. */
static weft_status run_graph(weft_session *s, const char *graph, run_kind kind, const weft_feed *feeds,
                             int n_feeds, const weft_fetch *fetches, int n_fetches, weft_error *error) {
    if (!s || !graph) return error_set(error, WEFT_ARGUMENT, "run: a session and a graph's name are needed");
    if (n_feeds < 0 || n_fetches < 0 || (n_feeds && !feeds) || (n_fetches && !fetches))
        return error_set(error, WEFT_ARGUMENT,
                         "run: %d feeds and %d fetches, but %s NULL or the count is negative", n_feeds,
                         n_fetches, n_feeds && !feeds ? "feeds is" : "fetches is");
    weft_error own = {0};
    chosen c = {0};
    weft_status status = check_arriving(s, error);
    if (!status) status = session_choose(s, graph, kind, &c, error);
    if (!status) status = check_parameters(s, c.now, error);
    if (kind == RUN_UPDATE) status = session_agree_on_update(s, graph, &c, status, error);
    if (!status && kind != RUN_UPDATE) status = strategy_before_forward(s, graph, &feeds, n_feeds, error);
    if (!status) status = feed(c.now, feeds, n_feeds, error);
    if (!status) status = check_fetches(c.now, fetches, n_fetches, error);
    if (!status) status = run_chosen(s, &c, error ? error : &own);
    if (!status && c.head->kept) status = guard_after(s, &c, error);
    if (status) return status;
    status = count(s, &c, kind, error);
    if (!status) status = arrive_for_fetch(s, c.now, fetches, n_fetches, error);
    return status ? status : fetch(s, c.now, fetches, n_fetches, error);
}

weft_status weft_run(weft_session *s, const char *graph, const weft_feed *feeds, int n_feeds,
                     const weft_fetch *fetches, int n_fetches, weft_error *error) {
    return run_graph(s, graph, RUN_WHOLE, feeds, n_feeds, fetches, n_fetches, error);
}

weft_status weft_run_no_sync(weft_session *s, const char *graph, const weft_feed *feeds, int n_feeds,
                             const weft_fetch *fetches, int n_fetches, weft_error *error) {
    return run_graph(s, graph, RUN_NO_SYNC, feeds, n_feeds, fetches, n_fetches, error);
}

weft_status weft_run_loss(weft_session *s, const char *graph, const weft_feed *feeds, int n_feeds,
                          const weft_fetch *fetches, int n_fetches, weft_error *error) {
    return run_graph(s, graph, RUN_LOSS, feeds, n_feeds, fetches, n_fetches, error);
}

weft_status weft_run_update(weft_session *s, const char *graph, weft_error *error) {
    return run_graph(s, graph, RUN_UPDATE, NULL, 0, NULL, 0, error);
}
