/* test_view.c - what the page of `graphtool view` says of a model is what the compiler made: each node and
 * each edge of each state, offsets and lives, scopes, equal layers; whatever names it has. The page is read
 * as a browser reads it, and compared with the structs of plans by loops of its own. */
#include "graph/core/graph.h"
#include "runtime/plan/program.h"
#include "support/example.h"
#include "support/models/random_model.h"
#include "support/programs.h"
#include "tools/graphtool/cmd/commands.h"
#include "tools/graphtool/view/view.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a page, read ---- */

enum { COLUMNS_MOST = 64, TEXT_ROOM = 4000 };

typedef struct page {
    json_t *root;
    int n_kept;
    int64_t *kept[COLUMNS_MOST];
} page;

static const char begin_mark[] = "<script type=\"application/json\" id=\"weft-data\">";

static json_t *page_json(const char *html) {
    const char *begin = strstr(html, begin_mark);
    const char *end = begin ? strstr(begin, "</script>") : NULL;
    if (!CHECK(end != NULL)) return NULL;
    begin += strlen(begin_mark);
    json_error_t error;
    json_t *root = json_loadb(begin, (size_t)(end - begin), JSON_DISABLE_EOF_CHECK, &error);
    CHECK_SAYS(root != NULL, "%s", error.text);
    return root;
}

static bool page_open(page *p, const char *name) {
    char *html = read_all(name);
    *p = (page){0};
    if (CHECK(html != NULL)) p->root = page_json(html);
    free(html);
    return p->root != NULL;
}

static void page_forget(page *p) {
    while (p->n_kept) free(p->kept[--p->n_kept]);
}

static void page_close(page *p) {
    page_forget(p);
    json_decref(p->root);
}

static int64_t item(const json_t *list, size_t i) {
    return json_integer_value(json_array_get(list, i));
}

/* The numbers of a column in any of its three forms; *n: how many. */
static int64_t *column(page *p, const json_t *of, const char *name, int *n) {
    const json_t *c = json_object_get(of, name), *runs = json_object_get(c, "runs");
    const json_t *deltas = json_object_get(c, "delta"), *list = runs ? runs : deltas ? deltas : c;
    size_t count = json_array_size(list), at = 0;
    CHECK_SAYS(json_is_array(list), "column %s", name);
    *n = (int)count;
    for (size_t i = 0; runs && i < count; i += 2) *n = (i ? *n : 0) + (int)item(list, i + 1);
    int64_t *v = calloc((size_t)*n + 1, sizeof *v), sum = 0;
    if (!v || p->n_kept == COLUMNS_MOST) abort();
    p->kept[p->n_kept++] = v;
    for (size_t i = 0; i < count; i += runs ? 2 : 1) {
        sum = deltas ? sum + item(list, i) : item(list, i);
        for (int64_t k = runs ? item(list, i + 1) : 1; k > 0; k--) v[at++] = sum;
    }
    return v;
}

/* One graph of a page. */
typedef struct seen {
    const char *name;
    const json_t *texts, *parameters;
    int n_nodes, n_values, n_reads, n_earlier, n_scopes, n_workspaces, n_outputs, n_states, n_parameters;
    int64_t arena, peak;
    int64_t *op, *scope, *phase, *first, *last, *kernel, *step, *lane, *parameter, *waits, *source, *attrs;
    int64_t *collective;
    int64_t *v_node, *v_name, *v_type, *v_bytes, *v_offset, *v_base, *v_from, *v_until;
    int64_t *in_at, *in_value, *since, *out_at, *e_node, *e_place, *e_value, *e_first, *e_last;
    int64_t *w_node, *w_offset, *w_bytes, *o_name, *o_value;
    int64_t *path, *parent, *same, *count, *row, *column, *scope_row, *scope_column, *p_path;
    const json_t *states;
} seen;

static const char *text_of(const seen *s, int64_t number) {
    const char *text = json_string_value(json_array_get(s->texts, (size_t)number));
    return text ? text : "(no such text)";
}

