/* test_einsum.c - weft_einsum of random equations against the sum that they mean: a loop over all values of
 * all letters, with code of its own. Operands are small integers, so results are exact. Also built at a batch
 * of 1 and run at another. tests/pytorch/test_shapes.c has PyTorch's own results and gradients. */
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS = 6, MOST = 4, AXES = 4, ROOM = 6 * 6 * 6 * 6 * 6 * 6 };

typedef struct equation {
    int n, size[LETTERS]; /* letter 0, 'a', is the batch: axis 0 of the first operand */
    int axes[MOST + 1], letter[MOST + 1][LETTERS]; /* the last one is the result */
    char text[80];
} equation;

static int below(test_random *r, int n) {
    return (int)(random_bits(r) % (uint64_t)n);
}

static void draw_operand(test_random *r, equation *e, int i) {
    e->axes[i] = below(r, AXES) + (i == 0);
    for (int k = 0; k < e->axes[i]; k++) {
        bool is_batch = i == 0 && k == 0;
        e->letter[i][k] = is_batch ? 0 : below(r, LETTERS);
        for (int j = 0; j < k; j++) /* a diagonal only now and then, and never of the batch */
            while (e->letter[i][k] == e->letter[i][j] && (e->letter[i][j] == 0 || below(r, 4)))
                e->letter[i][k] = 1 + below(r, LETTERS - 1), j = 0;
        if (!is_batch && e->letter[i][k] == 0) e->letter[i][k] = k ? 1 + below(r, LETTERS - 1) : 0;
    }
}

/* Whether a letter is in operand i. */
static bool has(const equation *e, int i, int letter) {
    for (int k = 0; k < e->axes[i]; k++)
        if (e->letter[i][k] == letter) return true;
    return false;
}

static void draw(test_random *r, equation *e) {
    char *to = e->text;
    *e = (equation){.n = 1 + below(r, MOST)};
    for (int l = 0; l < LETTERS; l++) e->size[l] = 1 + below(r, 3);
    for (int i = 0; i < e->n; i++) draw_operand(r, e, i);
    for (int l = 0; l < LETTERS; l++) {
        bool any = false;
        for (int i = 0; i < e->n; i++) any |= has(e, i, l);
        int *count = &e->axes[e->n], at = below(r, *count + 1);
        if (!any || !below(r, 3)) continue;
        memmove(&e->letter[e->n][at + 1], &e->letter[e->n][at], (size_t)(*count - at) * sizeof(int));
        e->letter[e->n][at] = l;
        ++*count;
    }
    for (int i = 0; i <= e->n; i++) {
        to += sprintf(to, "%s", i == 0 ? "" : i == e->n ? "->" : ",");
        for (int k = 0; k < e->axes[i]; k++) *to++ = (char)('a' + e->letter[i][k]);
        *to = 0;
    }
}

/* Number of elements of operand i, or of the result. */
static int elements(const equation *e, int i) {
    int n = 1;
    for (int k = 0; k < e->axes[i]; k++) n *= e->size[e->letter[i][k]];
    return n;
}

static int place_of(const equation *e, int i, const int *at) {
    int place = 0;
    for (int k = 0; k < e->axes[i]; k++) place = place * e->size[e->letter[i][k]] + at[e->letter[i][k]];
    return place;
}

/* Adds the product of the operands' elements for every value of the letters that occur. */
static void evaluate(const equation *e, float operands[MOST][ROOM], float *result) {
    int at[LETTERS] = {0}, l = 0;
    memset(result, 0, ROOM * sizeof *result);
    while (l < LETTERS) {
        float product = 1;
        for (int i = 0; i < e->n; i++) product *= operands[i][place_of(e, i, at)];
        result[place_of(e, e->n, at)] += product;
        for (l = 0; l < LETTERS; l++) {
            bool any = false;
            for (int i = 0; i < e->n; i++) any |= has(e, i, l);
            if (any && ++at[l] < e->size[l]) break;
            at[l] = 0;
        }
    }
}

/* Compiles and runs at the batch of letter 'a', and compares. A product on the way may have too many axes. */
static bool check(const equation *e, test_random *r, bool *is_skipped) {
    static float operands[MOST][ROOM], want[ROOM], got[ROOM];
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *in[MOST];
    weft_feed feeds[MOST];
    char names[MOST][4];
    for (int i = 0; i < e->n; i++) {
        int64_t shape[LETTERS];
        for (int k = 0; k < e->axes[i]; k++)
            shape[k] = e->letter[i][k] ? e->size[e->letter[i][k]] : WEFT_BATCH;
        snprintf(names[i], sizeof names[i], "x%d", i);
        in[i] = weft_input(g, names[i], WEFT_F32, e->axes[i], shape);
        int n = elements(e, i);
        for (int k = 0; k < n; k++) operands[i][k] = (float)(below(r, 7) - 3);
        feeds[i] = (weft_feed){names[i], operands[i], (size_t)n * sizeof(float)};
    }
    weft_output(weft_einsum(e->text, e->n, in), "y");
    *is_skipped = strstr(weft_model_error(m)->text, "more than 8 axes") != NULL;
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.batch = e->size[0], .verify = true}, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &error) : NULL;
    size_t count = (size_t)elements(e, e->n);
    evaluate(e, operands, want);
    if (s) weft_run(s, "g", feeds, e->n, &(weft_fetch){"y", got, count * sizeof *got}, 1, &error);
    size_t same = 0;
    while (same < count && want[same] == got[same]) same++;
    bool good = *is_skipped || (!error.status && same == count);
    CHECK_SAYS(good, "%s: %s", e->text, error.status ? error.text : "other numbers");
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    return good;
}

TEST(random_equations_give_the_sums_that_they_mean) {
    for (uint64_t seed = test_seed(1), end = seed + (uint64_t)test_count(1000, 200); seed < end; seed++) {
        test_random r = {seed};
        equation e;
        bool is_skipped = false;
        draw(&r, &e);
        test_case_begin();
        CHECK_SAYS(check(&e, &r, &is_skipped), "seed %llu", (unsigned long long)seed);
        test_case_end(is_skipped);
    }
}

SUITE("einsum", {T(random_equations_give_the_sums_that_they_mean)})
