/* bad_step.c - a session whose plan has a guard. A step whose gate says that it is bad continues to its end,
 * so that all ranks do all its collectives, but its updates are skipped. Then, still in the call that ended
 * it:
 *
 *   1. what is in flight arrives, and the state that the step's forward has changed is put back;
 *   2. every rank runs the step's micro-batches again, from copies of their inputs, with the same random
 *      numbers, and looks at each node on the way (examine.c);
 *   3. the state is put back once more, and the ranks tell each other what they found.
 *
 * So afterwards parameters, state and optimizers are to the bit what they were before the step, and every
 * rank has the same report. The copies are in the session's memory (plan/kept.h), on a GPU in the GPU's. */
#include "runtime/session/examine.h"
#include "runtime/plan/kept.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"
#include "weft/bad_step.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Whether a step changes what outlasts a training step: as the verifier's rule L22 has it. */
static bool is_gated(const weft_node *n) {
    const weft_variable *v = node_written(n);
    bool writes = v && v->kind != VARIABLE_GRADIENT;
    if (!n->is_update || node_starts_collective(n) || n->op == &weft_op_wait) return false;
    for (int k = 0; k < n->n_out; k++) {
        v = value_root(&n->out[k])->variable;
        writes |= v && v->kind != VARIABLE_GRADIENT && !variable_is_sessions(v);
    }
    return writes;
}

static bool open_kept(weft_session *s, bound_program *head, char *memory) {
    kept_step *k = head->kept = arena_new(&s->arena, sizeof *k);
    const weft_node *at = NULL;
    const weft_variable *v;
    int n = 0;
    while (kept_next(head->p, &at)) n++;
    if (!k || !(k->variables = arena_new_array(&s->arena, n, sizeof *k->variables))) return false;
    k->inputs = memory;
    memory += (size_t)head->p->accumulate * head->input_bytes;
    for (at = NULL; (v = kept_next(head->p, &at)); k->n_variables++) {
        k->variables[k->n_variables] = (kept_variable){.memory = store_memory(s->store, v->path, &v->type),
                                                       .copy = memory,
                                                       .bytes = type_bytes(&v->type),
                                                       .version = store_version(s->store, v)};
        memory += type_room(&v->type);
    }
    k->carried = (double *)(void *)memory;
    k->flags = arena_new(&s->arena, type_bytes(&head->guard->node->out[0].type));
    return k->flags != NULL;
}

bool guard_open(weft_session *s, weft_error *error) {
    char *memory = s->memory + session_bytes(s->plan) - s->plan->memory.guard;
    if (!s->plan->options.guard) return true;
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *r = &s->programs[i];
        for (int k = 0; k < r->n_steps; k++) {
            step *st = &r->steps[k];
            st->is_gated = is_gated(st->node);
            if (st->node->op == &weft_op_guard) r->guard = st;
            if (st->node->op == &weft_op_gate) r->gate = st;
        }
        uint64_t bytes = kept_bytes(r->p);
        if (bytes && r->guard && !open_kept(s, r, memory)) return !error_memory(error, "session");
        memory += bytes;
    }
    return true;
}

static void forget_bad(weft_session *s) {
    free(s->bad.report);
    s->bad = (bad_step){0};
}

void guard_close(weft_session *s) {
    forget_bad(s);
}

/* ---- keeping ---- */

/* Where the inputs of a micro-batch are kept. */
static char *kept_inputs(const bound_program *head, int64_t micro) {
    return head->kept->inputs + (size_t)micro * head->input_bytes;
}

static void use_inputs(const bound_program *head, bound_program *r, int64_t micro) {
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].data = kept_inputs(head, micro) + r->inputs[i].at;
    session_relocate(r);
}

/* Keeps what the step changes before its gate, or puts it back. */
static weft_status copy_state(weft_session *s, const kept_step *k, bool is_back, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < k->n_variables && !status; i++) {
        const kept_variable *v = &k->variables[i];
        char *to = is_back ? v->memory : v->copy, *from = is_back ? v->copy : v->memory;
        status = s->device->executor->copy(s, to, from, v->bytes, error);
        *v->version += is_back;
    }
    return status;
}

/* The numbers of a run: the first micro-batch of a step carries nothing. */
static void begin_run(const bound_program *head, bound_program *r, int64_t micro, bool skips) {
    r->of = head->kept;
    r->run.carried = micro ? head->kept->carried : NULL;
    r->skips = skips;
    r->is_broken = false;
    r->keep = NULL;
}