static bool seen_open(page *p, seen *s, int plan_at, int graph_at) {
    const json_t *plan = json_array_get(json_object_get(p->root, "plans"), (size_t)plan_at);
    const json_t *g = json_array_get(json_object_get(plan, "graphs"), (size_t)graph_at);
    const json_t *nodes = json_object_get(g, "nodes"), *values = json_object_get(g, "values");
    const json_t *in = json_object_get(g, "inputs"), *early = json_object_get(in, "earlier");
    const json_t *scopes = json_object_get(g, "scopes"), *work = json_object_get(g, "workspaces");
    const json_t *out = json_object_get(g, "outputs"), *layout = json_object_get(g, "layout");
    int sizes[44], n = 0;
    page_forget(p);
    *s = (seen){.name = json_string_value(json_object_get(g, "name")),
                .texts = json_object_get(p->root, "texts"),
                .states = json_object_get(g, "passes"),
                .arena = json_integer_value(json_object_get(g, "arena")),
                .peak = json_integer_value(json_object_get(g, "peak_step"))};
    s->n_states = (int)json_array_size(s->states);
    const struct {
        const json_t *of;
        const char *name;
        int64_t **into;
        int *rows; /* how many all columns of this table have */
    } all[] = {{nodes, "op", &s->op, &s->n_nodes},
               {nodes, "scope", &s->scope, &s->n_nodes},
               {nodes, "phase", &s->phase, &s->n_nodes},
               {nodes, "first", &s->first, &s->n_nodes},
               {nodes, "last", &s->last, &s->n_nodes},
               {nodes, "kernel", &s->kernel, &s->n_nodes},
               {nodes, "step", &s->step, &s->n_nodes},
               {nodes, "lane", &s->lane, &s->n_nodes},
               {nodes, "parameter", &s->parameter, &s->n_nodes},
               {nodes, "waits_for", &s->waits, &s->n_nodes},
               {nodes, "source", &s->source, &s->n_nodes},
               {nodes, "attrs", &s->attrs, &s->n_nodes},
               {nodes, "collective", &s->collective, &s->n_nodes},
               {values, "node", &s->v_node, &s->n_values},
               {values, "name", &s->v_name, &s->n_values},
               {values, "type", &s->v_type, &s->n_values},
               {values, "bytes", &s->v_bytes, &s->n_values},
               {values, "offset", &s->v_offset, &s->n_values},
               {values, "base", &s->v_base, &s->n_values},
               {values, "from", &s->v_from, &s->n_values},
               {values, "until", &s->v_until, &s->n_values},
               {in, "value", &s->in_value, &s->n_reads},
               {in, "since", &s->since, &s->n_reads},
               {early, "node", &s->e_node, &s->n_earlier},
               {early, "place", &s->e_place, &s->n_earlier},
               {early, "value", &s->e_value, &s->n_earlier},
               {early, "first", &s->e_first, &s->n_earlier},
               {early, "last", &s->e_last, &s->n_earlier},
               {work, "node", &s->w_node, &s->n_workspaces},
               {work, "offset", &s->w_offset, &s->n_workspaces},
               {work, "bytes", &s->w_bytes, &s->n_workspaces},
               {out, "name", &s->o_name, &s->n_outputs},
               {out, "value", &s->o_value, &s->n_outputs},
               {scopes, "path", &s->path, &s->n_scopes},
               {scopes, "parent", &s->parent, &s->n_scopes},
               {scopes, "same", &s->same, &s->n_scopes},
               {scopes, "nodes", &s->count, &s->n_scopes},
               {layout, "row", &s->row, &s->n_nodes},
               {layout, "column", &s->column, &s->n_nodes},
               {json_object_get(plan, "parameters"), "path", &s->p_path, &s->n_parameters}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].into = column(p, all[i].of, all[i].name, &sizes[n]);
        if (!*all[i].rows) *all[i].rows = sizes[n];
        CHECK_SAYS(*all[i].rows == sizes[n], "column %s: %d rows, not %d", all[i].name, sizes[n],
                   *all[i].rows);
        n++;
    }
    int starts[4];
    s->in_at = column(p, in, "at", &starts[0]);
    s->out_at = column(p, json_object_get(g, "results"), "at", &starts[1]);
    s->scope_row = column(p, layout, "scope_row", &starts[2]);
    s->scope_column = column(p, layout, "scope_column", &starts[3]);
    return CHECK(starts[0] == s->n_nodes + 1 && starts[1] == s->n_nodes + 1) &&
           CHECK(s->in_at[s->n_nodes] == s->n_reads && s->out_at[s->n_nodes] == s->n_values) &&
           CHECK(starts[2] == 3 * s->n_scopes && starts[3] == 3 * s->n_scopes);
}

/* ---- the state that runs ---- */

static int phase_of(const weft_node *n) {
    return n->is_update ? 2 : n->is_backward ? 1 : 0;
}

static int inside_fused(const weft_node *n, char *out, size_t room) {
    int at = 0;
    for (int b = 0; b < n->n_body; b++)
        at += snprintf(out + at, room - (size_t)at, "%s ", n->body[b]->op->name);
    return at;
}

static bool is_named(const weft_graph *g, const weft_value *v, const char *name) {
    char id[30];
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (o->value == v && strcmp(o->name, name) == 0) return true;
    snprintf(id, sizeof id, "%%%d", v->id);
    return strcmp(id, name) == 0;
}

static void check_result(const seen *s, const weft_graph *g, const weft_node *n, int i, int k) {
    int at = (int)s->out_at[i] + k;
    const weft_value *v = &n->out[k];
    const char *type = text_of(s, s->v_type[at]);
    CHECK(s->v_node[at] == i);
    CHECK_SAYS(is_named(g, v, text_of(s, s->v_name[at])), "%s %%%d", text_of(s, s->v_name[at]), v->id);
    CHECK_SAYS(strncmp(type, TYPE(&v->type), strlen(TYPE(&v->type))) == 0, "%s", type);
}

static void check_operands(const seen *s, const weft_node *n, int i) {
    if (!CHECK(s->in_at[i + 1] - s->in_at[i] == n->n_in)) return;
    for (int k = 0; k < n->n_in; k++) {
        int64_t value = s->in_value[s->in_at[i] + k];
        int64_t wanted = n->in[k] ? s->out_at[n->in[k]->node->order] + n->in[k]->index : -1;
        CHECK_SAYS(value == wanted, "%s: operand %d is value %d, not %d", n->op->name, k, (int)value,
                   (int)wanted);
    }
}

static void check_node(const seen *s, const weft_graph *g, const weft_node *n, int i) {
    const char *kernel = n->kernel ? n->kernel->name : "";
    CHECK_TEXT(text_of(s, s->op[i]), n->op->name);
    CHECK_TEXT(text_of(s, s->path[s->scope[i]]), n->scope);
    CHECK_TEXT(text_of(s, s->kernel[i]), kernel);
    CHECK(s->phase[i] == phase_of(n) && s->step[i] == n->order && n->order == i);
    CHECK(s->last[i] == s->n_states - 1 && s->first[i] <= s->last[i] && s->first[i] >= 0);
    if (n->op == &weft_op_parameter) CHECK_TEXT(text_of(s, s->p_path[s->parameter[i]]), n->variable->path);
    bool waits = strcmp(n->op->name, "wait") == 0, starts = n->op->flags & OP_COMMUNICATES && !waits;
    CHECK(s->lane[i] == starts && (s->collective[i] > 0) == starts);
    CHECK(s->waits[i] == (waits ? n->in[0]->node->order : -1));
    char body[TEXT_ROOM] = "";
    if (inside_fused(n, body, sizeof body))
        for (char *word = strtok(body, " "); word; word = strtok(NULL, " "))
            CHECK_HOLDS(text_of(s, s->attrs[i]), word);
    check_operands(s, n, i);
    if (!CHECK(s->out_at[i + 1] - s->out_at[i] == n->n_out)) return;
    for (int k = 0; k < n->n_out; k++) check_result(s, g, n, i, k);
}

