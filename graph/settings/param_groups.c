/* param_groups.c - the parameter groups of a minimize call: a parameter is in the first group whose pattern
 * matches its path, and one of whose kinds, if the group has any, it is of. A pattern without '*' names a
 * path and all below it, so it is looked up by the path and each of its scopes: O(depth). Patterns with '*'
 * and groups with kinds are tried in turn, and their number is limited. */
#include "graph/settings/minimize.h"

#include "graph/core/words.h"

#include <string.h>

enum { NUMBERS = 4 };

struct param_group {
    int number; /* from 1 */
    int n_numbers;
    const op_attr *field[NUMBERS]; /* of minimize */
    double value[NUMBERS];
    double lr_scale, decay_scale;
    unsigned kinds;   /* 0: all */
    int64_t from, to; /* updates in which it trains; to 0: no end */
    const char *pattern;
    bool is_wild;
};

/* Reads " name=value", a number of minimize. */
static bool parse_number(const char **at, param_group *p) {
    const char *s = *at + 1;
    size_t n = strcspn(s, "=; ");
    if (p->n_numbers == NUMBERS || s[n] != '=') return false;
    const op_attr *f = attr_find(&weft_op_minimize, s, n);
    s += n + 1;
    if (!f || f->kind != ATTR_REAL || !real_parse(&s, &p->value[p->n_numbers])) return false;
    p->field[p->n_numbers++] = f;
    *at = s;
    return true;
}

/* Reads " kinds=norm+bias" if it is there; such groups are tried in turn. */
static bool parse_kinds(const char **at, param_group *p) {
    if (!text_accept(at, " kinds=")) return true;
    p->is_wild = true;
    return parameter_kinds_parse(at, &p->kinds);
}

/* Reads " from=10", a count of updates, if it is there. */
static bool parse_count(const char **at, const char *word, int64_t *count) {
    return !text_accept(at, word) || (count_parse(at, count) && *count > 0);
}

static bool parse_range(const char **at, param_group *p) {
    if (!parse_count(at, " from=", &p->from) || !parse_count(at, " to=", &p->to)) return false;
    return !p->to || p->to > p->from;
}

/* Reads one "pattern lr_scale decay_scale kinds=... from=1 to=2 name=value..." and moves *at past it. Returns
 * the pattern's length, or -1. */
static int parse_group(const char **at, param_group *p) {
    const char *s = *at;
    size_t n = strcspn(s, " ;");
    *p = (param_group){.lr_scale = 1, .decay_scale = 1};
    if (n >= MINIMIZE_MAX_PATTERN) return -1;
    /* An empty pattern matches everything, as '*' does; several patterns are not one path. */
    p->is_wild = n == 0 || memchr(s, '*', n) || memchr(s, ',', n);
    s += n + (s[n] == ' ');
    if (!real_parse(&s, &p->lr_scale) || *s++ != ' ' || !real_parse(&s, &p->decay_scale) ||
        !parse_kinds(&s, p) || !parse_range(&s, p))
        return -1;
    while (*s == ' ')
        if (!parse_number(&s, p)) return -1;
    *at = s + (*s == ';');
    return (int)n;
}

const char *param_groups_broken(const char *text) {
    param_group p;
    int wild = 0;
    for (const char *at = text; at && *at; wild += p.is_wild)
        if (parse_group(&at, &p) < 0)
            return "groups must be 'pattern lr_scale decay_scale kinds=norm+bias from=1 to=2 "
                   "name=number...;...'";
    return wild <= MINIMIZE_MAX_WILD ? NULL : "groups: at most 1024 may have kinds or a '*'";
}

/* table_add keeps the first group of a pattern, which is the one that counts. */
static bool add_group(param_groups *g, param_group *p) {
    if (p->is_wild)
        g->wild[g->n_wild++] = p;
    else if (!table_add(&g->by_path, &g->memory, p->pattern, p))
        return false;
    return true;
}

/* Groups are numbered from 1 in the order of the text. */
bool param_groups_open(param_groups *g, const weft_env *env, const char *text) {
    *g = (param_groups){0};
    arena_init(&g->memory, env);
    g->wild = arena_new_array(&g->memory, MINIMIZE_MAX_WILD, sizeof *g->wild);
    bool good = g->wild != NULL;
    for (const char *at = text; good && at && *at;) {
        const char *pattern = at;
        param_group *p = arena_new(&g->memory, sizeof *p);
        int n = p ? parse_group(&at, p) : -1;
        if (n >= 0) p->pattern = arena_printf(&g->memory, "%.*s", n, pattern);
        good = n >= 0 && p->pattern && (!p->is_wild || g->n_wild < MINIMIZE_MAX_WILD);
        if (!good) break;
        p->number = ++g->count;
        good = add_group(g, p);
    }
    if (!good) param_groups_close(g);
    return good;
}

/* Leaves an empty table that may be closed again. */
void param_groups_close(param_groups *g) {
    arena_free(&g->memory);
    *g = (param_groups){.memory = g->memory};
}

/* The first group whose pattern without '*' is the path or one of its scopes. */
static const param_group *find_plain(const param_groups *g, const char *path) {
    char prefix[MINIMIZE_MAX_PATTERN];
    const param_group *best = NULL;
    size_t n = 0;
    while (n < sizeof prefix && g->by_path.count) {
        n += strcspn(path + n, "/");
        if (n >= sizeof prefix) break; /* longer than any pattern */
        memcpy(prefix, path, n);
        prefix[n] = 0;
        const param_group *p = table_find(&g->by_path, prefix);
        if (p && (!best || p->number < best->number)) best = p;
        if (!path[n++]) break;
    }
    return best;
}

static const param_group *find(const param_groups *g, const weft_variable *v) {
    const param_group *best = find_plain(g, v->path);
    /* The others are in order, so the walk ends at the first that comes after `best`. */
    for (int i = 0; i < g->n_wild && (!best || g->wild[i]->number < best->number); i++) {
        const param_group *p = g->wild[i];
        if ((!p->kinds || p->kinds & variable_kinds(v)) && path_matches(p->pattern, v->path)) best = p;
    }
    return best;
}

int param_groups_find(const param_groups *g, const weft_variable *v) {
    const param_group *best = find(g, v);
    return best ? best->number : 0;
}

static void apply_numbers(const param_group *p, minimize_attrs *own) {
    own->weight_decay *= p->decay_scale;
    for (int i = 0; i < p->n_numbers; i++) ATTR_FIELD(double, own, p->field[i]) = p->value[i];
}

double param_groups_apply(const param_groups *g, const weft_variable *v, minimize_attrs *own) {
    const param_group *best = find(g, v);
    if (best) apply_numbers(best, own);
    return best ? best->lr_scale : 1;
}

bool param_groups_range(const param_groups *g, const weft_variable *v, int64_t *from, int64_t *to) {
    const param_group *best = find(g, v);
    *from = best ? best->from : 0;
    *to = best ? best->to : 0;
    return *from || *to;
}

bool param_groups_next(const char **at, const minimize_attrs *a, const optimizer_kind *kind,
                       minimize_attrs *own, const char **unread, bool *has_range) {
    param_group p;
    *own = *a;
    *unread = NULL;
    if (!*at || !**at || parse_group(at, &p) < 0) return false;
    for (int i = 0; i < p.n_numbers; i++)
        if (!optimizer_reads(kind, p.field[i]->name)) *unread = p.field[i]->name;
    apply_numbers(&p, own);
    *has_range = p.from || p.to;
    return true;
}
