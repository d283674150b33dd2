/* examine.c - looks at a bad step while it runs again: which node first made a NaN of operands that have
 * none, and which first made an infinity of finite operands, among the nodes that a bad loss (or a norm of
 * gradients that is not finite) is computed from. An infinite operand alone is not a finding: masks of
 * attention have them. Slow, and only done for a step that is bad. */
#include "runtime/session/examine.h"

#include "ops/kit/ops.h"
#include "ops/optimizer/update.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers of a tensor ---- */

static void add_element(tally *y, double x) {
    y->nans += isnan(x) != 0;
    y->infinities += isinf(x) != 0;
    if (!isfinite(x)) return;
    if (!y->n || x < y->min) y->min = x;
    if (!y->n || x > y->max) y->max = x;
    y->mean += x;
    y->n++;
}

/* A tensor in the host's memory. Packed bytes have no numbers to show. */
static tally count_here(const tensor *t) {
    tally y = {0};
    int64_t at[WEFT_MAX_NDIM] = {0};
    if (!t->data || t->type.dtype == WEFT_U8 || !type_elements(&t->type)) return y;
    do add_element(&y, element_get(t, at));
    while (index_next(&t->type, at));
    if (y.n) y.mean /= (double)y.n;
    return y;
}

/* The first error stays, and then nothing more is read: *into is 0. */
static void look(examination *e, const bound_program *r, void *into, const void *from, size_t bytes) {
    if (!e->error.status) session_fetch(e->session, r, into, from, bytes, &e->error);
    if (e->error.status) memset(into, 0, bytes);
}

/* v has the strides of t. What is on a GPU is copied, from its first element to its last. */
static tally count(examination *e, const bound_program *r, const tensor *t, const weft_value *v) {
    const weft_env *env = &e->session->env;
    tensor here = *t;
    if (!e->session->cuda || !t->data || !type_elements(&t->type)) return count_here(t);
    size_t bytes = value_span(v);
    if (!(here.data = mem_raw(env, bytes))) error_memory(&e->error, "session");
    if (here.data) look(e, r, here.data, t->data, bytes);
    tally y = count_here(&here);
    mem_free(env, here.data, bytes);
    return y;
}

/* ---- the report of one node ---- */

static void write_tally(text *t, const char *what, int i, const weft_value *v, const tally *y) {
    if (!v) return;
    text_add(t, "  %s %d  %%%d %s%s%s", what, i, v->id, TYPE(&v->type), v->variable ? " " : "",
             v->variable ? v->variable->path : "");
    if (y->n) text_add(t, ": min %.9g, max %.9g, mean %.9g", y->min, y->max, y->mean);
    if (y->n + y->nans + y->infinities)
        text_add(t, "%s %jd NaN, %jd infinite", y->n ? ";" : ":", y->nans, y->infinities);
    text_add(t, "\n");
}

static void write_node(text *t, const weft_node *n) {
    shown_place at = show_place(n->file, n->line);
    text_add(t, "%%%d = %s(", n->id, n->op->name);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) text_add(t, "%s%%%d", i ? ", " : "", n->in[i]->id);
    text_add(t, ")");
    for (int i = 0; i < n->n_body; i++)
        text_add(t, "%s%s%s", i ? ", " : " {", n->body[i]->op->name, i + 1 == n->n_body ? "}" : "");
    text_add(t, " in %s%s", *n->scope ? n->scope : "the top scope", n->is_backward ? ", backward" : "");
    if (*at.text) text_add(t, ", %s", at.text);
}

static int rank_of(const examination *e) {
    return e->session->comm ? e->session->comm->rank : 0;
}

static void begin(examination *e, finding *f, const char *what, const weft_node *n) {
    f->is_there = true;
    if (e->first < 0) e->first = e->micro;
    if (e->first == e->micro && e->order < 0) e->order = n->order;
    text_add(&f->text, "first %s, on rank %d in micro-batch %jd: ", what, rank_of(e), e->micro);
}

/* A headline, which ends with the place. What was found in an earlier micro-batch is not its reason. */
__attribute__((format(printf, 2, 3))) static void head(examination *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(e->headline, HEADLINE - 60, format, args);
    va_end(args);
    if (n >= HEADLINE - 60) n = HEADLINE - 61;
    snprintf(e->headline + n, 60, " on rank %d in micro-batch %jd", rank_of(e), e->micro);
    if (e->first != e->micro) e->row = e->order = -1;
    e->first = e->micro;
}

static void tell_node(examination *e, const bound_program *r, finding *f, const char *what, const step *st) {
    const weft_node *n = st->node;
    begin(e, f, what, n);
    write_node(&f->text, n);
    text_add(&f->text, "\n");
    for (int i = 0; i < n->n_in; i++) write_tally(&f->text, "operand", i, n->in[i], &e->before[i]);
    for (int k = 0; k < n->n_out; k++) {
        tally y = count(e, r, &st->out[k], &n->out[k]);
        write_tally(&f->text, "result ", k, &n->out[k], &y);
    }
}

/* ---- around a kernel ---- */

