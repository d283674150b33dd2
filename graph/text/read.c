/* read.c - reads back the dump format of graph/text/write.c: the header, variables, graphs and outputs; nodes
 * are in text/node.c. A model read from a dump of any stage of the compiler prints the same
 * text again.
 *
 * The text may be hostile: every number is bounded, the length of the text bounds all tables (MODEL_MAX_*),
 * node_new makes the nodes with all its checks, and nothing recurses. */
#include "graph/core/words.h"
#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"
#include "graph/settings/strategy.h"
#include "graph/text/read.h"

#include "weft/file.h"

#include <stdlib.h>
#include <string.h>

/* ---- variables ---- */

/* " uniform(-0.125,0.125)" */
static bool init_read(reader *r, weft_init *init) {
    if (!reader_want(r, " ")) return false;
    const char *name = reader_name(r, "(");
    if (!name) return false;
    int kind = WEFT_INIT_ZEROS;
    while (kind <= WEFT_INIT_KAIMING_NORMAL && strcmp(init_name((weft_init_kind)kind), name) != 0) kind++;
    if (kind > WEFT_INIT_KAIMING_NORMAL) return reader_fail(r, "there is no initializer '%s'", SHOW(name));
    init->kind = (weft_init_kind)kind;
    if (!reader_want(r, "(")) return false;
    if (!real_parse(&r->at, &init->a)) return reader_fail(r, "the initializer's first number cannot be read");
    if (!reader_want(r, ",")) return false;
    if (!real_parse(&r->at, &init->b))
        return reader_fail(r, "the initializer's second number cannot be read");
    return reader_want(r, ")");
}

/* Reads one member of a bucket, or of a variable over one. *end is where the member before it ends, in
 * elements, and is moved to the end of this one. */
static bool member_read(reader *r, weft_variable *v, int64_t *end) {
    const char *path = reader_name(r, ",@ ");
    weft_variable *p = path ? variable_find(r->m, path) : NULL;
    if (!p || p->kind != VARIABLE_PARAMETER)
        return reader_fail(r, "%s: its member '%s' is not a parameter", SHOW(v->path), SHOW(path));
    int64_t at = (int64_t)size_align((size_t)*end, TEXT_MEMBER_ALIGN);
    if (reader_accept(r, "@") && !reader_int(r, *end, (int64_t)1 << 46, &at)) return false;
    if (v->kind == VARIABLE_BUCKET) {
        if (p->bucket) return reader_fail(r, "%s is in two buckets", p->path);
        p->bucket = v;
        p->offset = at;
    } else if (!p->bucket || p->offset != at) {
        return reader_fail(r, "%s: its member %s is at another offset of the bucket", SHOW(v->path), p->path);
    }
    if (v->kind == VARIABLE_OPTIMIZER) v->bucket = p->bucket;
    *end = at + type_elements(&p->type);
    if (*end > type_elements(&v->type))
        return reader_fail(r, "%s: its members reach past its end", SHOW(v->path));
    v->members[v->n_members++] = p;
    return true;
}

/* "a/weight,a/bias@64": at least one member. */
static bool members_read(reader *r, weft_variable *v) {
    int64_t end = 0;
    v->members = arena_new_array(&r->m->arena, reader_items(r, "\n "), sizeof *v->members);
    if (!v->members) return reader_fail(r, "out of memory");
    do
        if (!member_read(r, v, &end)) return false;
    while (reader_accept(r, ","));
    return true;
}

/* Reads "bucket@offset": the range of a bucket that a shard, or optimizer state over a shard, covers. */
static bool range_read(reader *r, weft_variable *v) {
    const char *path = reader_name(r, "@ ");
    weft_variable *s = path ? variable_find(r->m, path) : NULL;
    if (!s || s->kind != VARIABLE_BUCKET) return reader_fail(r, "there is no bucket '%s'", SHOW(path));
    int64_t most = type_elements(&s->type) - type_elements(&v->type);
    v->bucket = s;
    if (most < 0 || v->type.ndim != 1) return reader_fail(r, "%s is larger than its bucket", SHOW(v->path));
    return !reader_accept(r, "@") || reader_int(r, 1, most, &v->offset);
}

