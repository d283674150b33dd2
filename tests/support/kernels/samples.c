/* samples.c - see samples.h. */
#include "support/kernels/samples.h"

#include "ops/kit/op_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool samples_are_all(void) {
    return !getenv("WEFT_TEST_OPS");
}

bool samples_are_of(const weft_op *op) {
    const char *list = getenv("WEFT_TEST_OPS");
    size_t n = strlen(op->name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, op->name, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return !list;
}

void sample_describe(const op_sample *s, const weft_op *op, char text[600]) {
    snprintf(text, 600, "%s(%.300s) %.200s", op->name, s->in, s->attrs ? s->attrs : "");
}

/* Numbers that lie between two of bf16's or of f16's, as far from the one as from the other. */
static void make_ties(const tensor *t) {
    int64_t at[WEFT_MAX_NDIM] = {0}, i = 0;
    do {
        int bits = i++ % 2 ? 8 : 11; /* one more than the type has in [1, 2) */
        element_set(t, at, ldexp(rint(ldexp(element_get(t, at), bits)), -bits));
    } while (index_next(&t->type, at));
}

/* On random operands. */
static void sample_run(sample *s, const char *what, node_check *check) {
    test_random r = {.state = 7};
    block data[SAMPLE_MAX_IN] = {0};
    tensor tensors[SAMPLE_MAX_IN] = {0};
    for (int i = 0; i < s->n_in; i++)
        if (s->in[i]) {
            data[i] = block_new(&s->in[i]->type, LAYOUT_ROWS);
            sample_fill(s->spec, &data[i].t, &r);
            if (s->op == &weft_op_cast && dtype_is_float(data[i].t.type.dtype)) make_ties(&data[i].t);
            tensors[i] = data[i].t;
        }
    check(s->n, what, tensors);
    for (int i = 0; i < s->n_in; i++) block_free(&data[i]);
}

void sample_check(const weft_op *op, const op_sample *spec, node_check *check) {
    char what[600];
    sample s;
    sample_build(&s, op, spec, false);
    sample_describe(spec, op, what);
    if (s.n) sample_run(&s, what, check);
    sample_free(&s);
}

void samples_check(node_check *check) {
    EACH_SAMPLE(op, spec) if (!spec->error) sample_check(op, spec, check);
}

static bool has_wide(const weft_op *op) {
    for (const op_attr *f = op->attrs; f && f->name; f++)
        if (strcmp(f->name, "f32_output") == 0) return true;
    return false;
}

/* Results are reduced but those in f32_out, and except with f32 output. */
static void results_check(const sample *s, weft_dtype reduced, bool wide, const char *what) {
    for (int k = 0; k < s->n->n_out; k++)
        if (s->op->role != ROLE_CAST && dtype_is_float(s->n->out[k].type.dtype) &&
            !(s->op->f32_out >> k & 1)) {
            weft_dtype want = wide && k == 0 ? WEFT_F32 : reduced;
            CHECK_SAYS(s->n->out[k].type.dtype == want, "%s: result %d is %s, not %s", what, k,
                       TYPE(&s->n->out[k].type), dtype_name(want));
        }
}

/* What the precision pass makes of a sample. Ops that it leaves in f32 may refuse reduced operands, others
 * not. */
void sample_check_reduced(const weft_op *op, const op_sample *spec, weft_dtype reduced, bool wide,
                          node_check *check) {
    char text[600], what[700];
    sample s;
    sample_build_reduced(&s, op, spec, reduced, wide);
    sample_describe(spec, op, text);
    snprintf(what, sizeof what, "%s in %s%s", text, dtype_name(reduced), wide ? ", wide" : "");
    if (s.n_changed && op->precision != PRECISION_F32) {
        if (CHECK_SAYS(s.n, "%s: %s", what, s.error_text)) results_check(&s, reduced, wide, what);
    }
    if (s.n && s.n_changed) sample_run(&s, what, check);
    sample_free(&s);
}

void samples_check_reduced(node_check *check, bool in_turn) {
    EACH_SAMPLE(op, spec)
    if (!spec->error)
        for (weft_dtype reduced = WEFT_BF16; reduced <= WEFT_F16; reduced++)
            for (int wide = 0; wide <= has_wide(op); wide++) {
                uint64_t turn = (uint64_t)(spec - op->samples) + (uint64_t)wide + test_seed(0);
                if (!in_turn || turn % 2 == (reduced == WEFT_BF16))
                    sample_check_reduced(op, spec, reduced, wide, check);
            }
}

/* The op on operands of shapes[0], shapes[1], ...; f32 ones become `dtype`. */
static void sizes_check(const weft_op *op, const tensor_type *types, const char *const *shapes,
                        weft_dtype dtype, node_check *check) {
    char in[200] = "";
    for (int j = 0; j < op_max_in(op); j++)
        snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s%s", j ? ", " : "",
                 dtype_name(types[j].dtype == WEFT_F32 ? dtype : types[j].dtype), shapes[j]);
    op_sample spec = *op->samples;
    spec.in = in;
    spec.out = NULL;
    sample_check(op, &spec, check);
}

void samples_check_sizes(node_check *check, bool in_turn) {
    static const char *const shapes[][3] = {
        {"[1]", "[1]", "[1]"},
        {"[17]", "[17]", "[]"},
        {"[3001]", "[1]", "[3001]"},
        {"[18011]", "[18011]", "[18011]"},
        {"[37,65]", "[65]", "[37,1]"},
        {"[70,48]", "[48]", "[70,48]"},
        {"[2,19,5,7]", "[1,19,1,1]", "[2,1,1,7]"},
        {"[2,16,9,11]", "[2,16,9,11]", "[16,1,1]"},
    };
    for (int i = 0; i < op_count(); i++) {
        const weft_op *op = op_at(i);
        tensor_type types[3];
        if (!samples_are_of(op) || !(op->flags & OP_POINTWISE) || op_max_in(op) > 3 ||
            types_parse(op->samples->in, types, 3) != op_max_in(op))
            continue;
        for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++) {
            bool has_low = op->precision == PRECISION_FOLLOWS;
            int turn = (int)(((uint64_t)i + (uint64_t)k + test_seed(0)) % (test_is_quick() ? 8 : 4));
            if (!in_turn || turn == 0) sizes_check(op, types, shapes[k], WEFT_F32, check);
            if (has_low && (!in_turn || turn == 2)) sizes_check(op, types, shapes[k], WEFT_BF16, check);
        }
    }
}
