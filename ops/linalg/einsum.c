/* einsum.c - torch.einsum: a letter names an axis, wherever it stands, and what is not in the result is
 * summed. A builder: operands are joined from the left to the right, each by one matmul (by mul where
 * nothing is summed), of permuted and reshaped operands. "..." stands for any axes, which broadcast, and a
 * letter that an operand has twice means its diagonal. Without "->" the result has the axes of "...", then
 * those that stand once, capitals first.
 *
 * Reshapes leave the lengths open that follow the batch (lengths.h), so that a model keeps its meaning at
 * another one. Where no operand is known to follow it, that is the first operand's axis 0. */
#include "ops/shape/lengths.h"

#include <string.h>

/* Labels: a capital, a small letter, or one of the axes of "...", counted from the last. */
enum { SMALL = 26, DOTS = 52, LABELS = DOTS + WEFT_MAX_NDIM };

typedef struct term {
    weft_value *v;
    int n;
    int label[2 * WEFT_MAX_NDIM];
} term;

typedef struct einsum {
    const char *equation;
    weft_graph *g;
    int64_t size[LABELS];  /* 0: no operand has the label */
    int64_t there[LABELS]; /* at another batch */
    int dots;              /* the most axes that "..." stands for */
    bool is_wanted[LABELS];
    int later[LABELS]; /* in how many of the operands that are still to be joined it is */
} einsum;

/* ---- the equation ---- */

static bool misread(const einsum *e, const char *why) {
    return model_fail(e->g->model, e->g, WEFT_ARGUMENT,
                      "einsum: '%s': %s: as in \"bij,bjk->bik\", \"...i,i\", \"ii\"", SHOW(e->equation), why);
}

static int label_of(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? SMALL + c - 'a' : -1;
}

static int position(const term *t, int label) {
    int i = 0;
    while (i < t->n && t->label[i] != label) i++;
    return i < t->n ? i : -1;
}

static void add_dots(term *t, int count) {
    for (int k = 0; k < count; k++) t->label[t->n++] = DOTS + WEFT_MAX_NDIM - count + k;
}

/* Reads letters and "..." up to a ',', "->" or the end. `dots`: how many axes "..." has; below 0: as many as
 * are left of t->v. */
static bool read_term(einsum *e, const char **at, term *t, int dots) {
    int letters = 0, dots_at = -1;
    const char *end = *at + strcspn(*at, ",-");
    for (const char *c = *at; c < end; c++) letters += label_of(*c) >= 0;
    if (dots < 0) dots = t->v->type.ndim - letters;
    for (t->n = 0; *at < end; ++*at) {
        if (**at == ' ') continue;
        if (strncmp(*at, "...", 3) == 0 && dots_at < 0) {
            dots_at = t->n;
            if (dots < 0 || t->n + dots > WEFT_MAX_NDIM)
                return misread(e, "an operand has fewer axes than letters");
            add_dots(t, dots);
            *at += 2;
            continue;
        }
        if (label_of(**at) < 0) return misread(e, "only letters, ',', '->' and one '...' an operand");
        if (t->n == WEFT_MAX_NDIM) return misread(e, "more than 8 axes");
        t->label[t->n++] = label_of(**at);
    }
    if (dots_at >= 0 && dots > e->dots) e->dots = dots;
    return true;
}

/* The lengths of the operand's labels at another batch. */
static void note_twin(einsum *e, const term *t) {
    const tensor_type *twin = value_twin(t->v);
    for (int i = 0; i < t->n; i++) {
        int64_t length = (twin ? twin : &t->v->type)->shape[i], *there = &e->there[t->label[i]];
        if (length > *there) *there = length;
    }
}

/* The lengths of the operand's labels; an axis of length 1 broadcasts. */
static bool note_sizes(einsum *e, const term *t, int operand) {
    if (t->n != t->v->type.ndim)
        return model_fail(e->g->model, e->g, WEFT_SHAPE,
                          "einsum: '%s': operand %d is %s, but has %d letters: one an axis",
                          SHOW(e->equation), operand, TYPE(&t->v->type), t->n);
    for (int i = 0; i < t->n; i++) {
        int64_t length = t->v->type.shape[i], *size = &e->size[t->label[i]];
        if (*size > 1 && length > 1 && length != *size)
            return model_fail(
                e->g->model, e->g, WEFT_SHAPE,
                "einsum: '%s': axis %d of operand %d, %s, is %lld long, where an axis of the same "
                "letter is %lld",
                SHOW(e->equation), i, operand, TYPE(&t->v->type), (long long)length, (long long)*size);
        if (length > *size) *size = length;
    }
    note_twin(e, t);
    return true;
}

