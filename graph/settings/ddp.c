/* ddp.c - the options of subgraphs: weft_model_set_ddp, what a model keeps of it, and process groups as text.
 *
 * Programs, files and dumps all set options through ddp_set. So the options in a model are within their
 * ranges, their scope has at least one parameter, and their process group names no rank twice. Rules that
 * depend on the world (each rank is below its size) are checked by process_group_of when a plan is made. */
#include "graph/core/compare.h"
#include "graph/settings/ddp.h"

#include "graph/core/words.h"
#include "graph/settings/precision.h"

#include <stdlib.h>
#include <string.h>

const char *const shard_words[] = {"greedy", "flat", NULL};

#define RANGE(...) __VA_ARGS__
const op_attr ddp_attr_table[] = {
#define X(name, type, kind, range, ...) {#name, kind, offsetof(ddp_attrs, name), RANGE range},
#include "graph/settings/ddp_list.h"
#undef X
    {0},
};
#undef RANGE
const bool ddp_acts_alone[] = {
#define X(name, type, kind, range, source, alone) alone,
#include "graph/settings/ddp_list.h"
#undef X
};
const weft_op ddp_fields = {.name = "ddp", .attrs_bytes = sizeof(ddp_attrs), .attrs = ddp_attr_table};

/* ---- process groups ---- */

typedef struct rank_range {
    int64_t first, last; /* both are in the range */
    char end;            /* character after it: ',', ';' or NUL */
} rank_range;

static const char malformed[] =
    "a group is ranks and ranges like 0-3 with ',' between them, and ';' is between groups";
static const char too_high[] = "ranks are below 2^20";
static const char named_twice[] = "a rank is named twice", no_memory[] = "out of memory";

/* NULL, or what is wrong. */
static const char *rank_parse(const char **at, int64_t *rank) {
    if (count_parse(at, rank)) return NULL;
    return **at >= '0' && **at <= '9' ? too_high : malformed;
}

/* Reads one range and the character after it; returns NULL, or what is wrong. */
static const char *range_next(const char **at, rank_range *r) {
    const char *why = rank_parse(at, &r->first);
    r->last = r->first;
    if (!why && text_accept(at, "-")) why = rank_parse(at, &r->last);
    if (why) return why;
    r->end = **at;
    if (r->end && r->end != ',' && r->end != ';') return malformed;
    if (r->end) ++*at;
    if (r->last < r->first) return "a range goes from the lower rank to the higher";
    return r->last < DDP_MAX_RANKS ? NULL : too_high;
}

/* Collects the ranks of each group until the one with `rank` ends. The text has been checked, and names no
 * rank twice, so a group fits into ranks[world]. */
static int group_fill(const char *at, int rank, int *ranks) {
    int n = 0;
    bool is_here = false;
    rank_range r;
    do {
        if (range_next(&at, &r)) break; /* never */
        for (int i = (int)r.first; i <= r.last; i++) ranks[n++] = i;
        is_here |= r.first <= rank && rank <= r.last;
        if (r.end == ',') continue;
        if (is_here) return n;
        n = 0;
    } while (r.end);
    ranks[0] = rank;
    return 1;
}

int process_group_of(const char *groups, int world, int rank, int *ranks, const char **why) {
    const char *at = groups;
    rank_range r;
    *why = rank < 0 || rank >= world ? "the rank itself is not below the world" : NULL;
    if (*why) return 0;
    if (!groups || !*groups) {
        for (int i = 0; i < world; i++) ranks[i] = i;
        return world;
    }
    /* While the text is checked, ranks[i] marks that rank i has been named. */
    memset(ranks, 0, (size_t)world * sizeof *ranks); /*  */
    do {
        if ((*why = range_next(&at, &r))) return 0;
        if (r.last >= world) return *why = "a rank is not below the world", 0;
        for (int64_t i = r.first; i <= r.last; i++)
            if (ranks[i]++) return *why = named_twice, 0;
    } while (r.end);
    return group_fill(groups, rank, ranks);
}

int process_group_largest(const char *groups, int world) {
    int n = 0, most = 1;
    rank_range r;
    if (!groups || !*groups) return world;
    do {
        if (range_next(&groups, &r)) break; /* never: process_group_of has read it */
        n += (int)(r.last - r.first + 1);
        if (n > most) most = n;
        if (r.end == ';') n = 0;
    } while (r.end);
    return most;
}

static int by_first(const void *a, const void *b) {
    const rank_range *r = a, *s = b;
    return by_number(r->first, s->first);
}

/* Checks the text for a world of any size. Memory and time depend on the length of the text (ranges are
 * sorted and compared with their neighbours), not on how many ranks the ranges contain. */