static bool is_looked_at(const examination *e, const step *st) {
    return st->kernel && e->on_way[st->node->order] && !(e->nan.is_there && e->infinity.is_there);
}

/* A copy of an input: a GPU's, or one in another layout. */
static bool is_copy(const weft_node *n) {
    return n->op == &weft_op_reorder && value_root(n->in[0])->node->op == &weft_op_input;
}

/* ---- the row of an input ---- */

/* Where an input has its first NaN, along axis 0; -1: nowhere. */
static int64_t nan_row(examination *e, const bound_program *r, const weft_node *input) {
    const weft_env *env = &e->session->env;
    const input_binding *in = r->inputs, *end = in + r->n_inputs;
    int64_t at[WEFT_MAX_NDIM] = {0};
    bool is_found = false, is_left = true;
    while (in < end && in->value->node != input) in++;
    if (in == end) return -1;
    tensor t = {.type = in->value->type, .data = mem_raw(env, in->bytes)};
    stride_row_major(&t.type, t.stride);
    if (!t.data) error_memory(&e->error, "session");
    if (t.data) look(e, r, t.data, in->data, in->bytes);
    while (t.data && in->bytes && is_left && !is_found) {
        is_found = isnan(element_get(&t, at));
        is_left = is_found || index_next(&t.type, at);
    }
    mem_free(env, t.data, in->bytes);
    return is_found && t.type.ndim ? at[0] : -1;
}

/* Of element `number` of v, where v is an input as it was fed, in another shape at most; -1: it is not. */
static int64_t row_of(const weft_value *v, int64_t number) {
    const weft_value *root = value_root(v);
    int64_t n = type_elements(&v->type);
    bool is_fed = lies_row_major(v);
    if (is_copy(root->node)) {
        is_fed = is_fed && lies_row_major(root->node->in[0]) && type_elements(&root->type) == n;
        root = value_root(root->node->in[0]);
    }
    if (!is_fed || number < 0 || number >= n || !root->type.ndim || type_elements(&root->type) != n)
        return -1;
    return root->node->op == &weft_op_input ? number / (n / root->type.shape[0]) : -1;
}

/* A NaN that no node made: of the data, or of a parameter or state as the step found it. Gradients of earlier
 * micro-batches were made by nodes. */
static void find_given(examination *e, const bound_program *r, const step *st, int i) {
    const weft_node *from = value_root(st->node->in[i])->node;
    if (is_copy(st->node)) return; /* its reader tells more */
    if (is_copy(from)) from = value_root(from->in[0])->node;
    bool is_input = from->op == &weft_op_input;
    if (from->variable && from->variable->kind == VARIABLE_GRADIENT) return;
    if (e->nan.is_there || !e->before[i].nans || !(is_input || node_is_silent(from))) return;
    begin(e, &e->nan, "NaN", st->node);
    text_add(&e->nan.text, "%s %s, read by ", is_input ? "input" : "the value of",
             is_input         ? input_name(from)
             : from->variable ? from->variable->path
                              : "a constant");
    write_node(&e->nan.text, st->node);
    text_add(&e->nan.text, "\n");
    write_tally(&e->nan.text, "operand", i, st->node->in[i], &e->before[i]);
    if (is_input && e->first == e->micro) e->row = nan_row(e, r, from);
}

/* The rule alone: what kernel_fail and a GPU's session put before it is in the report. */
static const char *rule_of(const step *st, const weft_error *error) {
    char node[200], before[400];
    snprintf(before, sizeof before, "graph %s: %s: ", st->node->graph->name, node_show(st->node, node));
    size_t n = strlen(before);
    return strncmp(error->text, before, n) == 0 ? error->text + n : error->text;
}

void examine_broken(examination *e, const bound_program *r, const step *st, const weft_error *error) {
    const weft_node *n = st->node;
    if (!*e->headline) head(e, "%s", rule_of(st, error));
    if (e->nan.is_there) return;
    begin(e, &e->nan, "wrong value", n);
    write_node(&e->nan.text, n);
    text_add(&e->nan.text, "\n");
    for (int i = 0; i < n->n_in; i++) {
        tally y = n->in[i] ? count(e, r, &st->in[i], n->in[i]) : (tally){0};
        write_tally(&e->nan.text, "operand", i, n->in[i], &y);
    }
    if (e->first == e->micro && n->n_in > 1 && n->in[1]) e->row = row_of(n->in[1], e->session->broken);
}

void examine_before(examination *e, const bound_program *r, const step *st) {
    for (int i = 0; is_looked_at(e, st) && i < st->node->n_in; i++) {
        e->before[i] = st->node->in[i] ? count(e, r, &st->in[i], st->node->in[i]) : (tally){0};
        if (st->node->in[i]) find_given(e, r, st, i);
    }
}

/* "NaN" whatever its sign, which means nothing. */
static const char *show_number(char text[32], double x) {
    snprintf(text, 32, isnan(x) ? "NaN" : "%.9g", x);
    return text;
}

