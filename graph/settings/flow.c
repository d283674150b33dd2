/* flow.c - flows: their text, the rules of each, and what a model keeps of them.
 *
 *     flow    = part { ";" part }
 *     part    = [ from "-" [ last ] ":" ] step { step }
 *     step    = graph [ "{" setting { "," setting } "}" ] [ "*" times ]
 *     setting = "accumulate=" number | "batch=next" | "batch=same"
 *
 * Texts, files and dumps all set flows through flow_set, so each flow in a model keeps the rules below.
 * Whether the model has the graphs is known when it is complete: weft_compile asks. */
#include "graph/settings/flow.h"

#include "graph/core/limits.h"
#include "graph/core/words.h"
#include "graph/settings/minimize.h"

#include <stdio.h>
#include <string.h>

static const char *const batch_words[] = {[WEFT_FLOW_NEXT] = "next", [WEFT_FLOW_SAME] = "same"};

static bool flow_fail(weft_model *m, const char *name, weft_status status, const char *why) {
    return model_fail(m, NULL, status, "flow %s: %s", SHOW(name), why);
}

/* ---- iterations ---- */

bool flow_runs_in(const weft_flow_step *s, int64_t iteration) {
    return s->from <= iteration && iteration < s->to;
}

/* The first iteration in [from, to) in which none of n steps runs; `to`: there is none. */
static int64_t first_gap(int n, const weft_flow_step *steps, int64_t from, int64_t to) {
    for (bool moves = true; moves && from < to;) {
        moves = false;
        for (int i = 0; i < n; i++) {
            if (!flow_runs_in(&steps[i], from)) continue;
            from = steps[i].to;
            moves = true;
        }
    }
    return from < to ? from : to;
}

weft_flow_batch flow_batch(const weft_flow_step *steps, int i, int64_t iteration) {
    bool is_first = true;
    for (int k = 0; k < i; k++)
        is_first = is_first && (!flow_runs_in(&steps[k], iteration) || steps[k].batch == WEFT_FLOW_SAME);
    return steps[i].batch ? steps[i].batch : is_first ? WEFT_FLOW_NEXT : WEFT_FLOW_SAME;
}

int64_t flow_change(int n, const weft_flow_step *steps, int64_t iteration) {
    int64_t next = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (steps[i].from > iteration && steps[i].from < next) next = steps[i].from;
        if (steps[i].to > iteration && steps[i].to < next) next = steps[i].to;
    }
    return next;
}

bool input_is_batch(const weft_node *n) {
    return n->op == &weft_op_input && n->out[0].type.ndim;
}

bool graph_takes_batches(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (input_is_batch(n)) return true;
    return false;
}

bool graph_accumulates(const weft_graph *g) {
    return graph_takes_batches(g) || graph_trains(g);
}

/* ---- rules ---- */

/* What is wrong with step i by itself, and beside the steps before it; NULL: nothing. */
static const char *step_wrong(const weft_flow_step *steps, int i) {
    const weft_flow_step *s = &steps[i];
    if (!s->graph || !name_is_valid(s->graph)) return "a step needs the name of a graph";
    if (s->repeat < 1 || s->repeat > FLOW_MAX_REPEAT) return "a step runs 1 to 2^20 times in a row";
    if (s->accumulate < 0 || s->accumulate > 1 << 20) return "accumulate is 1 to 2^20";
    if ((unsigned)s->batch > WEFT_FLOW_SAME) return "batch is next or same";
    if (s->from < 0 || s->to <= s->from) return "a range goes from an iteration, from 0, to a later one";
    if (s->from > FLOW_LAST || (s->to > FLOW_LAST && s->to < INT64_MAX)) return "iterations go to 10^18 - 1";
    for (int k = 0; k < i; k++)
        if (strcmp(steps[k].graph, s->graph) == 0 && s->accumulate && steps[k].accumulate &&
            steps[k].accumulate != s->accumulate)
            return "a graph has one accumulate in a flow: its plan has programs for one number";
    if (s->batch == WEFT_FLOW_SAME && first_gap(i, steps, s->from, s->to) < s->to)
        return "batch=same needs a step before it in the iteration, whose batches it takes";
    return NULL;
}

static bool check_steps(weft_model *m, const char *name, int n, const weft_flow_step *steps) {
    char why[200];
    if (n < 1 || n > FLOW_MAX_STEPS) {
        snprintf(why, sizeof why, "it has %d steps: 1 to %d are possible", n, FLOW_MAX_STEPS);
        return flow_fail(m, name, WEFT_ARGUMENT, why);
    }
    for (int i = 0; i < n; i++) {
        const char *wrong = step_wrong(steps, i);
        if (!wrong) continue;
        snprintf(why, sizeof why, "step %d, %s: %s", i + 1, SHOW(steps[i].graph), wrong);
        return flow_fail(m, name, WEFT_ARGUMENT, why);
    }
    int64_t gap = first_gap(n, steps, 0, INT64_MAX);
    if (gap == INT64_MAX) return true;
    snprintf(why, sizeof why, "no step runs in iteration %jd: write '%jd-:' before those that run from there",
             gap, gap);
    return flow_fail(m, name, WEFT_ARGUMENT, why);
}

