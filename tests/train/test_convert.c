/* test_convert.c - data of another type than a graph takes: which numbers convert, by themselves and by an
 * option, what a graph is given, and what is refused. */
#include "runtime/data/convert.h"
#include "support/hostile/archive.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

typedef union number {
    float f32;
    double f64;
    uint16_t half; /* f16, bf16 */
    int64_t i64;
    int32_t i32;
    uint8_t u8;
} number;

#define F32(v)                                                                                               \
    { .f32 = (v) }
#define F64(v)                                                                                               \
    { .f64 = (v) }
#define HALF(v)                                                                                              \
    { .half = (v) }
#define I64(v)                                                                                               \
    { .i64 = (v) }
#define I32(v)                                                                                               \
    { .i32 = (v) }
#define U8(v)                                                                                                \
    { .u8 = (v) }

/* One number of each rule; is_held: by the type that it goes to, exactly; rounds: it is held only rounded. */
typedef enum verdict { HELD, ROUNDED, REFUSED } verdict;
static const struct {
    weft_dtype from;
    number is;
    weft_dtype to;
    number gives;
    verdict verdict;
} rows[] = {
    {WEFT_U8, U8(255), WEFT_F32, F32(255), HELD},
    {WEFT_BOOL, U8(1), WEFT_F32, F32(1), HELD},
    {WEFT_U8, U8(255), WEFT_I64, I64(255), HELD},
    {WEFT_I32, I32(-7), WEFT_F64, F64(-7), HELD},
    {WEFT_I64, I64(INT32_MAX), WEFT_I32, I32(INT32_MAX), HELD},
    {WEFT_I64, I64(INT32_MIN), WEFT_I32, I32(INT32_MIN), HELD},
    {WEFT_I64, I64(INT32_MAX + 1LL), WEFT_I32, I32(0), REFUSED},
    {WEFT_I64, I64(INT32_MIN - 1LL), WEFT_I32, I32(0), REFUSED},
    {WEFT_I64, I64(256), WEFT_U8, U8(0), REFUSED},
    {WEFT_I64, I64(-1), WEFT_U8, U8(0), REFUSED},
    {WEFT_I64, I64(1 << 24), WEFT_F32, F32(0x1p24f), HELD},
    {WEFT_I64, I64((1 << 24) + 1), WEFT_F32, F32(0x1p24f), ROUNDED},
    {WEFT_I64, I64(INT64_MAX), WEFT_F64, F64(0x1p63), ROUNDED},
    {WEFT_I64, I64(INT64_MIN), WEFT_F64, F64(-0x1p63), HELD},
    {WEFT_F32, F32(0.1f), WEFT_F64, F64((double)0.1f), HELD},
    {WEFT_F64, F64(0.1), WEFT_F32, F32(0.1f), ROUNDED},
    {WEFT_F64, F64(0.5), WEFT_F32, F32(0.5f), HELD},
    {WEFT_F64, F64(INFINITY), WEFT_F32, F32(INFINITY), HELD},
    {WEFT_F64, F64(1e300), WEFT_F32, F32(0), REFUSED}, /* it would be infinite */
    {WEFT_F64, F64(3), WEFT_U8, U8(3), HELD},
    {WEFT_F64, F64(3.5), WEFT_U8, U8(0), REFUSED},
    {WEFT_F64, F64(NAN), WEFT_I64, I64(0), REFUSED},
    {WEFT_F64, F64(0x1p63), WEFT_I64, I64(0), REFUSED},
    {WEFT_F64, F64(-0x1p63), WEFT_I64, I64(INT64_MIN), HELD},
    {WEFT_F16, HALF(0x3c00), WEFT_F32, F32(1), HELD},
    {WEFT_F16, HALF(0x8001), WEFT_F32, F32(-0x1p-24f), HELD}, /* the smallest that is not 0 */
    {WEFT_F16, HALF(0x7bff), WEFT_F32, F32(65504), HELD},
    {WEFT_F16, HALF(0xfc00), WEFT_F32, F32(-INFINITY), HELD},
    {WEFT_BF16, HALF(0xbf80), WEFT_F64, F64(-1), HELD},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Each at the first place of a block, at others, and after it. */
TEST(numbers_keep_their_value_or_are_refused) {
    enum { MOST = 600 };
    for (int r = 0; r < ROWS; r++)
        for (size_t at = 0; at < MOST; at += 257)
            for (int rounds = 0; rounds < 2; rounds++) {
                _Alignas(8) char in[MOST * 8] = {0}, out[MOST * 8] = {0};
                size_t from = weft_dtype_bytes(rows[r].from), to = weft_dtype_bytes(rows[r].to);
                memcpy(in + at * from, &rows[r].is, from);
                size_t good = convert_numbers(rows[r].from, in, rows[r].to, out, MOST, rounds);
                bool is_good = rows[r].verdict == HELD || (rounds && rows[r].verdict == ROUNDED);
                CHECK_SAYS(good == (is_good ? MOST : at), "row %d, rounds %d: %zu of %zu", r, rounds, good,
                           at);
                if (is_good)
                    CHECK_SAYS(memcmp(out + at * to, &rows[r].gives, to) == 0, "row %d at %zu", r, at);
            }
}

TEST(a_number_that_is_none_stays_one) {
    double in = NAN;
    float out = 0;
    CHECK(convert_numbers(WEFT_F64, &in, WEFT_F32, &out, 1, false) == 1 && isnan(out));
}

TEST(only_what_keeps_numbers_happens_by_itself) {
    for (int from = 0; from < WEFT_DTYPES; from++)
        for (int to = 0; to < WEFT_DTYPES; to++) {
            bool is_float = from == WEFT_F32 || from == WEFT_F64 || from == WEFT_BF16 || from == WEFT_F16;
            bool gives =
                to == WEFT_F32 || to == WEFT_F64 || to == WEFT_I64 || to == WEFT_I32 || to == WEFT_U8;
            bool widens = (to == WEFT_F64 && from != WEFT_F64) ||
                          (to == WEFT_F32 && (from == WEFT_BF16 || from == WEFT_F16));
            CHECK_SAYS(convert_is_exact((weft_dtype)from, (weft_dtype)to) == (gives && (!is_float || widens)),
                       "%s to %s", weft_dtype_name((weft_dtype)from), weft_dtype_name((weft_dtype)to));
        }
}

/* ---- files, by an option ---- */

/* Opens `b` as the file x with this option; `wrong`: what its error says, NULL: sample `i` is read. */
static void read_as(const bytes *b, const char *option, int64_t i, void *into, const char *wrong) {
    faults f;
    weft_error error = {0};
    char text[100];
    faults_init(&f);
    fake_put(&f, "x", b->data, b->n);
    snprintf(text, sizeof text, "x:%s", option);
    weft_source *s = weft_source_open_text(text, &f.env, &error);
    weft_status status = s ? s->read(s->context, i, (void *[]){into}, &error) : error.status;
    if (wrong) {
        CHECK(status != WEFT_OK);
        CHECK_HOLDS(error.text, wrong);
    } else {
        CHECK_SAYS(status == WEFT_OK, "%s", error.text);
    }
    weft_source_free(s);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

TEST(an_option_converts_the_rows_of_a_file) {
    const double rows64[] = {0.1, -2, 1e300, 4};
    float got[2];
    int32_t whole[2];
    bytes rows_first = bytes_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}", rows64, 32);
    bytes columns_first = bytes_npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2)}", rows64, 32);
    read_as(&rows_first, "dtype=f32", 0, got, NULL);
    CHECK(got[0] == 0.1f && got[1] == -2);
    read_as(&rows_first, "dtype=f32", 1, got,
            "x: sample 1 has 1.0000000000000001e+300, which f32 does not hold: correct it in the file, or "
            "declare the input as f64");
    read_as(&columns_first, "dtype=f32", 1, got, NULL);
    CHECK(got[0] == -2 && got[1] == 4);
    read_as(&rows_first, "dtype=i32", 0, whole, "x: sample 0 has 0.1");
    read_as(&columns_first, "dtype=i32", 1, whole, NULL);
    CHECK(whole[0] == -2 && whole[1] == 4);
    read_as(&rows_first, "dtype=float32", 0, got, "dtype=float32: f32, f64, i64, i32 or u8");
    read_as(&rows_first, "dtype=bf16", 0, got, "dtype=bf16: f32, f64, i64, i32 or u8");
    zip z = {.entries = 0};
    zip_add(&z, "a.npy", &rows_first, true);
    zip_end(&z, "");
    read_as(&z.file, "dtype=f32", 0, got, NULL);
    CHECK(got[0] == 0.1f && got[1] == -2);
    read_as(&z.file, "dtype=f16", 0, got, "dtype=f16: f32");
}