/* The losses of a micro-batch, as its guard reads them. */
static void note_losses(examination *e, const bound_program *r, const step *st) {
    const weft_node *n = st->node;
    const guard_attrs *a = n->attrs;
    const double *carried = r->run.carried, *flags = st->out[0].data;
    double before = 0, after = 0;
    for (int i = 0; i < a->losses; i++) {
        const char *name = "loss";
        uint64_t bits = 0;
        size_t width = dtype_bytes(st->in[i].type.dtype);
        tensor loss = st->in[i];
        loss.data = &bits;
        look(e, r, &bits, st->in[i].data, width);
        double value = element_get(&loss, NULL);
        for (const graph_output *o = r->p->graph->outputs; o; o = o->next)
            if (o->value == n->in[i]) name = o->name;
        char shown[32];
        const char *kind = strcmp(name, "loss") ? "loss " : "";
        text_add(&e->losses, "%s%s on rank %d in micro-batch %jd: %s (0x%0*jx)\n", kind, name, rank_of(e),
                 e->micro, show_number(shown, value), (int)(2 * width), bits);
        look(e, r, &after, &flags[i], sizeof after);
        if (carried) look(e, r, &before, &carried[i], sizeof before);
        if (after == before || *e->headline) continue;
        head(e, "%s%.80s is %s", kind, name, show_number(shown, value));
    }
}

void examine_after(examination *e, const bound_program *r, const step *st) {
    bool nan_in = false, infinite_in = false, nan_out = false, infinite_out = false;
    if (st == r->guard) note_losses(e, r, st);
    if (!is_looked_at(e, st)) return;
    for (int i = 0; i < st->node->n_in; i++) {
        nan_in |= e->before[i].nans > 0;
        infinite_in |= e->before[i].infinities > 0;
    }
    for (int k = 0; k < st->node->n_out && !nan_in; k++) {
        tally y = count(e, r, &st->out[k], &st->node->out[k]);
        nan_out |= y.nans > 0;
        infinite_out |= y.infinities > 0;
    }
    if (nan_out && !e->nan.is_there) tell_node(e, r, &e->nan, "NaN", st);
    if (infinite_out && !infinite_in && !nan_out && !e->infinity.is_there)
        tell_node(e, r, &e->infinity, "infinity", st);
}

/* ---- the way to a bad loss ---- */

/* Gradients that n leaves to the last program of the step. */
static bool leaves_gradients(const weft_node *n) {
    const weft_variable *v = n->op == &weft_op_accumulate ? n->in[0]->variable : n->out[0].variable;
    return (n->op == &weft_op_bucket || n->op == &weft_op_accumulate) && v && v->kind == VARIABLE_GRADIENT;
}

/* The nodes that lead to what the flags are of: operands come earlier in the schedule, so one walk backwards
 * does. */
void examine_program(examination *e, const bound_program *r) {
    memset(e->on_way, 0, e->room * sizeof *e->on_way);
    const weft_node *guard = r->guard ? r->guard->node : NULL, *gate = r->gate ? r->gate->node : NULL;
    const guard_attrs *a = guard ? guard->attrs : NULL;
    for (int i = 0; a && i < a->count; i++) {
        if (e->flags[i] == 0) continue;
        if (i < a->losses) e->on_way[guard->in[i]->node->order] = true;
        if (gate && i + 1 < gate->n_in) e->on_way[gate->in[i + 1]->node->order] = true;
    }
    bool with_gradients = e->judges_gradients && !program_ends_step(r->p);
    for (const weft_node *n = r->p->graph->last; n && with_gradients; n = n->prev)
        if (n->n_out) e->on_way[n->order] |= leaves_gradients(n);
    for (const weft_node *n = r->p->graph->last; n; n = n->prev)
        for (int i = 0; e->on_way[n->order] && i < n->n_in; i++)
            if (n->in[i]) e->on_way[n->in[i]->node->order] = true;
}

weft_status examine_open(examination *e, weft_session *s, const bound_program *last, const double *flags,
                         weft_error *error) {
    *e = (examination){.session = s,
                       .flags = flags,
                       .judges_gradients = last->gate->node->n_in > 1,
                       .first = -1,
                       .row = -1,
                       .order = -1};
    for (int i = 0; i < s->plan->n_programs; i++) {
        const weft_graph *g = s->programs[i].p->graph;
        if (g->last && (size_t)g->last->order >= e->room) e->room = (size_t)g->last->order + 1;
        for (const weft_node *n = g->first; n; n = n->next)
            if ((size_t)n->n_in > e->n_before) e->n_before = (size_t)n->n_in;
    }
    e->on_way = mem_new_array(&s->env, e->room, sizeof *e->on_way);
    e->before = mem_new_array(&s->env, e->n_before, sizeof *e->before);
    return e->on_way && e->before ? WEFT_OK : error_memory(error, "session");
}

void examine_close(examination *e) {
    mem_free(&e->session->env, e->on_way, e->room * sizeof *e->on_way);
    mem_free(&e->session->env, e->before, e->n_before * sizeof *e->before);
    free(text_detach(&e->losses));
    free(text_detach(&e->nan.text));
    free(text_detach(&e->infinity.text));
}
