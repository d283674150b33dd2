/* test_naive.c - ops whose kernels no sample can test: buckets over a bucket's members, and sums over the
 * micro-batches of a step; both against plain loops (support/kernels/naive.h), whose own conversions are
 * checked first. */
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/kit/op_kit.h"
#include "ops/optimizer/update.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/naive.h"
#include "support/kernels/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elements ---- */

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

TEST(elements_of_reduced_types_are_read_and_rounded_alike) {
    const weft_dtype lows[] = {WEFT_BF16, WEFT_F16};
    test_random r = {3};
    for (int k = 0; k < 2; k++) {
        uint16_t bits, again;
        tensor t = {.data = &bits, .type = type_scalar(lows[k])}, u = {.data = &again, .type = t.type};
        for (uint32_t i = 0; i < 65536; i++) {
            double v;
            bits = (uint16_t)i;
            naive_read(&t, &v);
            if (!CHECK_SAYS(same(v, element_get(&t, NULL)), "%s %x is %g", dtype_name(lows[k]), i, v)) return;
        }
        for (int i = 0; i < 20000; i++) {
            double v = ldexp(random_in(&r, -2, 2), (int)(random_bits(&r) % 60) - 40);
            if (i % 4 == 0) v = ldexp((double)(random_bits(&r) % 8192), -20); /* ties */
            naive_write(&t, &v);
            element_set(&u, NULL, (float)v);
            v = (float)v;
            naive_write(&t, &v);
            if (!CHECK_SAYS(bits == again, "%s of %.17g: %x and %x", dtype_name(lows[k]), v, bits, again))
                return;
        }
    }
}

/* ---- buckets ---- */

static weft_variable *member(weft_model *m, const char *path, const char *shape, int64_t offset) {
    tensor_type type;
    weft_variable *v = NULL;
    if (types_parse(shape, &type, 1) == 1)
        v = variable_new(m, path, VARIABLE_PARAMETER, &type, (weft_init){0});
    if (v) v->offset = offset;
    return v;
}

/* Members of one, two and four axes, with gaps as in buckets, and one after the last. */
TEST(a_bucket_has_each_member_row_major_at_its_offset_and_zeros_between) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_variable *members[] = {member(m, "a", "f32[2,3]", 0), member(m, "b", "f32[5]", 8),
                                member(m, "c", "f32[2,3,4,2]", 16), member(m, "d", "f32[]", 64)};
    tensor_type whole = type_of(WEFT_F32, 1, (int64_t[]){80});
    weft_variable *s = variable_new(m, "bucket.0", VARIABLE_BUCKET, &whole, (weft_init){0});
    weft_value *in[4];
    block data[4];
    tensor tensors[4];
    test_random r = {1};
    NEED(s && members[0] && members[1] && members[2] && members[3]);
    s->n_members = 4;
    s->members = members;
    for (int i = 0; i < 4; i++) {
        const tensor_type *t = &members[i]->type;
        in[i] = weft_input(g, members[i]->path, t->dtype, t->ndim, t->shape);
        data[i] = block_new(t, LAYOUT_ROWS);
        sample_fill(NULL, &data[i].t, &r);
        tensors[i] = data[i].t;
    }
    weft_node *n = node_new(g, op_find(&weft_catalog, "bucket", 6), 4, in, &(variable_attrs){"bucket.0"});
    if (CHECK_SAYS(n, "%s", weft_model_error(m)->text)) kernels_check(n, "bucket", tensors);
    for (int i = 0; i < 4; i++) block_free(&data[i]);
    weft_model_free(m);
}

/* ---- micro-batches ---- */

enum { LENGTH = 1003, MOST_LEVELS = 4 };

typedef struct step {
    weft_model *m;
    weft_node *adds[2]; /* that continues, that ends a step */
    int levels;
    block in[MOST_LEVELS + 1];
} step;

static step step_new(int of) {
    step s = {.m = weft_model_new("m"), .levels = 1};
    weft_graph *g = weft_graph_new(s.m, "g", WEFT_TRAIN);
    weft_value *in[MOST_LEVELS + 1];
    while (of >> s.levels) s.levels++; /* waiting sums of 1, 2, 4 ... micro-batches */
    for (int i = 0; i <= s.levels; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        in[i] = weft_input(g, name, WEFT_F32, 1, (int64_t[]){LENGTH});
        s.in[i] = block_new(&in[i]->type, LAYOUT_ROWS);
        for (int k = 0; k < LENGTH; k++)
            ((float *)s.in[i].t.data)[k] = NAN; /* of an earlier step: never read */
    }
    for (int last = 0; last < 2; last++)
        s.adds[last] = node_new(g, &weft_op_accumulate, s.levels + 1, in, &(accumulate_attrs){of, last});
    return s;
}

static void step_free(step *s) {
    for (int i = 0; i <= s->levels; i++) block_free(&s->in[i]);
    weft_model_free(s->m);
}

/* A step of `count` micro-batches of `of` at most; what it leaves is their sum. */
static void step_check(int of, int count, const weft_kernel *kernel, const kernel_env *env) {
    double sum[LENGTH] = {0}, off = 0;
    weft_error error = {0};
    test_random r = {(uint64_t)(of * 16 + count)};
    step s = step_new(of);
    tensor in[MOST_LEVELS + 1];
    for (int i = 0; i <= s.levels; i++) in[i] = s.in[i].t;
    for (int i = 0; i < count && !error.status; i++) {
        float *gradient = in[s.levels].data;
        for (int k = 0; k < LENGTH; k++) sum[k] += gradient[k] = (float)random_in(&r, -1, 1);
        kernel_run_at(s.adds[i == count - 1], kernel, env, &(run_state){.local = i}, in, in, &error);
    }
    for (int k = 0; k < LENGTH && off < 2e-6; k++) off = fabs(((float *)in[0].data)[k] - sum[k]);
    CHECK_SAYS(!error.status && off < 2e-6, "%d of %d micro-batches by %s: a sum is off by %g %s", count, of,
               kernel->name, off, error.text);
    step_free(&s);
}

TEST(a_step_of_any_number_of_micro_batches_leaves_their_sum) {
    for (weft_isa isa = WEFT_ISA_REFERENCE; isa <= isa_best(); isa++) {
        const weft_kernel *list[16];
        kernel_env env = {.isa = isa, .threads = 1};
        int n = kernels_of(&weft_catalog, &weft_op_accumulate, &env, list, 16);
        for (int j = 0; j < n; j++)
            for (int of = 1; of <= 9; of++)
                for (int count = 1; count <= of; count++) step_check(of, count, list[j], &env);
    }
}

SUITE("naive", {T(elements_of_reduced_types_are_read_and_rounded_alike),
                T(a_bucket_has_each_member_row_major_at_its_offset_and_zeros_between),
                T(a_step_of_any_number_of_micro_batches_leaves_their_sum)})