/* A row that is longer than the buffer through which it goes. */
TEST(long_rows_are_converted_to_their_end) {
    enum { N = 1500 };
    uint8_t in[N];
    float got[N];
    for (int i = 0; i < N; i++) in[i] = (uint8_t)(i * 7);
    bytes b = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1500)}", in, N);
    read_as(&b, "dtype=f32", 0, got, NULL);
    for (int i = 0; i < N; i++) CHECK(got[i] == (float)in[i]);
}

/* ---- batches ---- */

/* Sample i is two numbers of u8 and one of i64; that of 5 does not fit into 32 bits. */
static weft_status read_three(void *context, int64_t i, void *const *into, weft_error *error) {
    int64_t label = i == 5 ? 1LL << 40 : -i;
    (void)context, (void)error;
    memcpy(into[0], (uint8_t[]){(uint8_t)i, (uint8_t)(255 - i)}, 2);
    memcpy(into[1], &label, sizeof label);
    return WEFT_OK;
}

static const weft_source three = {
    .count = 6, .n = 2, .arrays = {{"x", WEFT_U8, 1, {2}}, {"label", WEFT_I64, 0, {0}}}, .read = read_three};
static const weft_source *const list[] = {&three};

TEST(a_loader_gives_the_types_that_are_asked_for) {
    for (int threads = 0; threads < 3; threads++) {
        weft_error error = {0};
        const void *data[3];
        int64_t n;
        weft_loader_options how = {.batch = 2,
                                   .draws = 1,
                                   .ahead = threads ? 2 : -1,
                                   .threads = threads,
                                   .dtypes = (const weft_dtype[]){WEFT_F32, WEFT_I32}};
        weft_loader *l = weft_loader_new(1, list, &how, NULL, &error);
        NEED(l != NULL);
        CHECK(weft_loader_array(l, 0)->dtype == WEFT_F32 && weft_loader_array(l, 1)->dtype == WEFT_I32);
        for (int b = 0; b < 2; b++) {
            CHECK_SAYS(weft_loader_next(l, data, &n, &error) && n == 2, "%s", error.text);
            for (int i = 0; i < 2; i++) {
                const float *x = (const float *)data[0] + 2 * i;
                CHECK(x[0] == (float)(2 * b + i) && x[1] == (float)(255 - 2 * b - i));
                CHECK(((const int32_t *)data[1])[i] == -2 * b - i);
            }
        }
        CHECK(!weft_loader_next(l, data, &n, &error));
        CHECK_TEXT(error.text,
                   "label: sample 5 has 1099511627776, which i32 does not hold: correct it in the file, or "
                   "declare the input as i64");
        weft_loader_free(l);
    }
}

