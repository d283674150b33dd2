/* own_op.c - sets of ops that a program defines: what a definition may be, and how an op is found by its
 * name. */
#include "graph/core/own_op.h"

#include "graph/core/nearest.h"
#include "graph/core/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789_"

/* ---- sets ---- */

weft_op_set *weft_op_set_new(const weft_env *env, weft_error *error) {
    if (error) *error = (weft_error){0};
    if (env && reserved_check(env->reserved, sizeof env->reserved, "weft_env", error)) return NULL;
    weft_op_set *set = mem_new(env, sizeof *set);
    if (!set) return error_memory(error, "weft_op_set_new"), NULL;
    if (env) set->env = *env;
    set->env.ops = NULL;
    arena_init(&set->arena, &set->env);
    set->end = &set->first;
    return set;
}

void weft_op_set_free(weft_op_set *set) {
    if (!set) return;
    weft_env env = set->env; /* the allocator is in the set that it frees */
    arena_free(&set->arena);
    mem_free(&env, set, sizeof *set);
}

static const own_op *own_find(const weft_op_set *set, const char *name, size_t length) {
    const own_op *o = set ? set->first : NULL;
    while (o && !word_is(o->op.name, name, length)) o = o->next;
    return o;
}

const weft_op *model_op(const weft_model *m, const char *name, size_t length) {
    const own_op *o = own_find(m->env.ops, name, length);
    return o ? &o->op : op_find(m->catalog, name, length);
}

op_missing_text op_missing(const weft_model *m, const char *name, size_t length) {
    op_missing_text t;
    nearest near = nearest_to(name, length);
    for (const own_op *o = m->env.ops ? m->env.ops->first : NULL; o; o = o->next)
        nearest_try(&near, o->op.name);
    bool is_own = memchr(name, '.', length) && strspn(name, LETTERS DIGITS ".") >= length;
    int n = snprintf(t.text, sizeof t.text, "there is no op '%s'%s", show_name(name, length).text,
                     nearest_ask(&near).question);
    if (is_own)
        snprintf(t.text + n, sizeof t.text - (size_t)n,
                 "%s program defines such ops (weft_define_op), and gives their set in weft_env.ops before "
                 "it makes or loads the model",
                 near.name ? " A" : ": a");
    return t;
}

/* ---- definitions ---- */

/* A letter, then letters, digits and '_'; *s moves past it. */
static bool word_pass(const char **s) {
    size_t n = strspn(*s, LETTERS);
    if (n) n += strspn(*s + n, LETTERS DIGITS);
    *s += n;
    return n > 0;
}

static bool op_name_is_valid(const char *name) {
    const char *at = name;
    return name && word_pass(&at) && *at++ == '.' && word_pass(&at) && !*at && at - name <= OWN_NAME;
}

static bool number_name_is_valid(const char *name) {
    const char *at = name;
    return word_pass(&at) && !*at && at - name <= OWN_NAME;
}

/* What a definition is checked and kept by. */
typedef struct defining {
    weft_op_set *set;
    own_op *o;
    int n_attrs;
    weft_error *error;
} defining;

int own_numbers(weft_op_numbers *n, own_number list[2 * WEFT_MAX_OP_NUMBERS]) {
    int count = 0;
    for (size_t i = 0; i < WEFT_MAX_OP_NUMBERS && n->reals[i].name; i++)
        list[count++] = (own_number){&n->reals[i].name, ATTR_REAL,
                                     offsetof(own_attrs, reals) + i * sizeof(double), &n->reals[i].value};
    for (size_t i = 0; i < WEFT_MAX_OP_NUMBERS && n->integers[i].name; i++)
        list[count++] = (own_number){&n->integers[i].name, ATTR_INT,
                                     offsetof(own_attrs, integers) + i * sizeof(int64_t),
                                     &n->integers[i].value};
    return count;
}

/* Adds the attribute of a number, whose name it replaces by a copy. */
static bool number_add(defining *d, const own_number *number) {
    const char *op = d->o->op.name, *name = *number->name;
    if (!number_name_is_valid(name) || attr_find(&d->o->op, name, strlen(name))) {
        error_set(d->error, WEFT_ARGUMENT,
                  "weft_define_op: %s: number '%s': a letter, then letters, digits, '_', up to %d of them, "
                  "and no two alike",
                  op, SHOW(name), OWN_NAME);
        return false;
    }
    if (number->kind == ATTR_REAL && !isfinite(*(const double *)number->value)) {
        error_set(d->error, WEFT_ARGUMENT, "weft_define_op: %s: the default of %s is not a finite number", op,
                  name);
        return false;
    }
    name = *number->name = arena_copy(&d->set->arena, name);
    if (!name) return error_memory(d->error, op), false;
    d->o->attrs[d->n_attrs++] =
        (op_attr){.name = name, .kind = number->kind, .offset = number->offset, .always = true};
    return true;
}

static bool numbers_add(defining *d) {
    own_number list[2 * WEFT_MAX_OP_NUMBERS];
    int n = own_numbers(&d->o->is.numbers, list);
    for (int i = 0; i < n; i++)
        if (!number_add(d, &list[i])) return false;
    return true;
}