static bool read_operands(einsum *e, const char **at, int n, weft_value *const *operands, term *terms) {
    for (int i = 0; i < n; i++) {
        terms[i] = (term){.v = operands[i]};
        if (!read_term(e, at, &terms[i], -1) || !note_sizes(e, &terms[i], i)) return false;
        bool ends = **at != ',';
        *at += !ends;
        if (ends != (i == n - 1))
            return model_fail(e->g->model, e->g, WEFT_ARGUMENT,
                              "einsum: '%s': %d operands are given: the equation must have as many, with ',' "
                              "between them",
                              SHOW(e->equation), n);
    }
    return true;
}

/* Leaves the first operand's axis 0 open where nothing is known to follow the batch. */
static void choose_open(einsum *e, const term *first) {
    for (int i = 0; i < LABELS; i++)
        if (e->there[i] != e->size[i]) return;
    if (first->n) e->there[first->label[0]] *= 2;
}

/* The labels that stand once in the equation, sorted. */
static void implicit_result(const einsum *e, int n, const term *terms, term *result) {
    add_dots(result, e->dots);
    for (int label = 0; label < DOTS; label++) {
        int count = 0;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < terms[i].n; k++) count += terms[i].label[k] == label;
        if (count == 1 && result->n < 2 * WEFT_MAX_NDIM) result->label[result->n++] = label;
    }
}

static bool read_result(einsum *e, const char *at, int n, const term *terms, term *result) {
    if (!*at) {
        implicit_result(e, n, terms, result);
    } else {
        if (strncmp(at, "->", 2) != 0) return misread(e, "'-' without '>'");
        at += 2;
        if (!read_term(e, &at, result, e->dots)) return false;
        if (*at) return misread(e, "more than one result");
    }
    for (int i = 0; i < result->n; i++) {
        if (!e->size[result->label[i]]) return misread(e, "a letter of the result is in no operand");
        if (position(result, result->label[i]) != i) return misread(e, "a letter twice in the result");
        e->is_wanted[result->label[i]] = true;
    }
    return result->n <= WEFT_MAX_NDIM || misread(e, "a result of more than 8 axes");
}

/* ---- one operand ---- */

static bool is_kept(const einsum *e, int label) {
    return e->is_wanted[label] || e->later[label] > 0;
}

/* Axis i of the result is axis order[i] of t. */
static void permute(const einsum *e, term *t, const int *order) {
    int64_t axes[WEFT_MAX_NDIM] = {0};
    term old = *t;
    bool moves = false;
    for (int i = 0; i < t->n; i++) {
        axes[i] = order[i];
        t->label[i] = old.label[order[i]];
        moves |= order[i] != i;
    }
    if (moves) t->v = weft_permute(t->v, axes);
}

/* Takes axis i out of the list of labels. */
static void forget(term *t, int i) {
    t->n--;
    memmove(t->label + i, t->label + i + 1, (size_t)(t->n - i) * sizeof *t->label);
}

/* Sums the axes whose label neither `other` has (NULL: there is none), nor a later operand, nor the
 * result. */
static void sum_alone(const einsum *e, term *t, const term *other) {
    int64_t axes[WEFT_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (!is_kept(e, t->label[i]) && (!other || position(other, t->label[i]) < 0)) axes[n++] = i;
    if (n) t->v = weft_sum(t->v, n, axes, false);
    while (n--) forget(t, (int)axes[n]);
}

static void move_last(int n, int *order, int axis) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (order[i] != axis) order[kept++] = order[i];
    order[kept] = axis;
}

/* Axes i and k have one label of length d. Last, they are d * d elements, and with d zeros after them d
 * rows of d + 1, in whose first column the diagonal stands. */