/* The caller may use its list again; messages of later batches have the names that were given. */
TEST(a_loader_keeps_the_names_that_it_was_given) {
    weft_error error = {0};
    const void *data[3];
    int64_t n;
    const char *names[] = {"image", "class"};
    weft_loader_options how = {
        .batch = 6, .draws = 1, .names = names, .dtypes = (const weft_dtype[]){WEFT_F32, WEFT_I32}};
    weft_loader *l = weft_loader_new(1, list, &how, NULL, &error);
    NEED(l != NULL);
    names[0] = names[1] = "another";
    CHECK(!weft_loader_next(l, data, &n, &error));
    CHECK_HOLDS(error.text, "class: sample 5 has 1099511627776, which i32 does not hold: ");
    weft_loader_free(l);
}

TEST(a_loader_refuses_what_loses_digits) {
    weft_error error = {0};
    weft_source s = three;
    s.arrays[1].dtype = WEFT_F64;
    weft_loader_options how = {.batch = 2, .dtypes = (const weft_dtype[]){WEFT_U8, WEFT_F32}};
    CHECK(!weft_loader_new(1, (const weft_source *[]){&s}, &how, NULL, &error));
    CHECK_HOLDS(error.text, "array 1 is f64, and not every such number is one of f32");
}

/* ---- a trainer ---- */

