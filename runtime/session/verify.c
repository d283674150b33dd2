/* verify.c - proves that an opened session does what its plan relies on, from the addresses to which its
 * steps were bound. Runs when a session opens on a plan that was compiled with `verify`. Rules:
 *   L14  before a step, a session waits for each sharded bucket whose memory the step touches, except for a
 *        gather, which the stream keeps in order; likewise before it copies such memory to the caller
 *   L15  a run that changes a bucket increments its version, by which derived values are made again
 *   L18  a step that touches what a pending deferred part writes, or writes what it reads, runs after that
 *        step of the deferred part; so does a copy to the caller of what the deferred part writes
 *   L19  a deferred part ends before a collective of another run starts; its own program starts a collective
 *        before it, so that never two are pending; and what it touches in the store counts as arriving
 */
#include "runtime/verify/verify.h"

#include "runtime/session/state.h"

#include <stdlib.h>
#include <string.h>

/* Addresses [begin, end). */
typedef struct span {
    const char *begin, *end;
} span;

static bool spans_meet(span a, span b) {
    return a.begin < b.end && b.begin < a.end;
}

/* The addresses of a tensor; empty for an input, whose memory is the caller's and not known yet. */
static span span_of(const tensor *t) {
    int64_t last = 0;
    if (!t->data) return (span){0};
    for (int i = 0; i < t->type.ndim; i++) last += (t->type.shape[i] - 1) * t->stride[i];
    const char *begin = t->data;
    return (span){begin, begin + (size_t)(last + 1) * dtype_bytes(t->type.dtype)};
}

/* The addresses that step `st` touches by operand or result number i; the number after these is its
 * workspace. *writes: it may change them. */
static span touched_by(const step *st, int i, bool *writes) {
    const weft_node *n = st->node;
    const char *work = st->call.workspace;
    bool in_place = i < 32 && n->op->writes >> i & 1;
    *writes =
        i >= n->n_in || in_place || n->op->flags & OP_COMMUNICATES; /* a wait ends what wrote its operands */
    if (i < n->n_in) return n->in[i] ? span_of(&st->in[i]) : (span){0};
    if (i < n->n_in + n->n_out) return span_of(&st->out[i - n->n_in]);
    return work ? (span){work, work + n->workspace_bytes} : (span){0};
}

/* Whether number i of touched_by is state or a parameter that the node changes. */
static bool changes(const weft_node *n, int i) {
    if (i < n->n_in) return i < 32 && n->op->writes >> i & 1 && n->in[i];
    return i == n->n_in && n->op->flags & OP_WRITES && n->n_out;
}

/* Whether a step changes state or parameters within s. */
static bool step_writes(const step *st, span s) {
    bool writes;
    for (int i = 0; i < st->node->n_in + st->node->n_out; i++)
        if (changes(st->node, i) && spans_meet(touched_by(st, i, &writes), s)) return true;
    return false;
}

/* ---- buckets, by their addresses in the store ---- */

typedef struct place {
    const weft_variable *bucket;
    span m;
} place;

typedef struct places {
    place *v; /* ascending, disjoint */
    int count;
} places;

static int by_address(const void *a, const void *b) {
    const char *x = ((const place *)a)->m.begin, *y = ((const place *)b)->m.begin;
    return (x > y) - (x < y);
}

/* Buckets are disjoint in memory, or L14 fails at once. */
static bool find_places(const weft_session *s, places *p, verify_index *x) {
    for (const weft_variable *v = s->plan->model->variables; v; v = v->next) {
        const char *memory = v->kind == VARIABLE_BUCKET ? store_memory(s->store, v->path, &v->type) : NULL;
        if (memory) p->v[p->count++] = (place){v, {memory, memory + type_bytes(&v->type)}};
    }
    qsort(p->v, (size_t)p->count, sizeof *p->v, by_address);
    for (int i = 1; i < p->count; i++)
        if (spans_meet(p->v[i - 1].m, p->v[i].m))
            return !error_set(&x->error, WEFT_INTERNAL, "L14: buckets %s and %s share memory in the store",
                              p->v[i - 1].bucket->path, p->v[i].bucket->path);
    return true;
}

