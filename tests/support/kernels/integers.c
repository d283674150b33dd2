/* integers.c - see integers.h. */
#include "support/kernels/integers.h"

#include "ops/kit/op_kit.h"
#include "runtime/passes/passes.h"
#include "weft/ops.h"

#include <stdio.h>
#include <string.h>

/* 0 is the last. */
static const int64_t hard[2][HARD_NUMBERS] = {
    {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 53) - 1, -7, -2, -1, 1, 3, (int64_t)1 << 31,
     ((int64_t)1 << 53) + 1, INT64_MAX, 0},
    {INT32_MIN, INT32_MIN + 1, -65537, -7, -2, -1, 1, 3, 46341, 16777217, INT32_MAX, 0},
};

void integers_pair(weft_dtype dtype, int i, int64_t pair[2]) {
    pair[0] = hard[dtype == WEFT_I32][i / (HARD_NUMBERS - 1)];
    pair[1] = hard[dtype == WEFT_I32][i % (HARD_NUMBERS - 1)];
}

static void fill(const tensor *t) {
    const int64_t *from = hard[t->type.dtype == WEFT_I32];
    int64_t at[WEFT_MAX_NDIM] = {0}, i = 0;
    do {
        element_set_int(t, at, t->type.dtype == WEFT_BOOL ? i % 2 : from[i % HARD_NUMBERS]);
        i++;
    } while (index_next(&t->type, at));
}

static void check_node(weft_node *n, const char *what, node_check *check) {
    block data[FUSED_MAX_IN] = {0};
    tensor in[FUSED_MAX_IN] = {0};
    for (int i = 0; i < n->n_in; i++) {
        data[i] = block_new(&n->in[i]->type, LAYOUT_ROWS);
        fill(&data[i].t);
        in[i] = data[i].t;
    }
    check(n, what, in);
    for (int i = 0; i < n->n_in; i++) block_free(&data[i]);
}

/* The numbers as a column beside the numbers as a row; those that divide have no 0. */
static void check_op(const weft_op *op, const char *in, const char *attrs, node_check *check) {
    op_sample spec = {in, attrs};
    char what[600];
    sample s;
    sample_build(&s, op, &spec, false);
    sample_describe(&spec, op, what);
    if (CHECK_SAYS(s.n, "%s: %s", what, s.error_text)) check_node(s.n, what, check);
    sample_free(&s);
}

static const char *attrs_of(const char *op) {
    static const char *const list[][2] = {{"clamp", "min=-7 max=3"},
                                          {"scale", "factor=-46341"},
                                          {"offset", "amount=-2147483648"},
                                          {"cast", "dtype=u8"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(list[i][0], op) == 0) return list[i][1];
    return NULL;
}

static void check_reductions(const char *dtype, node_check *check) {
    static const char *const names[] = {"sum",    "prod",   "amax",   "amin",
                                        "argmax", "argmin", "cumsum", "cumprod"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const weft_op *op = op_find(&weft_catalog, names[i], strlen(names[i]));
        bool has_axis = strncmp(names[i], "arg", 3) == 0 || strncmp(names[i], "cum", 3) == 0;
        char in[40];
        for (int axis = 0; samples_are_of(op) && axis < 2; axis++) {
            char attrs[20];
            snprintf(in, sizeof in, "%s[12,%d]", dtype, axis ? 5 : 700);
            snprintf(attrs, sizeof attrs, has_axis ? "axis=%d" : "axes=%d", axis);
            check_op(op, in, attrs, check);
        }
    }
}

void integers_check(node_check *check) {
    for (int k = 0; k < 2; k++) {
        const char *dtype = k ? "i32" : "i64";
        for (int i = 0; i < op_count(); i++) {
            const weft_op *op = op_at(i);
            char in[80];
            if (!op->integer || !samples_are_of(op)) continue;
            snprintf(in, sizeof in, "%s[12,1]", dtype);
            if (op->max_in == 0 && op->min_in == 2)
                snprintf(in, sizeof in, "%s[12,1], %s[%d]", dtype, dtype, op->flags & OP_DIVIDES ? 11 : 12);
            if (op->min_in == 3) snprintf(in, sizeof in, "bool[5,1,1], %s[12,1], %s[12]", dtype, dtype);
            check_op(op, in, attrs_of(op->name), check);
        }
        check_reductions(dtype, check);
    }
}

/* Products of i32 that wrap around are compared, and chosen from; a float is made of the rest. */
void integers_check_fused(node_check *check) {
    weft_model *m = weft_model_new("integers");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    int64_t shape[] = {12, 12};
    weft_value *a = weft_input(g, "a", WEFT_I32, 2, shape), *b = weft_input(g, "b", WEFT_I32, 1, shape);
    weft_value *c = weft_input(g, "c", WEFT_I64, 2, (int64_t[]){12, 1});
    weft_value *product = weft_mul(a, b), *wide = weft_add(weft_cast(product, WEFT_I64), c);
    weft_value *chosen = weft_where(weft_greater(wide, c), weft_neg(wide), weft_scale(c, 3));
    weft_output(weft_clamp(weft_offset(chosen, 5), -9e15, 9e15), "chosen");
    weft_output(weft_cast(weft_maximum(product, a), WEFT_F32), "float");
    if (CHECK_SAYS(weft_model_error(m)->status == WEFT_OK && pass_fuse(g, WEFT_DEVICE_CUDA), "%s",
                   weft_model_error(m)->text)) {
        int fused = 0;
        for (weft_node *n = g->first; n; n = n->next) {
            if (n->op != &weft_op_fused) continue;
            fused += n->n_body;
            check_node(n, "fused integers", check);
        }
        CHECK_SAYS(fused == 10, "%d nodes are fused", fused);
    }
    weft_model_free(m);
}