/* ---- setting ---- */

const flow_entry *flow_find(const weft_model *m, const char *name) {
    for (const flow_entry *e = m->flows; e; e = e->next)
        if (strcmp(e->name, name) == 0) return e;
    return NULL;
}

/* The entry of the name, added when it is new. NULL: no memory. */
static flow_entry *entry_of(weft_model *m, const char *name) {
    flow_entry *e = (flow_entry *)flow_find(m, name); /* the model owns its entries */
    if (e) return e;
    e = arena_new(&m->arena, sizeof *e);
    if (!e || !(e->name = arena_copy(&m->arena, name))) return NULL;
    *m->flows_end = e;
    m->flows_end = &e->next;
    return e;
}

bool flow_set(weft_model *m, const char *name, int n, const weft_flow_step *steps) {
    if (!model_ok(m)) return false;
    if (!name || !name_is_valid(name))
        return flow_fail(m, name, WEFT_NAME, "its name must be 1 to 200 letters, digits, '_', '-' and '.'");
    if (!check_steps(m, name, n, steps)) return false;
    int count = 0;
    for (const flow_entry *other = m->flows; other; other = other->next) count++;
    if (count >= MODEL_MAX_FLOWS && !flow_find(m, name))
        return flow_fail(m, name, WEFT_ARGUMENT, "a model has at most 256 flows");
    flow_entry *e = entry_of(m, name);
    weft_flow_step *copy = arena_new_array(&m->arena, n, sizeof *copy);
    for (int i = 0; e && copy && i < n; i++) {
        copy[i] = steps[i];
        if (!(copy[i].graph = scope_intern(m, steps[i].graph))) copy = NULL;
    }
    if (!e || !copy) return flow_fail(m, name, WEFT_MEMORY, "out of memory");
    e->n = n;
    e->steps = copy;
    e->file = m->file;
    e->line = m->line;
    return true;
}

/* ---- text ---- */

typedef struct flow_reader {
    weft_model *m;
    const char *name, *at;
    int64_t from, to; /* the range of the part */
    int n;
    weft_flow_step steps[FLOW_MAX_STEPS];
} flow_reader;

static bool refuse(flow_reader *r, const char *rule) {
    return model_fail(r->m, NULL, WEFT_ARGUMENT, "flow %s: at '%s': %s", SHOW(r->name), SHOW(r->at), rule);
}

static void skip_blanks(flow_reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}

static bool accept(flow_reader *r, const char *word) {
    return text_accept(&r->at, word);
}

static bool read_number(flow_reader *r, int64_t *number) {
    return count_parse(&r->at, number) || refuse(r, "a number of 1 to 18 digits is needed");
}

/* A number that fits an int; flow_set has the rule of each. */
static bool read_count(flow_reader *r, int *count) {
    int64_t number;
    if (!read_number(r, &number)) return false;
    if (number < 1 || number > 1 << 20) return refuse(r, "the number before it must be 1 to 2^20");
    *count = (int)number;
    return true;
}

/* "0-999:" or "1000-:", where a part begins with one. */
static bool read_range(flow_reader *r) {
    size_t digits = strspn(r->at, "0123456789"), length = strcspn(r->at, " \t;:{*");
    r->from = 0;
    r->to = INT64_MAX;
    if (r->at[length] != ':') return true;
    if (!digits || r->at[digits] != '-') return refuse(r, "a range is FIRST-LAST: or FIRST-:");
    if (!read_number(r, &r->from)) return false;
    r->at++;
    if (*r->at != ':') {
        if (!read_number(r, &r->to)) return false;
        r->to++;
    }
    return accept(r, ":") || refuse(r, "a range ends with ':'");
}

static bool read_setting(flow_reader *r, weft_flow_step *s) {
    if (accept(r, "accumulate="))
        return s->accumulate ? refuse(r, "accumulate is given twice") : read_count(r, &s->accumulate);
    if (!accept(r, "batch=")) return refuse(r, "there are accumulate=K, batch=next and batch=same");
    if (s->batch) return refuse(r, "batch is given twice");
    for (int i = WEFT_FLOW_NEXT; i <= WEFT_FLOW_SAME; i++) {
        s->batch = (weft_flow_batch)i;
        if (accept(r, batch_words[i])) return true;
    }
    return refuse(r, "batch is next or same");
}

static bool read_settings(flow_reader *r, weft_flow_step *s) {
    do {
        skip_blanks(r);
        if (!read_setting(r, s)) return false;
        skip_blanks(r);
    } while (accept(r, ","));
    return accept(r, "}") || refuse(r, "'}' must end the settings of a step");
}