static void check_last_state(const seen *s, const weft_graph *g) {
    int i = 0, o = 0;
    for (const weft_node *n = g->first; n && i < s->n_nodes; n = n->next) check_node(s, g, n, i++);
    CHECK_SAYS(i == g->n_nodes, "%d of %d nodes", i, g->n_nodes);
    for (; i < s->n_nodes; i++) CHECK(s->last[i] < s->n_states - 1 && s->step[i] == -1);
    for (const graph_output *p = g->outputs; p; p = p->next, o++) {
        CHECK_TEXT(text_of(s, s->o_name[o]), p->name);
        CHECK(s->o_value[o] == s->out_at[p->value->node->order] + p->value->index);
    }
    CHECK(o == s->n_outputs);
}

/* ---- each state, as lines that are compared without their order ---- */

typedef struct lines {
    int n;
    char **v;
} lines;

static void add_line(lines *l, const char *line) {
    if (!(l->v = realloc(l->v, ((size_t)l->n + 1) * sizeof *l->v)) || !(l->v[l->n++] = strdup(line))) abort();
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lines_free(lines *l) {
    for (int i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
}

/* An operand that is left out at the end is as one that is not there. */
static void end_line(lines *l, char *line) {
    size_t n = strlen(line);
    while (n > 2 && strcmp(line + n - 2, " -") == 0) line[n -= 2] = 0;
    add_line(l, line);
}

/* "conv2d|net/conv1|0|1 < input.0 parameter.0" */
static lines lines_of_graph(const weft_graph *g) {
    lines l = {0};
    for (const weft_node *n = g->first; n; n = n->next) {
        char line[TEXT_ROOM];
        int at = snprintf(line, sizeof line, "%s|%s|%d|%d <", n->op->name, n->scope, phase_of(n), n->n_out);
        for (int i = 0; i < n->n_in && at < TEXT_ROOM - 300; i++) {
            const weft_value *v = n->in[i];
            at += v ? snprintf(line + at, sizeof line - (size_t)at, " %s.%d", v->node->op->name, v->index)
                    : snprintf(line + at, sizeof line - (size_t)at, " -");
        }
        end_line(&l, line);
    }
    if (l.n) qsort(l.v, (size_t)l.n, sizeof *l.v, by_text);
    return l;
}

/* Operand `place` of a node in a state; -1: it is missing. */
static int64_t operand_in(const seen *s, int64_t i, int place, int state) {
    for (int e = 0; e < s->n_earlier; e++)
        if (s->e_node[e] == i && s->e_place[e] == place && s->e_first[e] <= state && state <= s->e_last[e])
            return s->e_value[e];
    bool is_there = s->in_at[i] + place < s->in_at[i + 1] && s->since[s->in_at[i] + place] <= state;
    return is_there ? s->in_value[s->in_at[i] + place] : -1;
}

static int operands_of(const seen *s, int64_t i) {
    int n = (int)(s->in_at[i + 1] - s->in_at[i]);
    for (int e = 0; e < s->n_earlier; e++)
        if (s->e_node[e] == i && s->e_place[e] >= n) n = (int)s->e_place[e] + 1;
    return n;
}

static lines lines_of_state(const seen *s, int state) {
    lines l = {0};
    for (int i = 0; i < s->n_nodes; i++) {
        char line[TEXT_ROOM];
        if (state < s->first[i] || state > s->last[i]) continue;
        int at = snprintf(line, sizeof line, "%s|%s|%d|%d <", text_of(s, s->op[i]),
                          text_of(s, s->path[s->scope[i]]), (int)s->phase[i],
                          (int)(s->out_at[i + 1] - s->out_at[i]));
        for (int k = 0; k < operands_of(s, i) && at < TEXT_ROOM - 300; k++) {
            int64_t v = operand_in(s, i, k, state), from = v < 0 ? -1 : s->v_node[v];
            if (from >= 0) CHECK(s->first[from] <= state && state <= s->last[from]);
            at += from >= 0 ? snprintf(line + at, sizeof line - (size_t)at, " %s.%d", text_of(s, s->op[from]),
                                       (int)(v - s->out_at[from]))
                            : snprintf(line + at, sizeof line - (size_t)at, " -");
        }
        end_line(&l, line);
    }
    if (l.n) qsort(l.v, (size_t)l.n, sizeof *l.v, by_text);
    return l;
}

static void check_state(const seen *s, int state, const weft_graph *g) {
    lines got = lines_of_state(s, state), wanted = lines_of_graph(g);
    const char *name = json_string_value(json_array_get(s->states, (size_t)state));
    CHECK_SAYS(got.n == wanted.n, "%s: %d nodes, not %d", name, got.n, wanted.n);
    for (int i = 0; i < got.n && i < wanted.n; i++)
        if (!CHECK_SAYS(strcmp(got.v[i], wanted.v[i]) == 0, "%s: %s, not %s", name, got.v[i], wanted.v[i]))
            break;
    lines_free(&got);
    lines_free(&wanted);
}

/* ---- memory ---- */

/* A value's place by its bases: false where it is in no arena. */
static bool place_of(const weft_value *v, const weft_value **root, int64_t *offset) {
    int64_t at = 0;
    for (; v->base; v = v->base) at += v->base_offset * (int64_t)dtype_bytes(v->type.dtype);
    *root = v;
    *offset = at + v->arena_offset;
    return !v->variable && v->arena_offset >= 0;
}

static int64_t span_of(const weft_value *v) {
    int64_t last = 0;
    for (int i = 0; i < v->type.ndim; i++) last += (v->type.shape[i] - 1) * v->stride[i];
    return (last + 1) * (int64_t)dtype_bytes(v->type.dtype);
}

static int value_at(const seen *s, const weft_value *v) {
    return (int)s->out_at[v->node->order] + v->index;
}

/* The first and the last step in which a node or an output touches each buffer. */
static void check_lives(const seen *s, const weft_graph *g) {
    int *from = calloc((size_t)s->n_values + 1, sizeof *from),
        *until = calloc((size_t)s->n_values + 1, sizeof *until);
    const weft_value *root;
    int64_t offset;
    for (int i = 0; i < s->n_values; i++) from[i] = INT_MAX, until[i] = -1;
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_value *v = i < n->n_in ? n->in[i] : &n->out[i - n->n_in];
            if (!v || !place_of(v, &root, &offset)) continue;
            int at = value_at(s, root);
            if (n->order < from[at]) from[at] = n->order;
            if (n->order > until[at]) until[at] = n->order;
        }
    for (const graph_output *o = g->outputs; o; o = o->next)
        if (place_of(o->value, &root, &offset)) until[value_at(s, root)] = g->n_nodes;
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            int at = value_at(s, &n->out[k]);
            bool is_placed = place_of(&n->out[k], &root, &offset);
            CHECK(s->v_bytes[at] == span_of(&n->out[k]));
            CHECK(s->v_offset[at] == (is_placed ? offset : -1));
            CHECK(s->v_base[at] == (n->out[k].base ? value_at(s, root) : -1));
            if (!is_placed) CHECK(s->v_from[at] == -1 && s->v_until[at] == -1);
            if (is_placed) CHECK(s->v_until[at] == until[value_at(s, root)]);
            if (is_placed) CHECK(s->v_from[at] == (n->out[k].base ? n->order : from[at]));
        }
    free(from);
    free(until);
}