/* Reads a variable's line after its first word. */
static bool variable_read(reader *r, variable_kind kind) {
    weft_model *m = r->m;
    tensor_type type;
    weft_init init = {WEFT_INIT_ZEROS, 0, 0};
    bool by_user = variable_is_named(kind);
    if (r->n_graphs || (by_user && r->has_users_variables))
        return reader_fail(
            r, "variables must come before graphs, and parameters and state before all other variables");
    if (m->n_variables == MODEL_MAX_VARIABLES)
        return reader_fail(r, "more than %d variables", MODEL_MAX_VARIABLES);
    const char *path = reader_name(r, " ");
    if (!path) return false;
    /* Those made by the optimizer pass begin with an optimizer's name, which may hold characters that a scope
     * may not. */
    if (by_user ? !path_is_valid(path) : !text_is_plain(path, "\",=\\"))
        return reader_fail(r, "'%s' cannot be a path", SHOW(path));
    if (!reader_want(r, " ")) return false;
    if (!type_parse(&r->at, &type) || !type_check(&type))
        return reader_fail(r, "%s: its type cannot be read, or an axis is below 1", SHOW(path));
    if (variable_has_init(kind) && !init_read(r, &init)) return false;
    if (by_user && !init_is_valid(m, NULL, path, init, &type)) return false;
    if (variable_find(m, path)) return reader_fail(r, "%s is listed twice", SHOW(path));
    r->has_users_variables = !by_user;
    weft_variable *v = variable_new(m, path, kind, &type, init);
    if (!v) return false;
    bool has_members = !by_user && kind != VARIABLE_SHARD; /* a shard has a range instead */
    if (reader_accept(r, " members=") && (!has_members || !members_read(r, v)))
        return reader_fail(r, "%s: its members cannot be read", SHOW(path));
    bool has_range = kind == VARIABLE_SHARD || (kind == VARIABLE_OPTIMIZER && !v->n_members);
    if (has_range && reader_accept(r, " of=") && !range_read(r, v))
        return reader_fail(r, "%s: its range cannot be read", SHOW(path));
    if (kind == VARIABLE_SHARD && !v->bucket) return reader_fail(r, "%s has no bucket", SHOW(path));
    v->is_frozen = reader_accept(r, " frozen");
    return true;
}

/* Reads "generator zero=1", after "ddp ". */
static bool ddp_read(reader *r, const char *path) {
    void *attrs;
    if (ddp_at(r->m, path)) return reader_fail(r, "subgraph %s is listed twice", SHOW(path));
    if (r->n_ddps++ == MODEL_MAX_SUBGRAPHS)
        return reader_fail(r, "more than %d subgraphs", MODEL_MAX_SUBGRAPHS);
    return attrs_read(r, &ddp_fields, &attrs) && ddp_set(r->m, path, attrs);
}

/* Reads "generator bf16", after "precision ". */
static bool precision_read(reader *r, const char *path) {
    weft_dtype dtype;
    if (!reader_want(r, " ")) return false;
    size_t length = strcspn(r->at, "\n");
    if (strcmp(path, "/") && !path_is_valid(path)) return reader_fail(r, "'%s' cannot be a path", SHOW(path));
    if (!dtype_parse(r->at, length, &dtype))
        return reader_fail(r, "precision %s: no element type", SHOW(path));
    if (precision_at(r->m, path)) return reader_fail(r, "precision %s is listed twice", SHOW(path));
    if (r->n_precisions++ == MODEL_MAX_SUBGRAPHS)
        return reader_fail(r, "more than %d precisions", MODEL_MAX_SUBGRAPHS);
    r->at += length;
    return precision_set(r->m, path, dtype);
}