static bool read_step(flow_reader *r) {
    char graph[201];
    size_t length = strcspn(r->at, " \t;:{*");
    if (r->n == FLOW_MAX_STEPS) return refuse(r, "a flow has at most 256 steps");
    snprintf(graph, sizeof graph, "%.*s", (int)length, r->at);
    if (length >= sizeof graph || !name_is_valid(graph))
        return refuse(r, "a step begins with the name of a graph");
    r->at += length;
    weft_flow_step *s = &r->steps[r->n++];
    *s = (weft_flow_step){scope_intern(r->m, graph), 1, 0, WEFT_FLOW_AUTO, r->from, r->to};
    if (!s->graph) return flow_fail(r->m, r->name, WEFT_MEMORY, "out of memory");
    if (accept(r, "{") && !read_settings(r, s)) return false;
    if (!accept(r, "*")) return true;
    return read_count(r, &s->repeat) && (*r->at != '{' || refuse(r, "settings come before '*'"));
}

/* A range, and at least one step. */
static bool read_part(flow_reader *r) {
    skip_blanks(r);
    if (!read_range(r)) return false;
    skip_blanks(r);
    do {
        if (!read_step(r)) return false;
        bool is_apart = *r->at == ' ' || *r->at == '\t' || *r->at == ';' || !*r->at;
        if (!is_apart) return refuse(r, "a blank or ';' must follow a step");
        skip_blanks(r);
    } while (*r->at && *r->at != ';');
    return true;
}

bool flow_parse(weft_model *m, const char *name, const char *steps) {
    if (!model_ok(m)) return false;
    if (!steps || strnlen(steps, FLOW_MAX_TEXT_BYTES) == FLOW_MAX_TEXT_BYTES)
        return flow_fail(m, name, WEFT_ARGUMENT, "a text of at most 96 KiB is needed");
    flow_reader *r = mem_new(&m->env, sizeof *r);
    if (!r) return flow_fail(m, name, WEFT_MEMORY, "out of memory");
    *r = (flow_reader){.m = m, .name = name, .at = steps};
    bool is_read;
    do is_read = read_part(r);
    while (is_read && accept(r, ";"));
    is_read = is_read && flow_set(m, name, r->n, r->steps);
    mem_free(&m->env, r, sizeof *r);
    return is_read;
}

static void range_write(text *t, const weft_flow_step *s) {
    if (!s->from && s->to == INT64_MAX) return;
    text_add(t, "%jd-", s->from);
    if (s->to < INT64_MAX) text_add(t, "%jd", s->to - 1);
    text_add(t, ": ");
}

/* In a plan a graph without inputs takes no batch, which is `same` also before any other step: no flow
 * says that. */
static void step_write(text *t, const weft_flow_step *steps, int i) {
    const weft_flow_step *s = &steps[i];
    bool has_batch = s->batch && (s->batch != WEFT_FLOW_SAME || first_gap(i, steps, s->from, s->to) == s->to);
    text_add(t, "%s", s->graph);
    if (s->accumulate) text_add(t, "{accumulate=%d", s->accumulate);
    if (has_batch) text_add(t, "%sbatch=%s", s->accumulate ? "," : "{", batch_words[s->batch]);
    if (s->accumulate || has_batch) text_add(t, "}");
    if (s->repeat > 1) text_add(t, "*%d", s->repeat);
}

void flow_steps_write(text *t, int n, const weft_flow_step *steps) {
    for (int i = 0; i < n; i++) {
        bool is_new = !i || steps[i].from != steps[i - 1].from || steps[i].to != steps[i - 1].to;
        if (i) text_add(t, is_new ? "; " : " ");
        if (is_new) range_write(t, &steps[i]);
        step_write(t, steps, i);
    }
}

void flow_write(text *t, const char *name, int n, const weft_flow_step *steps) {
    text_add(t, "flow %s ", name);
    flow_steps_write(t, n, steps);
    text_add(t, "\n");
}

bool flow_entry_has(const flow_entry *e, const char *graph) {
    for (int i = 0; i < e->n; i++)
        if (strcmp(e->steps[i].graph, graph) == 0) return true;
    return false;
}

/* ---- the public functions ---- */

weft_status weft_model_set_flow_named(weft_model *m, const char *name, const char *steps) {
    if (!m) return WEFT_ARGUMENT;
    flow_parse(m, name, steps);
    return m->error.status;
}

weft_status weft_model_set_flow(weft_model *m, const char *steps) {
    return weft_model_set_flow_named(m, FLOW_DEFAULT, steps);
}

const char *weft_flow_name(const weft_model *m, int index) {
    const flow_entry *e = m && index >= 0 ? m->flows : NULL;
    for (; e && index > 0; index--) e = e->next;
    return e ? e->name : NULL;
}