/* A rectangle of the map of memory. */
typedef struct buffer {
    int64_t begin, end, from, until;
} buffer;

static int collect(const seen *s, buffer *list) {
    int n = 0;
    for (int i = 0; i < s->n_values; i++)
        if (s->v_offset[i] >= 0 && s->v_base[i] < 0)
            list[n++] = (buffer){s->v_offset[i], s->v_offset[i] + s->v_bytes[i], s->v_from[i], s->v_until[i]};
    for (int i = 0; i < s->n_workspaces; i++) {
        int64_t step = s->step[s->w_node[i]];
        list[n++] = (buffer){s->w_offset[i], s->w_offset[i] + s->w_bytes[i], step, step};
    }
    return n;
}

static void check_map(const seen *s, const weft_graph *g) {
    buffer *list = calloc((size_t)(s->n_values + s->n_workspaces) + 1, sizeof *list);
    int64_t *live = calloc((size_t)g->n_nodes + 2, sizeof *live);
    int n = collect(s, list), works = 0;
    for (const weft_node *k = g->first; k; k = k->next) works += k->workspace_bytes > 0;
    CHECK(works == s->n_workspaces);
    for (int i = 0; i < n; i++) {
        CHECK(list[i].end <= s->arena);
        for (int64_t t = list[i].from; t <= list[i].until; t++) live[t] += list[i].end - list[i].begin;
        for (int k = 0; k < i; k++)
            CHECK(list[i].end <= list[k].begin || list[k].end <= list[i].begin ||
                  list[i].until < list[k].from || list[k].until < list[i].from);
    }
    for (int t = 0; t < g->n_nodes; t++) CHECK(live[t] <= live[s->peak]);
    free(list);
    free(live);
}

/* ---- parameters, buckets and sums, as weft_plan_json has them ---- */

/* The place of a text in a column of texts; -1: it is not there. */
static int place_in(const json_t *texts, const int64_t *column, int n, const char *wanted) {
    for (int i = 0; i < n; i++)
        if (strcmp(json_string_value(json_array_get(texts, (size_t)column[i])), wanted) == 0) return i;
    return -1;
}

static void check_buckets(page *p, const json_t *plan) {
    const json_t *of = json_array_get(json_object_get(p->root, "plans"), 0), *subgraph, *bucket, *member;
    const json_t *texts = json_object_get(p->root, "texts"), *buckets = json_object_get(of, "buckets");
    const json_t *parameters = json_object_get(of, "parameters");
    size_t i, k, j;
    int n, n_parameters, all = 0;
    page_forget(p);
    const int64_t *name = column(p, buckets, "name", &n), *bytes = column(p, buckets, "bytes", &n);
    const int64_t *group = column(p, buckets, "subgraph", &n);
    const int64_t *path = column(p, parameters, "path", &n_parameters);
    const int64_t *bucket_of = column(p, parameters, "bucket", &n_parameters);
    json_array_foreach(json_object_get(plan, "subgraphs"), i, subgraph) {
        CHECK_TEXT(json_string_value(json_array_get(json_object_get(of, "subgraphs"), i)),
                   json_string_value(json_object_get(subgraph, "name")));
        json_array_foreach(json_object_get(subgraph, "buckets"), k, bucket) {
            int at = place_in(texts, name, n, json_string_value(json_object_get(bucket, "id")));
            if (!CHECK(at >= 0)) continue;
            CHECK(bytes[at] == json_integer_value(json_object_get(bucket, "bytes")) &&
                  group[at] == (int64_t)i);
            json_array_foreach(json_object_get(bucket, "parameters"), j, member) {
                int of_path = place_in(texts, path, n_parameters, json_string_value(member));
                CHECK(of_path >= 0 && bucket_of[of_path] == at);
            }
            all++;
        }
    }
    CHECK_SAYS(all == n, "%d buckets, not %d", n, all);
}

