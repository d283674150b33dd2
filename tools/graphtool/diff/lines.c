/* lines.c - see lines.h. */
#include "tools/graphtool/diff/lines.h"

#include "tools/graphtool/output/end.h"

#include <stdlib.h>
#include <string.h>

typedef struct lining {
    const difference *d;
    diff_lines *lines;
    name_table known; /* places in the list, plus 1, by what is equal in the changes of a line */
    arena memory;
} lining;

/* ---- words ---- */

/* Numbers that are whole parts of paths as "*". */
static const char *starred(const char *words) {
    text t = {0};
    for (const char *at = words; *at;) {
        size_t n = strspn(at, "0123456789");
        bool begins = at == words || at[-1] == '/', ends = !at[n] || strchr("/ ,;", at[n]);
        if (n && begins && ends) {
            text_add(&t, "*");
            at += n;
        } else {
            size_t plain = n ? n : 1;
            text_bytes(&t, at, plain);
            at += plain;
        }
    }
    return tool_take(&t);
}

static const char *graph_words(const difference *d, int graph) {
    static const char *const phases[] = {
        [PHASE_WHOLE] = "",           [PHASE_FIRST] = " (first run)", [PHASE_ADD] = " (runs that add)",
        [PHASE_LAST] = " (last run)", [PHASE_UPDATE] = " (update)",   [PHASE_LOSS] = " (loss)"};
    return graph < 0 ? "" : tool_text("%s%s", d->graphs[graph].name, phases[d->graphs[graph].phase]);
}

/* ---- scopes of one alone ---- */

/* The length of the path of the outermost scope around `path` that the other graph has not; 0: none is. */
static size_t alone_in(const graph_match *m, int side, const char *path) {
    const match_side *s = &m->side[side];
    for (size_t n = strcspn(path, "/");; n += 1 + strcspn(path + n + 1, "/")) {
        int at = n ? (int)(intptr_t)table_find(&s->by_path, tool_cut(path, path + n)) - 1 : -1;
        if (at >= 0 && s->scopes[at].other < 0) return s->scopes[at].nodes > 1 ? n : 0;
        if (!path[n]) return 0;
    }
}

/* The scope that stands for an added or removed change; NULL: it stands for itself. */
static const char *scope_for(const difference *d, const diff_change *c) {
    bool is_one = c->what == DIFF_NODE || c->what == DIFF_PARAMETER;
    if (c->kind == DIFF_CHANGED || !is_one) return NULL;
    for (int g = 0; g < d->n_graphs; g++) {
        if (!d->graphs[g].pair || (c->graph >= 0 && c->graph != g)) continue;
        size_t n = alone_in(d->graphs[g].pair, c->kind == DIFF_ADDED, c->path);
        if (n) return tool_cut(c->path, c->path + n);
    }
    return NULL;
}

/* ---- lines ---- */

static diff_line *line_new(lining *l, const char *key, diff_line made) {
    diff_lines *all = l->lines;
    all->v = tool_need(mem_grow(NULL, all->v, &all->room, (size_t)all->n + 1, sizeof *all->v));
    all->v[all->n] = made;
    if (key && !table_add(&l->known, &l->memory, key, (void *)(intptr_t)(all->n + 1)))
        tool_fail("out of memory");
    return &all->v[all->n++];
}

static diff_line *line_known(const lining *l, const char *key) {
    int place = (int)(intptr_t)table_find(&l->known, key) - 1;
    return place < 0 ? NULL : &l->lines->v[place];
}

static void add_scope(lining *l, const diff_change *c, const char *scope) {
    const char *key = tool_text("%d %d %d\t%s", c->kind, c->what, c->graph, scope);
    diff_line *known = line_known(l, key);
    if (!known)
        known = line_new(
            l, key,
            (diff_line){c->kind, c->what, graph_words(l->d, c->graph), scope, "scope", "", 0, c->graph});
    known->times++; /* for now: what is in it */
}

static void add_change(lining *l, const diff_change *c) {
    line_new(
        l, NULL,
        (diff_line){c->kind, c->what, graph_words(l->d, c->graph), c->path, c->op, c->text, 1, c->graph});
}

/* ---- equal lines ---- */

static void free_lines(void *l) {
    free(((diff_lines *)l)->v);
}

static diff_lines *new_lines(void) {
    return tool_keep(tool_new(1, sizeof(diff_lines)), free_lines);
}

/* One graph has it several times, or several have it. */
static void count_again(diff_line *to, const diff_line *from, bool is_first_graph) {
    if (from->graph == to->graph) {
        to->times += is_first_graph;
        return;
    }
    to->graph = from->graph;
    to->where = tool_text("%s, %s", to->where, from->where);
}

static void merge_line(lining *l, const diff_line *it) {
    const char *path = starred(it->path);
    const char *key = tool_text("%d %d\t%s\t%s\t%s", it->kind, it->what, path, it->op, starred(it->text));
    diff_line *known = line_known(l, key);
    if (!known) {
        line_new(l, key, *it);
        return;
    }
    if (strcmp(known->path, it->path)) known->path = path;
    if (strcmp(known->text, it->text)) known->text = starred(it->text);
    count_again(known, it, strchr(known->where, ',') == NULL);
}

static diff_lines *merged(const difference *d, const diff_lines *from) {
    lining l = {.d = d, .lines = new_lines()};
    arena_init(&l.memory, NULL);
    memcpy(l.lines->follow, from->follow, sizeof from->follow);
    for (int i = 0; i < from->n; i++) merge_line(&l, &from->v[i]);
    arena_free(&l.memory);
    return l.lines;
}

const diff_lines *diff_lines_of(const difference *d, bool graphs, bool all) {
    lining l = {.d = d, .lines = new_lines()};
    arena_init(&l.memory, NULL);
    for (int i = 0; i < d->n; i++) {
        const diff_change *c = &d->v[i];
        const char *scope = all ? NULL : scope_for(d, c);
        if (c->graph >= 0 && !graphs) continue;
        if (c->follows && !all)
            l.lines->follow[c->what]++;
        else if (scope)
            add_scope(&l, c, scope);
        else
            add_change(&l, c);
    }
    for (int i = 0; i < l.lines->n; i++) {
        diff_line *it = &l.lines->v[i];
        if (*it->text || strcmp(it->op, "scope")) continue;
        it->text = tool_text("%d %s%s", it->times, it->what == DIFF_NODE ? "node" : "variable",
                             it->times == 1 ? "" : "s");
        it->times = 1;
    }
    arena_free(&l.memory);
    return all ? l.lines : merged(d, l.lines);
}