/* Reads "train d_step*5 g_step", after "flow ". */
static bool flow_read(reader *r, const char *name) {
    if (!reader_want(r, " ")) return false;
    size_t length = strcspn(r->at, "\n");
    char *steps = arena_new(&r->m->arena, length + 1);
    if (!steps) return model_fail(r->m, NULL, WEFT_MEMORY, "%s: out of memory", r->where);
    memcpy(steps, r->at, length);
    if (flow_find(r->m, name)) return reader_fail(r, "flow %s is listed twice", SHOW(name));
    if (r->n_flows++ == MODEL_MAX_FLOWS) return reader_fail(r, "more than %d flows", MODEL_MAX_FLOWS);
    r->at += length;
    return flow_parse(r->m, name, steps);
}

/* Reads "zero:stage=2", after "strategy ". */
static bool strategy_read(reader *r, const char *text) {
    if (r->m->strategy) return reader_fail(r, "there are two strategies");
    return strategy_set(r->m, text);
}

/* ---- graphs ---- */

/* The number after a '%' at p, 0 when there is none. */
static unsigned long id_at(const char *p) {
    return p[1] >= '0' && p[1] <= '9' ? strtoul(p + 1, NULL, 10) : 0;
}

/* The next '%' in [p, end) outside of strings, or `end`. */
static const char *id_next(const char *p, const char *end) {
    bool in_string = false;
    for (; p < end && (in_string || *p != '%'); p++) in_string = *p != '\n' && in_string != (*p == '"');
    return p;
}

/* Allocates the tables of the graph's numbers: as large as the largest number used, which the length of its
 * text bounds. */
static bool ids_reserve(reader *r) {
    arena *a = &r->m->arena;
    const char *end = strstr(r->at, "\ngraph "), *update = strstr(r->at, "\nupdate ");
    if (!end) end = r->at + strlen(r->at);
    if (update && update < end) end = update;
    unsigned long most = 0, room = (unsigned long)(end - r->at) + TEXT_ID_SLACK;
    for (const char *p = id_next(r->at, end); p < end; p = id_next(p + 1, end)) {
        if (id_at(p) >= room)
            return reader_fail(r, "graph %s: %%%lu: numbers below %lu are allowed", r->g->name, id_at(p),
                               room);
        if (id_at(p) > most) most = id_at(p);
    }
    r->n_values = (int)most + 1;
    r->free_id = 0;
    r->values = arena_new_array(a, most + 1, sizeof *r->values);
    r->is_used = arena_new_array(a, most + 1, sizeof *r->is_used);
    if (!r->values || !r->is_used) return reader_fail(r, "out of memory");
    for (const char *p = id_next(r->at, end); p < end; p = id_next(p + 1, end)) r->is_used[id_at(p)] = true;
    return true;
}

/* Ends the graph or the update before a line. */
static bool section_end(reader *r) {
    if (r->g && !graph_resolve(r)) return false;
    if (r->own && !own_record_end(r->m, r->own, r->g)) return false;
    r->own = NULL;
    r->g = NULL;
    return true;
}

/* Begins the lines of a graph. */
static bool section_begin(reader *r, weft_graph *g) {
    if (!r->parameter) r->parameter = arena_new_array(&r->m->arena, r->m->n_variables, sizeof *r->parameter);
    if (!r->parameter) return reader_fail(r, "out of memory");
    r->g = g;
    r->n_inputs = 0;
    r->has_kernels = false;
    r->has_users_variables = true;
    return g && ids_reserve(r);
}

/* Ends the graph before it and begins the next. */
static bool graph_read(reader *r, const char *name) {
    if (!section_end(r)) return false;
    if (++r->n_graphs > MODEL_MAX_GRAPHS) return reader_fail(r, "more than %d graphs", MODEL_MAX_GRAPHS);
    if (!reader_want(r, " ")) return false;
    bool trains = reader_accept(r, "train");
    if (!trains && !reader_want(r, "eval")) return false;
    return section_begin(r, weft_graph_new(r->m, name, trains ? WEFT_TRAIN : WEFT_EVAL));
}

/* ---- optimizers ---- */