static void check_sums(page *p, const json_t *plan) {
    const json_t *of = json_array_get(json_object_get(p->root, "plans"), 0), *row, *g;
    json_int_t total = json_integer_value(json_object_get(json_object_get(plan, "memory"), "total"));
    size_t i;
    json_array_foreach(json_object_get(of, "memory"), i,
                       row) if (strcmp(json_string_value(json_array_get(row, 0)), "total") == 0)
        CHECK(item(row, 1) == total);
    json_array_foreach(json_object_get(plan, "graphs"), i, g) {
        int n;
        int64_t flop = 0;
        const json_t *seen = json_array_get(json_object_get(of, "graphs"), i);
        page_forget(p);
        const int64_t *each = column(p, json_object_get(seen, "nodes"), "flop", &n);
        const int64_t *step = column(p, json_object_get(seen, "nodes"), "step", &n);
        for (int k = 0; k < n; k++) flop += step[k] >= 0 ? each[k] : 0;
        CHECK(flop == json_integer_value(json_object_get(g, "flops")));
        CHECK(json_integer_value(json_object_get(seen, "arena")) ==
              json_integer_value(json_object_get(g, "peak_bytes")));
    }
}

/* ---- scopes and layout ---- */

static void check_scopes(const seen *s) {
    int *count = calloc((size_t)s->n_scopes + 1, sizeof *count);
    for (int i = 0; i < s->n_nodes; i++)
        for (int64_t k = s->scope[i]; k >= 0; k = s->parent[k]) count[k]++;
    for (int i = 0; i < s->n_scopes; i++) {
        const char *path = text_of(s, s->path[i]), *slash = strrchr(path, '/');
        size_t above = slash ? (size_t)(slash - path) : 0;
        CHECK(s->count[i] == count[i]);
        if (!CHECK(i ? s->parent[i] >= 0 && s->parent[i] < i : s->parent[i] == -1 && !*path) || !i) continue;
        const char *parent = text_of(s, s->path[s->parent[i]]);
        CHECK(strlen(parent) == above && strncmp(parent, path, above) == 0);
        CHECK(s->same[i] <= i && s->same[s->same[i]] == s->same[i]);
        CHECK(s->parent[s->same[i]] == s->parent[i] && count[s->same[i]] == count[i]);
    }
    free(count);
}

/* What is drawn in one place of a scope in one phase. */
typedef struct cell {
    int64_t scope, phase, row, column;
} cell;

static int by_place(const void *pa, const void *pb) {
    return memcmp(pa, pb, sizeof(cell));
}

/* No two cells share a place, and values flow from row to row: down, in the backward phase up. */
static void check_layout(const seen *s) {
    cell *list = calloc((size_t)(s->n_nodes + 3 * s->n_scopes) + 1, sizeof *list);
    int n = 0;
    for (int i = 0; i < s->n_nodes; i++)
        list[n++] = (cell){s->scope[i], s->phase[i], s->row[i], s->column[i]};
    for (int i = 1; i < s->n_scopes; i++)
        for (int p = 0; p < 3; p++) {
            int64_t row = s->scope_row[p * s->n_scopes + i], across = s->scope_column[p * s->n_scopes + i];
            int64_t first = s->scope_row[p * s->n_scopes + s->same[i]];
            if (s->same[i] == i && row >= 0) list[n++] = (cell){s->parent[i], p, row, across};
            CHECK(row == first && (row < 0) == (across < 0));
        }
    qsort(list, (size_t)n, sizeof *list, by_place);
    for (int i = 1; i < n; i++) CHECK(by_place(&list[i - 1], &list[i]) != 0);
    for (int i = 0; i < s->n_nodes; i++)
        for (int64_t k = s->in_at[i]; k < s->in_at[i + 1]; k++) {
            int64_t from = s->in_value[k] < 0 ? -1 : s->v_node[s->in_value[k]];
            if (from < 0 || s->phase[from] != s->phase[i] || s->scope[from] != s->scope[i]) continue;
            CHECK(s->phase[i] == 1 ? s->row[from] > s->row[i] : s->row[from] < s->row[i]);
        }
    free(list);
}

/* Each scope that a node is in has a place in its phase. */
static void check_places(const seen *s) {
    for (int i = 0; i < s->n_nodes; i++)
        for (int64_t k = s->scope[i]; k > 0; k = s->parent[k])
            CHECK(s->scope_row[s->phase[i] * s->n_scopes + k] >= 0);
}

/* ---- whole pages ---- */

static void close_texts(void *texts) {
    arena_free(&((view_texts *)texts)->memory);
}

/* --guard, which commands read from its text. */
static const char *guard_text(const weft_compile_options *how) {
    static const char *const words[] = {"off", "nan", "spike", "grad"};
    if (how->guard != WEFT_GUARD_SPIKE || !(how->guard_factor > 0)) return words[how->guard];
    return tool_text("spike=%.17g", how->guard_factor);
}

/* Writes p.html of a model in memory, as the command does; its texts have `also`, too. */
static void view_model(const weft_model *m, const weft_compile_options *how, const char *also) {
    char path[300];
    options *o = tool_new(1, sizeof *o);
    view_texts *texts = tool_keep(tool_new(1, sizeof *texts), close_texts);
    *o = (options){.command = &command_view, .model = "m", .compile = *how, .guard = guard_text(how)};
    view_plan *plan = view_collect(texts, m, o);
    view_text(texts, also);
    path_of("p.html", path);
    view_write(path, view_json(texts, &plan, 1));
    tool_close();
}