static void diagonal(const einsum *e, term *t, int i, int k) {
    int order[WEFT_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t d = e->size[t->label[i]];
    move_last(t->n, order, i);
    move_last(t->n, order, k);
    permute(e, t, order);
    int rest = t->n - 2;
    t->v = fixed_axis(t->v, rest); /* d zeros are d at any batch */
    if (!t->v) return;
    lengths whole = lengths_of(t->v);
    lengths_merge(&whole, rest, rest + 2);
    t->v = weft_pad(reshape_lengths(t->v, &whole), rest, 0, d);
    lengths_remove(&whole, rest);
    lengths_insert(&whole, rest, d + 1);
    lengths_insert(&whole, rest, d);
    t->v = reshape_lengths(t->v, &whole);
    t->v = t->v ? weft_slice(t->v, rest + 1, 0, 1) : NULL;
    t->v = t->v ? weft_squeeze(t->v, rest + 1) : NULL;
    t->n--;
}

/* Makes diagonals of labels that are there twice, and drops axes that broadcast. */
static bool prepare(einsum *e, term *t) {
    for (int i = 0; i < t->n; i++) {
        int k = t->n - 1;
        while (k > i && t->label[k] != t->label[i]) k--;
        if (k == i) continue;
        if (t->v->type.shape[i] != t->v->type.shape[k])
            return misread(e, "a letter stands for two axes of one operand, which are not equally long");
        diagonal(e, t, i, k);
        if (!t->v) return false;
        i = -1; /* the axes have moved */
    }
    for (int i = t->n; t->v && i--;)
        if (t->v->type.shape[i] == 1 && e->size[t->label[i]] > 1) {
            t->v = weft_squeeze(t->v, i);
            forget(t, i);
        }
    return t->v != NULL;
}

/* ---- two operands ---- */

/* The labels of both operands by what becomes of them. */
typedef struct split {
    term both, left, right, summed;
} split;

static void put(term *t, int label) {
    t->label[t->n++] = label;
}

static split split_of(const einsum *e, const term *a, const term *b) {
    split s = {0};
    for (int i = 0; i < a->n; i++) {
        bool shared = position(b, a->label[i]) >= 0;
        put(!shared ? &s.left : is_kept(e, a->label[i]) ? &s.both : &s.summed, a->label[i]);
    }
    for (int i = 0; i < b->n; i++)
        if (position(a, b->label[i]) < 0) put(&s.right, b->label[i]);
    return s;
}

/* The shape whose axis i is the product of the labels of groups[i]. */
static lengths shape_of(const einsum *e, int n, const term *groups) {
    lengths l = {.n = n};
    for (int i = 0; i < n; i++) {
        l.here[i] = l.there[i] = 1;
        for (int k = 0; k < groups[i].n; k++) {
            l.here[i] *= e->size[groups[i].label[k]];
            l.there[i] *= e->there[groups[i].label[k]];
        }
    }
    return l;
}

/* t with its axes in the order of the groups, each of which becomes one axis. */
static weft_value *grouped(const einsum *e, term *t, int n, const term *groups) {
    int order[WEFT_MAX_NDIM], at = 0;
    bool is_same = n == t->n;
    for (int i = 0; i < n; i++) {
        is_same &= groups[i].n == 1;
        for (int k = 0; k < groups[i].n; k++) order[at++] = position(t, groups[i].label[k]);
    }
    permute(e, t, order);
    lengths shape = shape_of(e, n, groups);
    return is_same ? t->v : reshape_lengths(t->v, &shape);
}

/* Labels one by one, as groups. */
static int singles(const term *t, term *groups) {
    for (int i = 0; i < t->n; i++) groups[i] = (term){.n = 1, .label = {t->label[i]}};
    return t->n;
}

/* Whether the summed axes come before the other ones. */
static bool sums_first(const term *t, const term *summed, const term *others) {
    return others->n && position(t, summed->label[0]) < position(t, others->label[0]);
}

static bool too_many(const einsum *e) {
    return misread(e, "a product on the way would have more than 8 axes");
}

/* [both, left, right]: elements times elements, with axes of length 1 for the other's labels. */
static weft_value *outer(const einsum *e, term *a, term *b, const split *s) {
    term groups[3 * WEFT_MAX_NDIM] = {{0}};
    int n = singles(&s->both, groups);
    n += singles(&s->left, groups + n);
    weft_value *x = grouped(e, a, n + s->right.n, groups);
    memset(groups + s->both.n, 0, (size_t)s->left.n * sizeof *groups);
    n += singles(&s->right, groups + n);
    weft_value *y = x ? grouped(e, b, n, groups) : NULL;
    return y ? weft_mul(x, y) : NULL;
}

/* [both, left, right] by a product of matrices, one for each index of `both`. */
static weft_value *contracted(const einsum *e, term *a, term *b, const split *s) {
    term groups[3 * WEFT_MAX_NDIM];
    bool flip_a = sums_first(a, &s->summed, &s->left), flip_b = !sums_first(b, &s->summed, &s->right);
    int n = singles(&s->both, groups);
    groups[n] = flip_a ? s->summed : s->left;
    groups[n + 1] = flip_a ? s->left : s->summed;
    weft_value *x = grouped(e, a, n + 2, groups);
    groups[n] = flip_b ? s->right : s->summed;
    groups[n + 1] = flip_b ? s->summed : s->right;
    weft_value *y = x ? grouped(e, b, n + 2, groups) : NULL;
    weft_value *v = y ? weft_matmul(x, y, flip_a, flip_b) : NULL;
    if (s->left.n == 1 && s->right.n == 1) return v;
    n += singles(&s->left, groups + n);
    n += singles(&s->right, groups + n);
    lengths shape = shape_of(e, n, groups);
    return reshape_lengths(v, &shape);
}

/* a becomes the product of both. */
static bool join(einsum *e, term *a, term *b) {
    sum_alone(e, a, b);
    sum_alone(e, b, a);
    if (!a->v || !b->v) return false;
    split s = split_of(e, a, b);
    if (s.both.n + s.left.n + s.right.n > WEFT_MAX_NDIM || s.both.n + 2 > WEFT_MAX_NDIM) return too_many(e);
    a->v = s.summed.n ? contracted(e, a, b, &s) : outer(e, a, b, &s);
    *a = (term){.v = a->v};
    for (int i = 0; i < s.both.n; i++) put(a, s.both.label[i]);
    for (int i = 0; i < s.left.n; i++) put(a, s.left.label[i]);
    for (int i = 0; i < s.right.n; i++) put(a, s.right.label[i]);
    return a->v != NULL;
}

/* ---- all ---- */

/* In how many operands each label is. */
static void count_labels(einsum *e, int n, const term *terms) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].n; k++) {
            bool again = false;
            for (int j = 0; j < k; j++) again |= terms[i].label[j] == terms[i].label[k];
            e->later[terms[i].label[k]] += !again;
        }
}