/* Reads " slot momentum_buffer=0" or " number momentum=0.9". */
static bool part_read(reader *r, weft_optimizer_definition *d, int *slots, int *numbers) {
    double value;
    bool is_slot = reader_accept(r, " slot ");
    if (!is_slot && !reader_want(r, " number ")) return false;
    if (is_slot ? *slots == WEFT_MAX_SLOTS : *numbers == WEFT_MAX_NUMBERS)
        return reader_fail(r, "define %s: at most %d slots and %d numbers", d->type, WEFT_MAX_SLOTS,
                           WEFT_MAX_NUMBERS);
    const char *name = reader_name(r, "=");
    if (!name || !reader_want(r, "=")) return false;
    if (!real_parse(&r->at, &value))
        return reader_fail(r, "define %s: %s has no number", d->type, SHOW(name));
    if (is_slot)
        d->slots[(*slots)++] = (weft_slot){name, value};
    else
        d->numbers[(*numbers)++] = (weft_optimizer_number){name, value};
    return true;
}

/* Reads "signum slot momentum_buffer=0 number momentum=0.9", after "define ". */
static bool define_read(reader *r, const char *type) {
    weft_optimizer_definition d = {.type = type};
    int slots = 0, numbers = 0;
    if (!section_end(r)) return false;
    while (*r->at == ' ')
        if (!part_read(r, &d, &slots, &numbers)) return false;
    return own_optimizer_new(r->m, &d) != NULL;
}

/* Begins an update of the optimizer, after "update ": the lines after it are those of a graph. */
static bool update_read(reader *r, const char *type) {
    if (!section_end(r)) return false;
    own_optimizer *o = r->m->own;
    while (o && strcmp(o->kind.type, type)) o = o->next;
    if (!o) return reader_fail(r, "update: no line defines '%s'", SHOW(type));
    r->own = o;
    return section_begin(r, own_record_begin(r->m, o));
}

static bool output_read(reader *r, const char *name) {
    weft_value *v = NULL;
    if (!r->g) return reader_fail(r, "an output before the first graph");
    if (!reader_want(r, " ") || !value_read(r, " ", &v)) return false;
    if (!v) return reader_fail(r, "output %s: no value", SHOW(name));
    reader_place(r); /* the value may be a new node, which has taken it */
    weft_output(v, name);
    return model_ok(r->m);
}

/* Reads "@0123456789abcdef 0000803f", after "data ": bytes, under a name that is their hash. */
static bool data_read(reader *r, const char *name) {
    attr_bytes *v = arena_new(&r->m->arena, sizeof *v);
    uint64_t hash;
    if (!v) return reader_fail(r, "out of memory");
    if (!reader_want(r, " ")) return false;
    const char *at = name;
    if (!bytes_name_parse(&at, &hash) || *at)
        return reader_fail(r, "data: @ and 16 hexadecimal digits are expected at '%s'", SHOW(name));
    if (!bytes_parse(&r->at, v, &r->m->arena))
        return reader_fail(r, "data %s: two hexadecimal digits a byte are expected", name);
    if (v->hash != hash) return reader_fail(r, "data %s: its bytes have the hash %016jx", name, v->hash);
    return table_add(&r->bytes, &r->m->arena, name + 1, v) || reader_fail(r, "out of memory");
}

/* ---- lines ---- */

/* Lines by their first word, which a name follows. */
static const struct line_kind {
    const char *word;
    bool (*read)(reader *r, const char *name);
    const char *what; /* these come before graphs; NULL: no matter */
} line_kinds[] = {
    {"graph ", graph_read},
    {"output ", output_read},
    {"ddp ", ddp_read, "options of subgraphs"},
    {"precision ", precision_read, "precisions"},
    {"data ", data_read},
    {"flow ", flow_read, "flows"},
    {"strategy ", strategy_read, "strategies"},
    {"define ", define_read, "definitions"},
    {"update ", update_read, "updates"},
};