static weft_plan *plan_until(const weft_model *m, const weft_compile_options *how, const char *pass) {
    weft_error e = {0};
    weft_compile_options o = *how;
    o.stop_after = pass;
    weft_plan *plan = weft_compile(m, &o, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    return plan;
}

static const char *pass_of(const char *state) {
    return strcmp(state, "built") == 0 ? "programs" : state;
}

static void check_states(page *p, const weft_model *m, const weft_compile_options *how, int graph) {
    seen s;
    if (!seen_open(p, &s, 0, graph)) return;
    for (int i = 0; i < s.n_states; i++) {
        const char *state = json_string_value(json_array_get(s.states, (size_t)i));
        weft_plan *plan = plan_until(m, how, pass_of(state));
        if (plan) check_state(&s, i, plan->programs[graph].graph);
        weft_plan_free(plan);
    }
}

/* The page p.html is of this model. */
static void check_page(const weft_model *m, const weft_compile_options *how) {
    page p;
    seen s;
    weft_plan *plan = plan_until(m, how, NULL);
    if (!plan || !page_open(&p, "p.html")) {
        weft_plan_free(plan);
        return;
    }
    for (int i = 0; i < plan->n_programs && seen_open(&p, &s, 0, i); i++) {
        CHECK_TEXT(s.name, plan->programs[i].graph->name);
        check_last_state(&s, plan->programs[i].graph);
        check_lives(&s, plan->programs[i].graph);
        check_map(&s, plan->programs[i].graph);
        check_scopes(&s);
        check_layout(&s);
        check_places(&s);
        check_states(&p, m, how, i);
    }
    char *text = weft_plan_json(plan);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    if (CHECK(json != NULL)) {
        check_buckets(&p, json);
        check_sums(&p, json);
    }
    json_decref(json);
    weft_text_free(text);
    weft_plan_free(plan);
    page_close(&p);
}

static void view_and_check(const weft_model *m, const weft_compile_options *how) {
    view_model(m, how, NULL);
    check_page(m, how);
}

TEST(a_page_has_each_node_and_each_edge_after_each_pass) {
    weft_model *m = example_model(NULL);
    view_and_check(m, &(weft_compile_options){0});
    view_and_check(m, &(weft_compile_options){.isa = WEFT_ISA_REFERENCE, .accumulate = 3});
    view_and_check(m, &(weft_compile_options){.world = 4, .rank = 1, .zero = 1});
    view_and_check(m, &(weft_compile_options){.world = 4, .zero = 2, .precision = WEFT_BF16});
    view_and_check(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA, .guard = WEFT_GUARD_GRAD});
    weft_model_free(m);
}

TEST(a_page_of_any_model_is_its_plan) {
    int n = test_count(60, 8);
    uint64_t seed = test_seed(1);
    for (int i = 0; i < n; i++) {
        test_random r = {seed + (uint64_t)i};
        int world = 1 + random_below(&r, 4);
        weft_model *m = random_model(&r, world);
        weft_compile_options how = random_options(&r, world);
        test_case_begin();
        view_and_check(m, &how);
        test_case_end(false);
        weft_model_free(m);
    }
}

/* As a user makes them. */
TEST(a_page_of_a_model_of_the_zoo_is_its_plan) {
    for (int i = 0; i < (test_is_quick() ? 3 : ZOO); i++) {
        char path[300];
        weft_error e = {0};
        if (!make_model(zoo[i]) || !ends(run("graphtool view %s.bin -o p.html", zoo[i]), 0)) continue;
        path_of(tool_text("%s.bin", zoo[i]), path);
        weft_model *m = weft_load(path, NULL, &e);
        if (CHECK_SAYS(m != NULL, "%s", e.text)) check_page(m, &(weft_compile_options){0});
        weft_model_free(m);
    }
    tool_close();
}

/* ---- equal layers ---- */

/* The `same` of each scope below one, in the order of their numbers: "l0 l0 l2". */
static void same_below(const seen *s, const char *parent, char *out, size_t room) {
    size_t at = 0;
    for (int i = 1; i < s->n_scopes && at < room; i++)
        if (strcmp(text_of(s, s->path[s->parent[i]]), parent) == 0) {
            const char *path = text_of(s, s->path[s->same[i]]), *slash = strrchr(path, '/');
            at += (size_t)snprintf(out + at, room - at, at ? " %s" : "%s", slash ? slash + 1 : path);
        }
}

/* Layer k: a product of two products beside each other, in one order or the other. */
static weft_value *layer(weft_value *x, int k, bool swaps, double slope) {
    char name[20];
    snprintf(name, sizeof name, "l%d", k);
    weft_graph *g = weft_value_graph(x);
    weft_scope_enter(x, name);
    weft_value *a = weft_linear(x, 8, "a", NULL), *b = weft_linear(x, 8, "b", NULL);
    weft_value *both[] = {swaps ? b : a, swaps ? a : b};
    weft_value *y = weft_linear(weft_concat(2, both, 1), 8, "c", NULL);
    y = weft_leaky_relu(y, slope);
    weft_scope_leave(g);
    return y;
}

/* l2 has another attribute; l4 has the ops, attributes and shapes of all others, and one reads other
 * results. */