/* The inputs of the run that may end a step are kept only if it is bad. A loss alone is not a part of a
 * step. */
weft_status guard_before(weft_session *s, chosen *c, weft_error *error) {
    bound_program *head = c->head, *r = c->now;
    forget_bad(s);
    if (r->p->phase == PHASE_LOSS) return WEFT_OK;
    begin_run(head, r, head->micro, false);
    if (!program_ends_step(r->p)) r->keep = kept_inputs(head, head->micro);
    return head->micro ? WEFT_OK : copy_state(s, head->kept, false, error);
}

/* ---- again ---- */

/* All runs of the step, the last by the program that ended it. Updates are skipped whatever is found. */
static weft_status run_again(weft_session *s, const chosen *c, int64_t runs, examination *e,
                             weft_error *error) {
    bound_program *head = c->head;
    weft_status status = WEFT_OK;
    int reached;
    s->examines = e;
    for (int64_t m = 0; m < runs && !status; m++) {
        bound_program *r = m + 1 == runs ? c->now : m ? c->add : head;
        session_number(s, head, r, m - (r->p->phase == PHASE_UPDATE));
        e->micro = r->run.local;
        begin_run(head, r, m, true);
        if (r->p->phase != PHASE_UPDATE) use_inputs(head, r, m);
        examine_program(e, r);
        status = s->device->executor->walk(s, r, &reached, error);
    }
    weft_status settled = weft_sync(s, status ? NULL : error);
    s->examines = NULL;
    if (!status) status = settled;
    if (!status && e->error.status && error) *error = e->error;
    return status ? status : e->error.status;
}

/* ---- telling ---- */

enum { PART = 6000 /* bytes of a rank's report */ };

/* What this rank has found: the micro-batch, the row, a line, then the losses and the two nodes. */
static void write_part(char part[PART], const examination *e) {
    const char *texts[] = {e->losses.data, e->nan.is_there ? e->nan.text.data : NULL,
                           e->infinity.is_there ? e->infinity.text.data : NULL};
    int at = snprintf(part, PART, "%jd %jd %s\n", e->first, e->row, e->headline);
    for (int i = 0; i < 3; i++)
        if (texts[i] && at < PART) at += snprintf(part + at, (size_t)(PART - at), "%s", texts[i]);
}

/* How near a rank is to the cause; 0: it has found nothing. Ranks with a headline go before those without. A
 * loss may be bad by what another rank has sent (SyncBatchNorm): that one's finding comes earlier in the
 * schedule, which is the same on all ranks. */
static int32_t weigh(const examination *e) {
    enum { HEADED = 1 << 30 };
    return (*e->headline ? HEADED : 0) + (e->order >= 0 ? HEADED - 1 - e->order : 0);
}

/* What the part of a rank says: its report; from the first part also the headline and where. */
static void take_part(char *part, int rank, bad_step *where, char headline[HEADLINE], text *report) {
    char *line, *rest = strchr(part, '\n');
    if (!rest) return;
    *rest = 0;
    long long micro = strtoll(part, &line, 10), row = strtoll(line, &line, 10);
    if (where->rank < 0) {
        where->rank = rank, where->micro = micro, where->row = row;
        snprintf(headline, HEADLINE, "%s", *line ? line + 1 : "");
    }
    text_add(report, "%s", rest + 1);
}

/* Adds the parts of the ranks that have found something: first that of the greatest weight, then the others
 * in their order. parts[0] is this rank's. */
static weft_status gather_parts(weft_session *s, text *report, char headline[HEADLINE], char (*parts)[PART],
                                int32_t weight, bad_step *where, weft_error *error) {
    int world = s->comm ? s->comm->world : 1, told = 0, first = 0;
    int32_t alone = weight, *found = world > 1 ? s->votes : &alone;
    weft_status status = world > 1 ? comm_exchange(s->comm, "bad step", found, weight, error) : WEFT_OK;
    for (int r = 1; r < world && !status; r++)
        if (found[r] > found[first]) first = r;
    for (int i = -1; i < world && !status && told < 8; i++) {
        int r = i < 0 ? first : i;
        if (!found[r] || i == first) continue;
        memcpy(parts[1], parts[0], PART);
        status = comm_share(s->comm, r, "bad step", parts[1], PART, error);
        if (!status) take_part(parts[1], r, where, headline, report);
        told++;
    }
    return status;
}