/* What begins with none of these words, nor as a variable, is a node. */
static bool line_read(reader *r) {
    if (*r->at == '\n' || *r->at == '#') {
        r->at += strcspn(r->at, "\n");
        return true;
    }
    reader_place(r);
    for (size_t i = 0; i < sizeof line_kinds / sizeof *line_kinds; i++) {
        const struct line_kind *k = &line_kinds[i];
        if (!reader_accept(r, k->word)) continue;
        if (k->what && r->n_graphs) return reader_fail(r, "%s must come before graphs", k->what);
        const char *name = reader_name(r, " ");
        return name && k->read(r, name);
    }
    for (int kind = VARIABLE_PARAMETER; kind < VARIABLE_KINDS; kind++) {
        const char *before = r->at;
        if (reader_accept(r, variable_kind_name((variable_kind)kind)) && reader_accept(r, " "))
            return variable_read(r, (variable_kind)kind);
        r->at = before;
    }
    return node_read(r);
}

static bool model_read(reader *r) {
    while (*r->at) {
        if (!line_read(r)) return false;
        if (*r->at && !reader_want(r, "\n")) return false;
        r->line++;
    }
    return section_end(r);
}

/* " world=4 rank=1", of a plan before its ops over ranks became collectives; false: it is malformed. */
static bool world_read(const char **at, weft_model *m) {
    enum { MOST = 1 << 20 };
    int64_t world, rank;
    if (!text_accept(at, " world=")) return true;
    if (!count_parse(at, &world) || !text_accept(at, " rank=") || !count_parse(at, &rank)) return false;
    if (world < 1 || world > MOST || rank >= world) return false;
    m->world = (int)world;
    m->rank = (int)rank;
    return m->needs_world = true;
}

/* Reads "model NAME batch=N", which must be the first line, and makes the model. NULL after setting
 * *error. */
static weft_model *header_read(const char **text, const char *where, const weft_env *env,
                               const op_catalog *catalog, weft_error *error) {
    const char *at = *text;
    char name[256] = "";
    int64_t batch;
    size_t n = text_accept(&at, "model ") ? strcspn(at, " \n") : 0;
    if (n < sizeof name) memcpy(name, at, n);
    at += n;
    if (!*name || !text_accept(&at, " batch=") || !count_parse(&at, &batch))
        return error_set(error, WEFT_FILE, "%.200s:1: the first line must be 'model NAME batch=N'", where),
               NULL;
    if (!name_is_valid(name))
        return error_set(error, WEFT_FILE,
                         "%.200s:1: model name '%s': letters, digits, '_', '-' and '.' only", where,
                         show_name(name, n).text),
               NULL;
    weft_model *m = model_new(name, env, catalog);
    if (!m) return error_memory(error, where), NULL;
    m->file = arena_copy(&m->arena, where);
    m->line = 1;
    weft_model_set_batch(m, batch);
    if (!world_read(&at, m))
        model_fail(m, NULL, WEFT_FILE, "after the batch: world=N rank=R, with R below N");
    *text = at;
    return m;
}

weft_model *model_parse(const char *string, const char *where, const weft_env *env, const op_catalog *catalog,
                        weft_error *error) {
    if (error) *error = (weft_error){0};
    if (!where) where = "text";
    if (!string || strnlen(string, MODEL_MAX_TEXT_BYTES + 1) > MODEL_MAX_TEXT_BYTES)
        return error_set(error, WEFT_FILE, "%.200s: %s", where,
                         string ? "the text is longer than 16 MiB" : "there is no text"),
               NULL;
    weft_model *m = header_read(&string, where, env, catalog, error);
    if (!m) return NULL;
    reader r = {.at = string, .line = 1, .where = m->file ? m->file : "", .m = m};
    /* The header has ended in its batch size; the rest of the line must be empty. */
    if (model_ok(m) && (*r.at == 0 || reader_want(&r, "\n"))) {
        r.line = 2;
        model_read(&r);
    }
    m->file = NULL;
    if (model_ok(m)) return m;
    if (error) *error = m->error;
    weft_model_free(m);
    return NULL;
}
