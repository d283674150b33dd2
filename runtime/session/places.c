/* places.c - what other ranks report of this one when it does not come: at which node its compute is, and
 * what a collective holds. The texts are made when a session opens among ranks; a run only points to them. */
#include "runtime/session/state.h"

#include "ops/structure/collective.h"

/* "net/fc/weight, net/fc/bias and 12 more" */
static const char *contents_of(weft_session *s, const weft_variable *bucket) {
    enum { SHOWN = 2, PATH = 60 };
    const weft_variable *const *v = (const weft_variable *const *)bucket->members;
    int n = bucket->n_members;
    if (n == 1) return arena_printf(&s->arena, "%.120s", v[0]->path);
    if (n == 2) return arena_printf(&s->arena, "%.*s, %.*s", PATH, v[0]->path, PATH, v[1]->path);
    return arena_printf(&s->arena, "%.*s, %.*s and %d more", PATH, v[0]->path, PATH, v[1]->path, n - SHOWN);
}

/* A bucket's collectives have its path; those of other values have a scope, and hold no parameters. */
static bool note_contents(weft_session *s, step *st) {
    const collective_attrs *a = st->node->attrs;
    const weft_variable *bucket = a->path ? variable_find(s->plan->model, a->path) : NULL;
    if (!bucket || bucket->kind != VARIABLE_BUCKET || !bucket->n_members) return true;
    return (st->contents = contents_of(s, bucket)) != NULL;
}

/* "d_step: conv2d in discriminator/conv2"; a wait has its collective's name. */
static bool note_place(weft_session *s, const bound_program *r, step *st) {
    const weft_node *n = st->node;
    const char *what = n->op->name, *where = n->scope, *join = where && *where ? " in " : "";
    if (n->op == &weft_op_wait) {
        const weft_node *start = n->in[0]->node;
        const char *path = ((const collective_attrs *)start->attrs)->path;
        return (st->place = arena_printf(&s->arena, "%.20s: wait for %s %s", r->p->name, start->op->name,
                                         path ? path : "")) != NULL;
    }
    return (st->place =
                arena_printf(&s->arena, "%.20s: %s%s%s", r->p->name, what, join, *join ? where : "")) != NULL;
}

bool places_open(weft_session *s, weft_error *error) {
    if (!s->comm || s->comm->world == 1) return true;
    bool good = true;
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *r = &s->programs[i];
        good = good && (r->left = arena_printf(&s->arena, "between runs, after %.40s", r->p->name));
        for (int k = 0; good && k < r->n_steps; k++) {
            step *st = &r->steps[k];
            good = note_place(s, r, st) && (!node_starts_collective(st->node) || note_contents(s, st));
        }
    }
    return good || !error_memory(error, "session");
}