TEST(layers_are_equal_only_where_all_of_them_is) {
    weft_model *m = weft_model_new("layers");
    weft_graph *g = weft_graph_new(m, "run", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 8));
    for (int k = 0; k < 6; k++) x = layer(x, k, k == 4, k == 2 ? 0.3 : 0.2);
    weft_output(x, "y");
    page p;
    seen s;
    char same[200] = "";
    view_and_check(m, &(weft_compile_options){0});
    if (page_open(&p, "p.html") && seen_open(&p, &s, 0, 0)) same_below(&s, "", same, sizeof same);
    CHECK_TEXT(same, "l0 l0 l2 l3 l4 l5");
    page_close(&p);
    weft_model_free(m);
}

TEST(all_layers_of_a_deep_gpt_are_one) {
    const int layers[] = {48, 384};
    for (int i = 0; i < (test_is_quick() ? 1 : 2); i++) {
        page p;
        seen s;
        int equal = 0;
        ends(run("weft-zoo gpt --layers %d --d 96 --ctx 32 -o deep.bin", layers[i]), 0);
        ends(run("graphtool view deep.bin -o p.html"), 0);
        if (!page_open(&p, "p.html")) return;
        for (int g = 0; g < 3 && seen_open(&p, &s, 0, g); g++) {
            equal = 0;
            for (int k = 0; k < s.n_scopes; k++)
                equal += strcmp(text_of(&s, s.path[s.same[k]]), "gpt/blocks/0") == 0;
            CHECK_SAYS(equal == layers[i], "%d of %d are equal", equal, layers[i]);
        }
        page_close(&p);
    }
}

/* ---- times ---- */

/* Nodes that ran follow each other, and their times add up to the whole. */
TEST(measured_nodes_follow_each_other) {
    page p;
    if (!make_model("mlp") || !ends(run("graphtool view mlp.bin --profile --batch 8 -o p.html"), 0)) return;
    if (!page_open(&p, "p.html")) return;
    const json_t *plan = json_array_get(json_object_get(p.root, "plans"), 0);
    const json_t *g = json_array_get(json_object_get(plan, "graphs"), 0), *time = json_object_get(g, "time");
    int n = 0, timed = 0;
    const int64_t *us = column(&p, json_object_get(g, "nodes"), "us", &n);
    const int64_t *begin = column(&p, json_object_get(g, "nodes"), "begin_us", &n);
    int64_t now = 0;
    for (int i = 0; i < n; i++) {
        CHECK((us[i] < 0) == (begin[i] < 0));
        if (us[i] < 0) continue;
        CHECK_SAYS(begin[i] == now, "node %d begins at %lld, not %lld", i, (long long)begin[i],
                   (long long)now);
        now = begin[i] + us[i];
        timed++;
    }
    CHECK(timed > 5 && now > 0);
    CHECK_TEXT(json_string_value(json_object_get(time, "kind")), "measured");
    CHECK(json_integer_value(json_object_get(time, "total_us")) == now);
    page_close(&p);
}

/* ---- two plans ---- */

/* The text of what a node of one plan's graph is called in a plan's text: "%12"; -1 is nothing. */
static int64_t id_of(page *p, int plan, int graph, int64_t node) {
    seen s;
    if (node < 0 || !seen_open(p, &s, plan, graph)) return -1;
    const char *name = text_of(&s, s.v_name[s.out_at[node]]);
    return *name == '%' ? atoll(name + 1) : -2; /* an output's name */
}

/* Each node of the first graph that runs is one of the second, of the same op, or was removed; and none of
 * the second is that of two. */
static void check_pairs(page *p, const json_t *difference) {
    enum { MOST = 4096 };
    seen s;
    int n;
    static int64_t pairs[MOST], op[MOST];
    static bool is_removed[MOST], is_taken[MOST];
    const json_t *entry = json_array_get(json_object_get(difference, "graphs"), 0), *change;
    const json_t *graphs = json_object_get(entry, "graphs");
    int64_t first = item(graphs, 0), second = item(graphs, 1);
    size_t at;
    json_array_foreach(json_object_get(difference, "changes"), at, change) {
        const json_t *nodes = json_object_get(change, "nodes");
        bool is_here = item(json_object_get(change, "graphs"), 0) == first;
        if (is_here && item(nodes, 1) < 0 && item(nodes, 0) >= 0) is_removed[item(nodes, 0)] = true;
    }
    if (!seen_open(p, &s, 0, (int)first)) return;
    const int64_t *column_of = column(p, entry, "pairs", &n);
    if (!CHECK(n > 50 && n <= s.n_nodes && n < MOST)) return;
    for (int i = 0; i < n; i++) pairs[i] = column_of[i], op[i] = s.op[i];
    if (!seen_open(p, &s, 1, (int)second)) return;
    for (int i = 0; i < n; i++) {
        int64_t other = pairs[i];
        if (!CHECK_SAYS(other >= 0 ? other < s.n_nodes && !is_taken[other] && !is_removed[i] : is_removed[i],
                        "node %d is %lld", i, (long long)other) ||
            other < 0)
            continue;
        is_taken[other] = true;
        CHECK_TEXT(text_of(&s, s.op[other]), text_of(&s, op[i]));
    }
}