/* The rules that need no memory. */
static weft_status definition_check(const weft_op_set *set, const weft_op_definition *d, weft_error *error) {
    if (!set || !d)
        return error_set(error, WEFT_ARGUMENT, "weft_define_op: a set and a definition are needed");
    if (reserved_check(d->reserved, sizeof d->reserved, "weft_op_definition", error) ||
        reserved_check(d->numbers.reserved, sizeof d->numbers.reserved, "weft_op_numbers", error))
        return WEFT_ARGUMENT;
    if (!op_name_is_valid(d->name))
        return error_set(error, WEFT_ARGUMENT,
                         "weft_define_op: the name '%s': two words with a '.' between, as lab.shrink: each "
                         "begins with a letter and has letters, digits, '_'; at most %d characters",
                         SHOW(d->name), OWN_NAME);
    if (own_find(set, d->name, strlen(d->name)))
        return error_set(error, WEFT_NAME, "weft_define_op: the set has an op '%s' already", d->name);
    if (d->n_operands < 1 || d->n_operands > WEFT_MAX_OP_OPERANDS)
        return error_set(error, WEFT_ARGUMENT, "weft_define_op: %s: n_operands=%d: it must be 1 to %d",
                         d->name, d->n_operands, WEFT_MAX_OP_OPERANDS);
    if (d->n_results < 0 || d->n_results > WEFT_MAX_OP_RESULTS)
        return error_set(error, WEFT_ARGUMENT, "weft_define_op: %s: n_results=%d: it must be 1 to %d",
                         d->name, d->n_results, WEFT_MAX_OP_RESULTS);
    if (!d->kernel) return error_set(error, WEFT_ARGUMENT, "weft_define_op: %s: it needs a kernel", d->name);
    return WEFT_OK;
}

/* What the engine knows of the op. It says nothing of the rest, which is right for any op: it is not fused,
 * not run in place, and runs in f32. */
static void own_describe(own_op *o, const char *name) {
    o->is.name = name;
    if (!o->is.n_results) o->is.n_results = 1;
    o->op = (weft_op){
        .name = name,
        .summary = "an op of the program",
        .min_in = o->is.n_operands,
        .attrs_bytes = sizeof(own_attrs),
        .attrs = o->attrs,
        .precision = PRECISION_F32,
        .reference_strided = o->is.strided ? ~0u : 0,
        .infer = own_infer,
        .gradient = o->is.gradient ? own_gradient : NULL,
        .reference = own_kernel,
        .own = o,
    };
}

weft_status weft_define_op(weft_op_set *set, const weft_op_definition *definition, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (definition_check(set, definition, error)) return error->status;
    defining d = {.set = set, .error = error, .o = arena_new(&set->arena, sizeof *d.o)};
    const char *name = d.o ? arena_copy(&set->arena, definition->name) : NULL;
    if (!name) return error_memory(error, definition->name);
    d.o->is = *definition;
    own_describe(d.o, name);
    if (!numbers_add(&d)) return error->status;
    *set->end = d.o;
    set->end = &d.o->next;
    return WEFT_OK;
}

void own_defaults(const own_op *o, void *attrs) {
    weft_op_numbers defaults = o->is.numbers;
    own_number list[2 * WEFT_MAX_OP_NUMBERS];
    int n = own_numbers(&defaults, list);
    for (int i = 0; i < n; i++) memcpy((char *)attrs + list[i].offset, list[i].value, OWN_NUMBER_BYTES);
}

/* ---- ops that nobody defines ---- */

const weft_op_set own_ops_shown = {.shows_others = true};

bool op_is_of_program(const weft_op *op) {
    return strchr(op->name, '.');
}

static bool cannot_infer(op_call *c) {
    return op_fail(c, WEFT_UNSUPPORTED,
                   "an op of the program that made the model, which is not defined here (weft_define_op): it "
                   "can be shown, not run");
}

/* What a file says of it is checked as a definition is. */
static const char *stand_in_broken(const char *name, int n_operands, const op_attr *attrs) {
    int n = 0;
    if (!op_name_is_valid(name)) return "its name is not one of an op";
    if (n_operands < 1 || n_operands > WEFT_MAX_OP_OPERANDS) return "it has no operand, or too many";
    for (; attrs[n].name; n++)
        if (!number_name_is_valid(attrs[n].name)) return "the name of a number";
    return n > 2 * WEFT_MAX_OP_NUMBERS ? "it has too many numbers" : NULL;
}

const weft_op *own_stand_in(weft_model *m, const char *name, int n_operands, const op_attr *attrs) {
    const char *broken = stand_in_broken(name, n_operands, attrs);
    if (broken) return model_fail(m, NULL, WEFT_ARGUMENT, "op '%s': %s", SHOW(name), broken);
    own_op *o = arena_new(&m->arena, sizeof *o);
    const char *copy = o ? arena_copy(&m->arena, name) : NULL;
    bool has_memory = copy;
    int n = 0;
    for (; has_memory && attrs[n].name; n++) {
        o->attrs[n] = (op_attr){.name = arena_copy(&m->arena, attrs[n].name),
                                .kind = attrs[n].kind,
                                .offset = (size_t)n * sizeof(double),
                                .always = true};
        has_memory = o->attrs[n].name;
    }
    if (!has_memory) return model_fail(m, NULL, WEFT_MEMORY, "%s: out of memory", name);
    o->op = (weft_op){.name = copy,
                      .summary = "an op of a program",
                      .min_in = n_operands,
                      .attrs_bytes = (size_t)n * sizeof(double),
                      .attrs = o->attrs,
                      .precision = PRECISION_F32,
                      .infer = cannot_infer};
    return &o->op;
}