/* The first place that ends after `at`. */
static const place *place_behind(const places *p, const char *at) {
    int low = 0, high = p->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->v[middle].m.end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return p->v + low;
}

/* ---- L14, L15 ---- */

/* What the session does before a step (run.c): it waits for touched buckets, and the stream keeps collectives
 * in order. */
static bool step_waits(const step *st, const weft_variable *bucket) {
    for (int k = 0; k < st->n_touched; k++)
        if (st->touched[k] == bucket) return true;
    return node_starts_collective(st->node);
}

/* A version is identified by its address in the store. */
static int by_version(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (uint64_t *const *)a, y = (uintptr_t) * (uint64_t *const *)b;
    return (x > y) - (x < y);
}

/* The versions in the store that a program's run increments, ascending. */
typedef struct counted {
    uint64_t **v;
    size_t count;
} counted;

static bool is_counted(const weft_session *s, const counted *c, const weft_variable *bucket) {
    const uint64_t *version = store_version(s->store, bucket);
    return bsearch(&version, c->v, c->count, sizeof *c->v, by_version) != NULL;
}

/* L14 and L15 for all memory that one step touches. */
static bool check_step(const weft_session *s, const step *st, const places *p, const counted *c,
                       verify_index *x) {
    bool writes;
    for (int i = 0; i <= st->node->n_in + st->node->n_out; i++) {
        span t = touched_by(st, i, &writes);
        for (const place *at = place_behind(p, t.begin); at < p->v + p->count && spans_meet(at->m, t); at++) {
            if (at->bucket->shards && !step_waits(st, at->bucket))
                return verify_broken(x, "L14", st->node, "does not wait for what may be in flight");
            if (changes(st->node, i) && !is_counted(s, c, at->bucket))
                return verify_broken(x, "L15", st->node, "changes a bucket and does not count it");
        }
    }
    return true;
}

/* L14 for the outputs, which are copied from the store itself. */
static bool check_copies(const bound_program *r, const places *p, verify_index *x) {
    for (int i = 0; i < r->n_outputs; i++) {
        const fetched *o = &r->outputs[i];
        span t = {o->memory, o->memory ? o->memory + o->bytes : NULL};
        for (const place *at = place_behind(p, t.begin); at < p->v + p->count && spans_meet(at->m, t); at++)
            if (at->bucket->shards && o->owner != at->bucket)
                return !error_set(&x->error, WEFT_INTERNAL,
                                  "L14: graph %s: output %s is copied while it may be in flight",
                                  r->p->graph->name, o->name);
    }
    return true;
}

static bool check_bound(const weft_session *s, const bound_program *r, const places *p, verify_index *x) {
    counted c = {verify_array(x, r->n_written, sizeof *c.v), (size_t)r->n_written};
    if (!c.v) return false;
    memcpy(c.v, r->written, c.count * sizeof *c.v);
    qsort(c.v, c.count, sizeof *c.v, by_version);
    if (!check_copies(r, p, x)) return false;
    for (int i = 0; i < r->n_steps; i++)
        if (!check_step(s, &r->steps[i], p, &c, x)) return false;
    return true;
}

/* L14 and L15 for all programs, by the addresses of the buckets. */
static bool check_buckets(const weft_session *s, verify_index *x) {
    places p = {verify_array(x, x->n_variables, sizeof *p.v), 0};
    if (!p.v || !find_places(s, &p, x)) return false;
    for (int i = 0; i < s->plan->n_programs; i++)
        if (!check_bound(s, &s->programs[i], &p, x)) return false;
    return true;
}

/* ---- L18, L19 ---- */

/* Whether two steps touch the same bytes and one of them writes them. */
static bool conflicts(const step *a, const step *b) {
    for (int i = 0; i <= a->node->n_in + a->node->n_out; i++)
        for (int k = 0; k <= b->node->n_in + b->node->n_out; k++) {
            bool writes, writes_too;
            span x = touched_by(a, i, &writes), y = touched_by(b, k, &writes_too);
            if ((writes || writes_too) && spans_meet(x, y)) return true;
        }
    return false;
}