/* Keeps the report, which all ranks have alike, and sets *error by its first line and the node that it names.
 * parts: of this rank, and room for another's. Not WEFT_OK: there is another error. */
static weft_status tell_all(weft_session *s, const examination *e, char (*parts)[PART], bad_step *where,
                            weft_error *error) {
    char headline[HEADLINE] = "";
    const char *graph = where->head->p->name;
    text report = {0};
    write_part(parts[0], e);
    weft_status status = gather_parts(s, &report, headline, parts, weigh(e), where, error);
    char *found = text_detach(&report);
    if (!*headline) snprintf(headline, HEADLINE, "gradients are not finite");
    const char *first = found ? strstr(found, "first ") : NULL;
    text whole = {0};
    text_add(&whole, "bad step: graph %s: %s\n%s", graph, headline, found ? found : "");
    where->report = text_detach(&whole);
    if (!status)
        error_set(error, WEFT_DATA, "graph %s: %s; nothing was updated; %.*s", graph, headline,
                  first ? (int)strcspn(first, "\n") : 22, first ? first : "no node made it itself");
    free(found);
    return status;
}

/* What is in flight arrives, what the report needs is there, and the state is put back. Ranks continue only
 * together: what can fail on one of them alone stands before a settling. */
static weft_status begin_report(weft_session *s, chosen *c, examination *e, weft_error *error) {
    bound_program *head = c->head, *r = c->now;
    weft_status status = weft_sync(s, error);
    if (!status && r->p->phase != PHASE_UPDATE)
        status = s->device->executor->keep(s, r, kept_inputs(head, head->micro), error);
    if (!status) status = examine_open(e, s, r, head->kept->flags, error);
    weft_status restored = copy_state(s, head->kept, true, status ? NULL : error);
    return ranks_settle(s, "bad step", status ? status : restored, error);
}

/* After the end of a bad step: puts the state back, runs it again, and tells what was found. */
static weft_status run_and_tell(weft_session *s, chosen *c, weft_error *error) {
    examination e = {.session = s};
    bad_step found = {
        .head = c->head, .last = c->now, .runs = (int)c->head->micro + 1, .rank = -1, .row = -1};
    char(*parts)[PART] = mem_new_array(&s->env, 2, PART);
    weft_status status = begin_report(s, c, &e, error);
    if (!status) {
        status = run_again(s, c, found.runs, &e, error);
        weft_status restored = copy_state(s, c->head->kept, true, status ? NULL : error);
        if (!status) status = restored;
        if (!status && !parts) status = error_memory(error, "session");
        status = ranks_settle(s, "bad step", status, error);
    }
    if (!status) status = tell_all(s, &e, parts, &found, error);
    if (!status)
        s->bad = found, s->n_bad++;
    else
        free(found.report);
    examine_close(&e);
    mem_free(&s->env, parts, 2 * sizeof *parts);
    return status;
}

weft_status guard_after(weft_session *s, chosen *c, weft_error *error) {
    weft_error nobody_asks = {0};
    if (!c->now->skips) return WEFT_OK;
    if (!error) error = &nobody_asks;
    int threads = omp_get_max_threads();
    omp_set_num_threads(s->plan->kernels.threads);
    weft_status status = run_and_tell(s, c, error);
    omp_set_num_threads(threads);
    session_forget_step(c->head);
    return status ? status : WEFT_DATA;
}

bool weft_bad_step(const weft_session *s) {
    return s && s->bad.head;
}

int64_t weft_bad_steps(const weft_session *s) {
    return s ? s->n_bad : 0;
}

bool weft_bad_step_at(const weft_session *s, int *rank, int64_t *micro) {
    if (!weft_bad_step(s) || s->bad.rank < 0) return false;
    if (rank) *rank = s->bad.rank;
    if (micro) *micro = s->bad.micro;
    return true;
}

int64_t weft_bad_step_row(const weft_session *s) {
    return weft_bad_step(s) && s->bad.rank >= 0 ? s->bad.row : -1;
}

char *weft_bad_step_text(const weft_session *s) {
    text t = {0};
    if (!s || !s->bad.report) return NULL;
    text_add(&t, "%s", s->bad.report);
    return text_detach(&t);
}
