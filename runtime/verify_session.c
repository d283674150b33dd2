/* verify_session.c - proves that an opened session does what its plan counts on, by the addresses that its steps were
 * bound to. It runs when a session opens on a plan that was compiled with `verify`. Rules:
 *   L14  before a step a session waits for each sharded segment whose memory the step touches, but for a gather, which
 *        the lane keeps in order; and before it copies such memory to the caller
 *   L15  a run that changes a segment counts that in its version, by which derived values are made anew
 */
#include "runtime/verify.h"

#include "runtime/session_state.h"

typedef struct span {
    const char *begin, *end;
} span;

static bool spans_meet(span a, span b) {
    return a.begin < b.end && b.begin < a.end;
}

/* NULL to NULL for the caller's memory, which has no address yet. */
static span span_of(const tensor *t) {
    int64_t last = 0;
    if (!t->data) return (span){0};
    for (int i = 0; i < t->type.ndim; i++) last += (t->type.shape[i] - 1) * t->stride[i];
    const char *begin = t->data;
    return (span){begin, begin + (size_t)(last + 1) * dtype_bytes(t->type.dtype)};
}

static bool step_touches(const step *st, span s) {
    const weft_node *n = st->node;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && spans_meet(span_of(&st->in[i]), s)) return true;
    for (int k = 0; k < n->n_out; k++)
        if (spans_meet(span_of(&st->out[k]), s)) return true;
    const char *work = st->call.workspace;
    return work && spans_meet((span){work, work + n->workspace_bytes}, s);
}

static bool step_waits(const step *st, const weft_variable *segment) {
    for (int k = 0; k < st->n_touched; k++)
        if (st->touched[k] == segment) return true;
    return node_starts_collective(st->node);
}

static bool step_writes(const step *st, span s) {
    const weft_node *n = st->node;
    for (int i = 0; i < n->n_in && i < 32; i++)
        if (n->op->writes >> i & 1 && n->in[i] && spans_meet(span_of(&st->in[i]), s)) return true;
    return n->op->flags & OP_WRITES && n->n_out && spans_meet(span_of(&st->out[0]), s);
}

static bool is_counted(const weft_session *s, const runnable *r, const weft_variable *segment) {
    const uint64_t *version = store_version(s->store, segment);
    for (int i = 0; i < r->n_written; i++)
        if (r->written[i] == version) return true;
    return false;
}

static weft_status check_runnable(const weft_session *s, const runnable *r, const weft_variable *segment,
                                  span m, weft_error *error) {
    for (int i = 0; i < r->n_steps; i++) {
        const step *st = &r->steps[i];
        if (segment->shards && step_touches(st, m) && !step_waits(st, segment))
            return verify_broken(r->p, error, "L14", st->node, "does not wait for what may be on its way");
        if (step_writes(st, m) && !is_counted(s, r, segment))
            return verify_broken(r->p, error, "L15", st->node, "changes a segment and does not count it");
    }
    for (int i = 0; i < r->n_outputs; i++) {
        const fetched *o = &r->outputs[i];
        if (segment->shards && o->memory && !o->is_shared &&
            spans_meet((span){o->memory, o->memory + o->bytes}, m))
            return error_set(error, WEFT_INTERNAL,
                             "L14: graph %s: output %s is copied while it may be on its way",
                             r->p->graph->name, o->name);
    }
    return WEFT_OK;
}

weft_status verify_session(const weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    for (const weft_variable *v = s->plan->model->variables; v && !status; v = v->next) {
        if (v->kind != VARIABLE_SEGMENT) continue;
        const char *memory = store_memory(s->store, v->path, &v->type);
        span m = {memory, memory + type_bytes(&v->type)};
        for (int i = 0; i < s->plan->n_programs && !status; i++)
            status = check_runnable(s, &s->programs[i], v, m, error);
    }
    return status;
}