/* Whether any of the first `until` steps starts a collective. */
static bool starts(const bound_program *r, int until) {
    for (int i = 0; i < until; i++)
        if (node_starts_collective(r->steps[i].node)) return true;
    return false;
}

/* L18 and L19: what r's deferred part still has to do when step i of `next` runs, against that step; i goes
 * up to next's own deferred part. */
static bool check_steps(const bound_program *r, const bound_program *next, verify_index *x) {
    for (int i = 0; i < next->n_steps && next->steps[i].node->order < next->p->deferred; i++) {
        const step *st = &next->steps[i];
        int until = deferred_needed_by(r, st);
        if (node_starts_collective(st->node) && until < r->n_steps)
            return verify_broken(x, "L19", st->node, "starts while a deferred part is pending");
        for (int k = until > r->deferred ? until : r->deferred; k < r->n_steps; k++)
            if (conflicts(st, &r->steps[k]))
                return verify_broken(x, "L18", st->node, "does not wait for a deferred part that it meets");
    }
    return true;
}

/* Outputs in the arena belong to their own program: the nodes that make them have waited. */
static bool is_in_arena(const weft_session *s, const fetched *o) {
    return o->memory >= s->memory && o->memory < s->memory + s->plan->memory.activations;
}

/* L18 for the outputs of `next` in the store or the caller's memory, against what r's deferred part still
 * writes. */
static bool check_outputs(const weft_session *s, const bound_program *r, const bound_program *next,
                          verify_index *x) {
    int until = deferred_needed_by_outputs(r, next);
    for (int i = 0; i < next->n_outputs; i++) {
        const fetched *o = &next->outputs[i];
        if (!o->memory || is_in_arena(s, o)) continue;
        for (int k = until > r->deferred ? until : r->deferred; k < r->n_steps; k++)
            if (step_writes(&r->steps[k], (span){o->memory, o->memory + o->bytes}))
                return !error_set(&x->error, WEFT_INTERNAL,
                                  "L18: graph %s: output %s is copied before a deferred part writes it",
                                  next->p->graph->name, o->name);
    }
    return true;
}

/* Whether the store counts v's variable as arriving while r's deferred part is pending. */
static bool is_announced(const weft_session *s, const bound_program *r, const weft_value *v) {
    const weft_variable *root = value_root(v)->variable;
    const store_entry *owner = root && !variable_is_sessions(root) ? store_owner(s->store, root) : NULL;
    bool found = !owner;
    for (int i = 0; i < r->n_owners; i++) found |= r->owners[i] == owner;
    return found;
}

/* The session's deferred part begins where the plan's does, after a collective of its program. */
static bool check_deferred(const weft_session *s, const bound_program *r, verify_index *x) {
    int left = 0;
    while (left < r->n_steps && r->steps[left].node->order < r->p->deferred) left++;
    if (left == r->n_steps && left == r->deferred) return true;
    if (left != r->deferred || !starts(r, left))
        return !error_set(
            &x->error, WEFT_INTERNAL,
            "L19: graph %s: its deferred part begins at another node, or while another one is pending",
            r->p->graph->name);
    for (int k = left; k < r->n_steps; k++) {
        const weft_node *n = r->steps[k].node;
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_value *v = node_value_at(n, i);
            if (v && !is_announced(s, r, v))
                return verify_broken(x, "L19", n, "uses store memory that may be read at the same time");
        }
    }
    for (int i = 0; i < s->plan->n_programs; i++)
        if (!check_steps(r, &s->programs[i], x) || !check_outputs(s, r, &s->programs[i], x)) return false;
    return true;
}

static bool check_session(const weft_session *s, verify_index *x) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (!check_deferred(s, &s->programs[i], x)) return false;
    return check_buckets(s, x);
}

weft_status verify_session(const weft_session *s, weft_error *error) {
    verify_index x;
    bool good = verify_index_open(&x, s->plan, NULL) && check_session(s, &x);
    return verify_index_close(&x, good, error);
}