static const char *groups_check(const weft_env *env, const char *groups) {
    size_t room = 1, n = 0;
    const char *at = groups, *why = NULL;
    if (strnlen(groups, DDP_MAX_TEXT_BYTES + 1) > DDP_MAX_TEXT_BYTES) return "longer than 64 KiB";
    for (const char *p = groups; *p; p++) room += *p == ',' || *p == ';';
    rank_range *list = mem_new_array(env, room, sizeof *list);
    if (!list) return no_memory;
    do why = range_next(&at, &list[n]);
    while (!why && list[n++].end);
    if (!why) qsort(list, n, sizeof *list, by_first);
    for (size_t i = 1; !why && i < n; i++)
        if (list[i].first <= list[i - 1].last) why = named_twice;
    mem_free(env, list, room * sizeof *list);
    return why;
}

weft_status process_group_check(const weft_env *env, const char *groups, const char **why) {
    *why = groups && *groups ? groups_check(env, groups) : NULL;
    return !*why ? WEFT_OK : *why == no_memory ? WEFT_MEMORY : WEFT_ARGUMENT;
}

/* A rank that is not named is a group of its own. */
int process_group_size(const char *groups, int world, int rank, bool alike, const char **why) {
    int64_t named = 0, size = 0, own = 1, least = world, most = 1;
    bool is_here = false;
    rank_range r;
    *why = NULL;
    if (!groups || !*groups) return world;
    do {
        if ((*why = range_next(&groups, &r))) return 0;
        if (r.last >= world) return *why = "a rank is not below the world", 0;
        size += r.last - r.first + 1;
        is_here |= r.first <= rank && rank <= r.last;
        if (r.end == ',') continue;
        if (is_here) own = size;
        if (size < least) least = size;
        if (size > most) most = size;
        named += size;
        size = 0;
        is_here = false;
    } while (r.end);
    if (named < world) least = 1;
    if (alike && least != most) return *why = "groups must be of one size, with every rank in one", 0;
    return (int)own;
}

/* ---- entries ---- */

/* Whether a parameter is in the scope `path`; all are in "". */
static bool lies_under(const char *path, const char *parameter) {
    size_t n = strlen(path);
    return n == 0 || (strncmp(path, parameter, n) == 0 && parameter[n] == '/');
}

ddp_entry *ddp_at(const weft_model *m, const char *path) {
    for (ddp_entry *e = m->ddps; e; e = e->next)
        if (strcmp(e->path, path_plain(path)) == 0) return e;
    return NULL;
}

const ddp_entry *ddp_find(const weft_model *m, const char *parameter) {
    const ddp_entry *best = NULL;
    for (const ddp_entry *e = m->ddps; e; e = e->next)
        if (lies_under(e->path, parameter) && (!best || strlen(e->path) > strlen(best->path))) best = e;
    return best;
}

size_t ddp_subgraph(const weft_model *m, const char *parameter) {
    const ddp_entry *claims = ddp_find(m, parameter);
    size_t top = strcspn(parameter, "/");
    return claims ? strlen(claims->path) : parameter[top] ? top : 0;
}

void ddp_write(text *t, const ddp_entry *e) {
    text_add(t, "ddp %s", path_full(e->path));
    attrs_write(t, &ddp_fields, &e->attrs);
    text_add(t, "\n");
}

static ddp_entry *entry_new(weft_model *m, const char *path) {
    ddp_entry *e = arena_new(&m->arena, sizeof *e);
    if (!e || !(e->path = scope_intern(m, path))) return NULL;
    *m->ddps_end = e;
    m->ddps_end = &e->next;
    return e;
}

static bool ddp_fail(weft_model *m, const char *path, weft_status status, const char *why) {
    return model_fail(m, NULL, status, "ddp %s: %s", SHOW(path_full(path)), why);
}

/* Records what is wrong. A scope without any parameter is an error, because nothing distinguishes it from a
 * misspelt name. */
static bool ddp_check(weft_model *m, const char *path, const ddp_attrs *attrs) {
    char buffer[200];
    const weft_variable *v = m->variables;
    while (v && !(v->kind == VARIABLE_PARAMETER && lies_under(path, v->path))) v = v->next;
    if (!v)
        return model_fail(m, NULL, WEFT_NAME,
                          "ddp: there is no parameter under '%s': create the parameters first, and give the "
                          "path of their scope",
                          SHOW(path_full(path)));
    const char *why = attrs_check(&ddp_fields, attrs, buffer);
    if (why) return ddp_fail(m, path, WEFT_ARGUMENT, why);
    weft_status status = process_group_check(&m->env, attrs->process_group, &why);
    if (status)
        model_fail(m, NULL, status, "ddp %s: process_group '%s': %s", SHOW(path_full(path)),
                   SHOW(attrs->process_group), why);
    return !status;
}