/* graphtool diff has the same list, with the ids of nodes. */
TEST(a_page_of_two_models_has_what_diff_lists) {
    page p;
    ends(run("weft-zoo gpt --layers 2 --d 48 --ctx 16 -o a.bin && weft-zoo gpt --layers 3 --d 48 --ctx 16 -o "
             "b.bin"),
         0);
    ends(run("graphtool view a.bin b.bin -o p.html"), 0);
    ends(run("graphtool diff a.bin b.bin --view=program --all --json -o d.json"), 1);
    json_t *diff = json_out("d.json");
    if (!page_open(&p, "p.html")) return;
    const json_t *wanted = json_object_get(diff, "changes");
    json_t *difference = json_incref(json_object_get(p.root, "difference"));
    json_t *got = json_incref(json_object_get(difference, "changes"));
    static const char *const sums[] = {"totals", "memory", "peaks"};
    for (int i = 0; i < 3; i++)
        CHECK_SAYS(json_equal(json_object_get(difference, sums[i]), json_object_get(diff, sums[i])), "%s",
                   sums[i]);
    check_pairs(&p, difference);
    json_decref(difference);
    CHECK(json_array_size(json_object_get(p.root, "plans")) == 2);
    CHECK(json_array_size(got) == json_array_size(wanted) && json_array_size(got) > 20);
    for (size_t i = 0; i < json_array_size(got); i++) {
        const json_t *a = json_array_get(got, i), *b = json_array_get(wanted, i);
        static const char *const keys[] = {"kind", "what", "path", "op", "text"};
        for (int k = 0; k < 5; k++)
            CHECK_TEXT(json_string_value(json_object_get(a, keys[k])),
                       json_string_value(json_object_get(b, keys[k])));
        for (size_t side = 0; side < 2; side++) {
            int graph = (int)item(json_object_get(a, "graphs"), side);
            int64_t id = id_of(&p, (int)side, graph, item(json_object_get(a, "nodes"), side));
            int64_t same = item(json_object_get(b, "nodes"), side);
            CHECK_SAYS(id == same || id == -2, "change %d: %%%lld, not %%%lld", (int)i, (long long)id,
                       (long long)same);
        }
    }
    json_decref(got);
    json_decref(diff);
    page_close(&p);
}

/* ---- names that would break a page ---- */

static int count_in(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

static bool has_text(const json_t *texts, const char *wanted) {
    bool is_found = false;
    for (size_t i = 0; i < json_array_size(texts); i++)
        is_found |= strcmp(json_string_value(json_array_get(texts, i)), wanted) == 0;
    return CHECK_SAYS(is_found, "no text \"%s\"", wanted);
}

/* Scopes and graphs have letters alone, but files may have any name, and what is not UTF-8 becomes '?'. */
TEST(no_text_ends_the_script_that_has_it) {
    static const char hostile[] = "</script><!--<script>\"'\\\x01\x7f\xe2\x80\xa8&amp;\n";
    weft_model *m = weft_model_new("hostile");
    weft_graph *g = weft_graph_new(m, "run", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 8));
    weft_output((weft_tanh)(weft_at(x, "<!--<script>\"\x01\xff.c", 7)), "y");
    view_model(m, &(weft_compile_options){0}, hostile);
    check_page(m, &(weft_compile_options){0});
    page p;
    char *html = read_all("p.html");
    if (CHECK(html != NULL) && page_open(&p, "p.html")) {
        const json_t *texts = json_object_get(p.root, "texts");
        has_text(texts, hostile);
        has_text(texts, "<!--<script>\"\x01?.c:7");
        char *begin = strstr(html, begin_mark) + strlen(begin_mark), *end = strstr(begin, "</script>");
        *end = 0;
        CHECK(count_in(begin, "<") == 0 && end[-1] == '}');
        page_close(&p);
    }
    free(html);
    weft_model_free(m);
}

/* ---- sizes ---- */

static int64_t bytes_of(const char *name) {
    char *all = read_all(name);
    int64_t n = all ? (int64_t)strlen(all) : -1;
    free(all);
    return n;
}

TEST(pages_stay_small) {
    if (!make_model("resnet50")) return;
    ends(run("graphtool view resnet50.bin -o p.html"), 0);
    CHECK_SAYS(bytes_of("p.html") < 2 << 20, "%lld bytes", (long long)bytes_of("p.html"));
}

/* 130,000 nodes in one scope, which train: as many gradients again. */
static bool make_chain(void) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("chain");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 8));
    x = weft_linear(x, 8, "fc", NULL);
    for (int i = 0; i < 65000; i++) x = weft_tanh(x);
    weft_minimize(weft_mean(x, 0, NULL, false), "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    path_of("chain.bin", path);
    bool good = weft_save(m, path, &e) == WEFT_OK;
    CHECK_SAYS(good, "%s", e.text);
    weft_model_free(m);
    return good;
}

TEST(a_page_of_130000_nodes_is_written) {
    page p;
    seen s;
    if (!make_chain() || !ends(run("graphtool view chain.bin -o p.html"), 0)) return;
    CHECK_SAYS(bytes_of("p.html") < 15 << 20, "%lld bytes", (long long)bytes_of("p.html"));
    if (!page_open(&p, "p.html")) return;
    if (seen_open(&p, &s, 0, 0)) CHECK_SAYS(s.n_nodes > 130000, "%d nodes", s.n_nodes);
    page_close(&p);
}

/* A model of parameters alone is shown by nothing, as the first or as the second. */
TEST(a_model_without_a_graph_has_no_page) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("bare");
    path_of("bare.bin", path);
    CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
    NEED(make_model("mlp"));
    refuses(run("rm -f p.html; graphtool view bare.bin -o p.html"), "bare.bin: the model has no graph");
    refuses(run("graphtool view mlp.bin bare.bin -o p.html"), "bare.bin: the model has no graph");
    ends(run("test ! -e p.html"), 0);
}

SUITE("view",
      {T(a_model_without_a_graph_has_no_page), T(a_page_has_each_node_and_each_edge_after_each_pass),
       T(a_page_of_any_model_is_its_plan), T(a_page_of_a_model_of_the_zoo_is_its_plan),
       T(layers_are_equal_only_where_all_of_them_is), T(all_layers_of_a_deep_gpt_are_one),
       T(measured_nodes_follow_each_other), T(a_page_of_two_models_has_what_diff_lists),
       T(no_text_ends_the_script_that_has_it), T(pages_stay_small), T(a_page_of_130000_nodes_is_written)})