/* One weight for each number of a sample; the loss is what it predicts of the label. */
static weft_model *build(weft_dtype x_type, weft_dtype label_type) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 2);
    for (int train = 0; train < 2; train++) {
        weft_graph *g = weft_graph_new(m, train ? "train" : "val", train ? WEFT_TRAIN : WEFT_EVAL);
        weft_value *x = weft_cast(weft_input(g, "x", x_type, WEFT_SHAPE(WEFT_BATCH, 2)), WEFT_F32);
        weft_value *label = weft_cast(weft_input(g, "label", label_type, WEFT_SHAPE(WEFT_BATCH)), WEFT_F32);
        weft_value *loss =
            weft_mse(weft_linear(x, 1, "fc", NULL), weft_reshape(label, WEFT_SHAPE(-1, 1)), NULL);
        if (train) weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd", .lr = 1e-6});
        weft_output(loss, "loss");
    }
    return m;
}

typedef struct told {
    int lines;
    char last[300];
} told;

static void note(void *context, const char *line) {
    told *t = context;
    t->lines++;
    snprintf(t->last, sizeof t->last, "%s", line);
}

static const weft_source five = {
    .count = 4, .n = 2, .arrays = {{"x", WEFT_U8, 1, {2}}, {"label", WEFT_I64, 0, {0}}}, .read = read_three};
static const weft_source *const fives[] = {&five};

/* The loss of a validation after a training on inputs of these types; NaN after an error. */
static double trained(weft_dtype x, weft_dtype label, told *log, weft_error *error) {
    weft_model *m = build(x, label);
    const weft_env env = {.log = note, .log_context = log};
    const weft_trainer_options how = {
        .train = {1, fives, NULL}, .val = {1, fives, NULL}, .epochs = 2, .seed = 3, .env = &env};
    double loss = NAN;
    weft_trainer *t = weft_trainer_new(m, &how, error);
    weft_metrics result = {0};
    if (t && !weft_trainer_fit(t, error) && !weft_trainer_validate(t, &result, error) && result.n)
        loss = result.list[0].value;
    weft_trainer_free(t);
    weft_model_free(m);
    return loss;
}

/* The graph casts what it is given, or is given what it would cast: the same numbers. */
TEST(a_trainer_gives_inputs_the_type_that_they_take) {
    told log = {0}, none = {0};
    weft_error error = {0};
    double want = trained(WEFT_U8, WEFT_I64, &none, &error);
    CHECK_SAYS(isfinite(want) && none.lines == 0, "%s", error.text);
    CHECK(trained(WEFT_F32, WEFT_F32, &log, &error) == want);
    CHECK(log.lines == 2); /* one an array, and none for the validation */
    CHECK_TEXT(log.last, "data label: i64 is read as f32, each number as it is (nothing is scaled)");
    CHECK(trained(WEFT_I32, WEFT_I32, &log, &error) == want);
}

/* Labels of this type; nobody reads them. */
static weft_source labelled(weft_dtype type) {
    weft_source s = five;
    s.arrays[1].dtype = type;
    return s;
}

/* The data to train on have the type of the input, the others have not. */
TEST(each_conversion_is_told_once_whatever_the_data_are_for) {
    told log = {0};
    weft_error error = {0};
    const weft_env env = {.log = note, .log_context = &log};
    const weft_source f32 = labelled(WEFT_F32), i32 = labelled(WEFT_I32), u8 = labelled(WEFT_U8);
    const weft_dataset test = {1, (const weft_source *const[]){&i32}, NULL},
                       predict = {1, (const weft_source *const[]){&u8}, NULL};
    const weft_trainer_options how = {.train = {1, (const weft_source *const[]){&f32}, NULL},
                                      .val = {1, fives, NULL},
                                      .test = test,
                                      .epochs = 1,
                                      .env = &env};
    weft_model *m = build(WEFT_U8, WEFT_F32);
    weft_trainer *t = weft_trainer_new(m, &how, &error);
    CHECK_SAYS(t && log.lines == 2, "%d lines; %s", log.lines, error.text);
    CHECK_TEXT(log.last, "data label: i32 is read as f32, each number as it is (nothing is scaled)");
    for (int i = 0; i < 2; i++) CHECK(!weft_trainer_predict(t, "val", "loss", &predict, &error));
    CHECK_HOLDS(error.text, "output loss has no axis of samples");
    CHECK_TEXT(log.last, "data label: u8 is read as f32, each number as it is (nothing is scaled)");
    CHECK(!weft_trainer_predict(t, "val", "loss", &test, &error) && log.lines == 3);
    weft_trainer_free(t);
    weft_model_free(m);
}