/* Checks first, so that a failed call leaves the options of the path unchanged. */
bool ddp_set(weft_model *m, const char *path, const ddp_attrs *attrs) {
    ddp_attrs copy = *attrs;
    path = path_plain(path);
    if (copy.process_group && !*copy.process_group) copy.process_group = NULL;
    if (!model_ok(m) || !ddp_check(m, path, &copy)) return false;
    if (copy.process_group) copy.process_group = arena_copy(&m->arena, copy.process_group);
    ddp_entry *e = ddp_at(m, path);
    if (!e) e = entry_new(m, path);
    if (!e || (attrs->process_group && *attrs->process_group && !copy.process_group))
        return ddp_fail(m, path, WEFT_MEMORY, no_memory);
    e->attrs = copy;
    return true;
}

/* ---- the API ---- */

/* The list gives each field of ddp_attrs its expression over `o`. */
ddp_attrs ddp_attrs_of(const weft_ddp_options *o) {
    return (ddp_attrs){
#define X(name, type, kind, range, source, ...) .name = source,
#include "graph/settings/ddp_list.h"
#undef X
    };
}

weft_status weft_model_set_ddp(weft_model *m, const char *path, const weft_ddp_options *options) {
    static const weft_ddp_options defaults = {0};
    const weft_ddp_options *o = options ? options : &defaults;
    weft_error why;
    if (!m) return WEFT_ARGUMENT;
    if (!path) model_fail(m, NULL, WEFT_ARGUMENT, "ddp: a path is needed (\"\": the whole model)");
    if (path && o->wire != WEFT_F32 && o->wire != WEFT_BF16)
        ddp_fail(m, path_plain(path), WEFT_ARGUMENT,
                 "wire must be WEFT_BF16, or 0 to send gradients as they are");
    if (path && reserved_check(o->reserved, sizeof o->reserved, "weft_ddp_options", &why))
        ddp_fail(m, path_plain(path), why.status, why.text);
    ddp_attrs attrs = ddp_attrs_of(o);
    if (model_ok(m)) ddp_set(m, path, &attrs);
    return m->error.status;
}

/* Returns a copy of `options` with the value of process_group in quotes, which string attributes need;
 * without one, `options` itself. A bare value is made of digits and "-,;"; since names begin with letters, a
 * comma at its end belongs before the next name. */
static const char *group_quote(arena *a, const char *options) {
    static const char name[] = "process_group=";
    const char *value = strstr(options, name);
    if (!value || value[sizeof name - 1] == '"') return options;
    value += sizeof name - 1;
    size_t n = strspn(value, "0123456789-,;");
    while (n && value[n - 1] == ',') n--;
    return arena_printf(a, "%.*s\"%.*s\"%s", (int)(value - options), options, (int)n, value, value + n);
}

/* Parses NAME=VALUE pairs on top of *attrs; text after the last pair is an error. */
static bool text_parse(weft_model *m, const char *path, const char *options, ddp_attrs *attrs) {
    static const char between[] = " ,\t\n";
    char why[200];
    if (strnlen(options, DDP_MAX_TEXT_BYTES + 1) > DDP_MAX_TEXT_BYTES)
        return ddp_fail(m, path, WEFT_ARGUMENT, "options longer than 64 KiB");
    const char *at = group_quote(&m->arena, options);
    if (!at) return ddp_fail(m, path, WEFT_MEMORY, no_memory);
    if (!attrs_change(&at, between, &ddp_fields, attrs, &m->arena, why))
        return model_fail(m, NULL, WEFT_ARGUMENT, "subgraph %s: %s", SHOW(path_full(path)), why);
    at += strspn(at, between);
    return !*at || model_fail(m, NULL, WEFT_ARGUMENT, "ddp %s: NAME=VALUE is expected at '%s'",
                              SHOW(path_full(path)), SHOW(at));
}

weft_status weft_model_set_ddp_text(weft_model *m, const char *path, const char *options) {
    if (!m) return WEFT_ARGUMENT;
    if (!path || !options)
        model_fail(m, NULL, WEFT_ARGUMENT, "ddp: a path (\"\": the whole model) and options are needed");
    if (!model_ok(m)) return m->error.status;
    const ddp_entry *e = ddp_at(m, path);
    ddp_attrs attrs = e ? e->attrs : (ddp_attrs){0};
    if (text_parse(m, path_plain(path), options, &attrs)) ddp_set(m, path, &attrs);
    return m->error.status;
}