static bool join_all(einsum *e, int n, term *terms) {
    count_labels(e, n, terms);
    for (int i = 0; i < n; i++) {
        bool in[LABELS] = {false};
        for (int k = 0; k < terms[i].n; k++) in[terms[i].label[k]] = true;
        if (!prepare(e, &terms[i])) return false;
        for (int label = 0; label < LABELS; label++) e->later[label] -= in[label];
        if (i && !join(e, &terms[0], &terms[i])) return false;
    }
    sum_alone(e, &terms[0], NULL);
    return terms[0].v != NULL;
}

/* The axes of the result in their order: at least one operand has each of them in its full length. */
static weft_value *finish(const einsum *e, term *t, const term *result) {
    int64_t axes[WEFT_MAX_NDIM] = {0};
    for (int i = 0; i < result->n; i++) axes[i] = position(t, result->label[i]);
    return weft_permute(t->v, axes);
}

weft_value *weft_einsum(const char *equation, int n, weft_value *const *operands) {
    weft_value *first = NULL;
    for (int i = 0; operands && i < n && !first; i++) first = operands[i];
    if (!first) return NULL;
    einsum e = {.equation = equation ? equation : "", .g = first->node->graph};
    weft_model *m = e.g->model;
    for (int i = 0; i < n; i++) {
        if (!operands[i])
            return model_fail(m, e.g, WEFT_ARGUMENT, "einsum: operand %d is NULL: was it ever set?", i);
        if (!dtype_is_float(operands[i]->type.dtype) || operands[i]->type.dtype != first->type.dtype)
            return model_fail(
                m, e.g, WEFT_TYPE,
                "einsum: operand %d is %s, the first %s: all have one floating-point type (weft_cast)", i,
                TYPE(&operands[i]->type), TYPE(&first->type));
    }
    term *terms = arena_new_array(&m->arena, (size_t)n, sizeof *terms), result = {0};
    if (!terms) return model_fail(m, e.g, WEFT_MEMORY, "einsum: out of memory");
    const char *at = e.equation;
    if (!read_operands(&e, &at, n, operands, terms)) return NULL;
    choose_open(&e, &terms[0]);
    if (!read_result(&e, at, n, terms, &result) || !join_all(&e, n, terms)) return NULL;
    return finish(&e, &terms[0], &result);
}