static weft_status read_f64(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)error;
    memcpy(into[0], (double[]){(double)i, 0.5}, 16);
    memset(into[1], 0, 8);
    return WEFT_OK;
}

TEST(what_would_lose_digits_names_both_ways_out) {
    static const weft_source wide = {.count = 4,
                                     .n = 2,
                                     .arrays = {{"x", WEFT_F64, 1, {2}}, {"label", WEFT_I64, 0, {0}}},
                                     .read = read_f64};
    weft_error error = {0};
    weft_model *m = build(WEFT_F32, WEFT_I64);
    const weft_trainer_options how = {.train = {1, (const weft_source *const[]){&wide}, NULL}, .epochs = 1};
    CHECK(!weft_trainer_new(m, &how, &error));
    CHECK_HOLDS(error.text,
                "data x: the samples are f64[4,2], graph train takes f32[2,2]; f32 does not hold every "
                "f64: save it with .astype(\"float32\") in NumPy, or convert it here by the option "
                "dtype=f32 of the data (graphtool: --data x=FILE:dtype=f32)");
    weft_model_free(m);
}

/* Graphs "a" and "b" of one flow, which take x in these types. */
static weft_model *build_two(weft_dtype a, weft_dtype b) {
    weft_model *m = weft_model_new("m");
    weft_model_set_batch(m, 2);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "b" : "a", WEFT_TRAIN);
        weft_value *x = weft_cast(weft_input(g, "x", i ? b : a, WEFT_SHAPE(WEFT_BATCH, 2)), WEFT_F32);
        weft_value *label = weft_cast(weft_input(g, "label", WEFT_I64, WEFT_SHAPE(WEFT_BATCH)), WEFT_F32);
        const char *scope = i ? "right" : "left";
        weft_value *loss =
            weft_mse(weft_linear(x, 1, scope, NULL), weft_reshape(label, WEFT_SHAPE(-1, 1)), NULL);
        weft_minimize(loss, scope, &(weft_optimizer){.type = "sgd", .lr = 1e-6});
    }
    return m;
}

/* Whatever the type of the data, one of the graphs takes another one. */
TEST(graphs_that_take_an_array_in_two_types_are_told) {
    static const struct {
        weft_dtype data, a, b;
        const char *says;
    } rows[] = {
        {WEFT_U8, WEFT_U8, WEFT_F32,
         "u8[4,2], graph b takes f32[2,2]; graphs a and b take it as u8 and f32: "},
        {WEFT_F32, WEFT_U8, WEFT_F32,
         "f32[4,2], graph a takes u8[2,2]; graphs b and a take it as f32 and u8: "},
        {WEFT_U8, WEFT_I32, WEFT_F32,
         "i32[4,2], graph b takes f32[2,2]; graphs a and b take it as i32 and f32: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error error = {0};
        weft_source s = five;
        s.arrays[0].dtype = rows[i].data;
        const weft_trainer_options how = {.train = {1, (const weft_source *const[]){&s}, NULL}, .epochs = 1};
        weft_model *m = build_two(rows[i].a, rows[i].b);
        CHECK(!weft_trainer_new(m, &how, &error));
        CHECK_HOLDS(error.text, rows[i].says);
        CHECK_HOLDS(error.text, "declare one type in both, or feed two inputs");
        weft_model_free(m);
    }
}

SUITE("convert",
      {T(numbers_keep_their_value_or_are_refused), T(a_number_that_is_none_stays_one),
       T(only_what_keeps_numbers_happens_by_itself), T(an_option_converts_the_rows_of_a_file),
       T(long_rows_are_converted_to_their_end), T(a_loader_gives_the_types_that_are_asked_for),
       T(a_loader_keeps_the_names_that_it_was_given), T(a_loader_refuses_what_loses_digits),
       T(a_trainer_gives_inputs_the_type_that_they_take),
       T(each_conversion_is_told_once_whatever_the_data_are_for),
       T(what_would_lose_digits_names_both_ways_out), T(graphs_that_take_an_array_in_two_types_are_told)})
