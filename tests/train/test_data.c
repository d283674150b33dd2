/* test_data.c - .npy and IDX files as NumPy and the MNIST tools write them, the message for each broken rule,
 * and the loader's batches. */
#include "support/faults.h"
#include "support/test.h"
#include "weft/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- making files ---- */

typedef struct bytes {
    unsigned char data[4096];
    size_t n;
} bytes;

static void add(bytes *b, const void *data, size_t n) {
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* A .npy file of version `major` with this dictionary and data. */
static bytes npy(int major, const char *dictionary, const void *data, size_t n) {
    bytes b = {.n = 0};
    size_t length = strlen(dictionary);
    unsigned char head[] = {0x93,
                            'N',
                            'U',
                            'M',
                            'P',
                            'Y',
                            (unsigned char)major,
                            0,
                            (unsigned char)length,
                            (unsigned char)(length >> 8),
                            0,
                            0};
    add(&b, head, major == 1 ? 10 : 12);
    add(&b, dictionary, length);
    add(&b, data, n);
    return b;
}

static bytes gzip(const bytes *plain) {
    bytes b = {.n = 0};
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)plain->data;
    z.avail_in = (uInt)plain->n;
    z.next_out = b.data;
    z.avail_out = sizeof b.data;
    deflate(&z, Z_FINISH);
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

/* By gzip's first bytes the file gets its name, which is what says that it is packed. */
static weft_array *load(faults *f, const bytes *b, weft_error *error) {
    const char *name = memcmp(b->data, "\x1f\x8b", 2) == 0 ? "x.gz" : "x";
    fake_put(f, name, b->data, b->n);
    return weft_array_load(name, &f->env, error);
}

/* Loads, compares with what is expected, frees; plain and packed. */
static void holds(const bytes *plain, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                  size_t n) {
    faults f;
    faults_init(&f);
    for (int packed = 0; packed < 2; packed++) {
        weft_error error = {0};
        bytes b = packed ? gzip(plain) : *plain;
        int64_t got[WEFT_MAX_NDIM];
        weft_array *a = load(&f, &b, &error);
        CHECK_SAYS(a != NULL, "%s", error.text);
        CHECK(weft_array_dtype(a) == dtype && weft_array_shape(a, got) == ndim);
        CHECK(a && memcmp(got, shape, (size_t)ndim * sizeof *got) == 0 &&
              memcmp(weft_array_data(a), data, n) == 0);
        weft_array_free(a);
        CHECK(f.live == 0 && f.handles == 0);
    }
    faults_end(&f);
}

/* ---- good files ---- */

TEST(npy_files_of_all_versions_and_orders_are_read) {
    const float six[] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3};
    bytes b =
        npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", six, sizeof six);
    holds(&b, WEFT_F32, 2, shape, six, sizeof six);
    b = npy(2, "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", six, sizeof six);
    holds(&b, WEFT_F32, 2, shape, six, sizeof six);
    const float columns[] = {1, 4, 2, 5, 3, 6};
    b = npy(3, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", columns, sizeof columns);
    holds(&b, WEFT_F32, 2, shape, six, sizeof six);
    const unsigned char big[] = {0, 0, 0, 0, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe};
    b = npy(1, "{'descr': '>i8', 'fortran_order': False, 'shape': (2,), }\n", big, sizeof big);
    holds(&b, WEFT_I64, 1, (int64_t[]){2}, (int64_t[]){258, -2}, 16);
    b = npy(1, "{'descr': '|b1', 'fortran_order': True, 'shape': (3,), }\n", "\0\1\7", 3);
    holds(&b, WEFT_BOOL, 1, (int64_t[]){3}, "\0\1\1", 3);
    b = npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", &(double){2.5}, 8);
    holds(&b, WEFT_F64, 0, (int64_t[]){0}, &(double){2.5}, 8);
}

/* First axis fastest in the file: element (i, j, k) is i + 2 j + 6 k. */
TEST(column_major_files_of_three_axes_are_turned) {
    unsigned char columns[24], rows[24];
    for (int i = 0; i < 24; i++) columns[i] = (unsigned char)i;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++) rows[(i * 3 + j) * 4 + k] = (unsigned char)(i + 2 * j + 6 * k);
    bytes b = npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }\n", columns, 24);
    holds(&b, WEFT_U8, 3, (int64_t[]){2, 3, 4}, rows, 24);
}

TEST(idx_files_are_read) {
    bytes b = {.data = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
                       "abcdef",
               .n = 18};
    holds(&b, WEFT_U8, 2, (int64_t[]){2, 3}, "abcdef", 6);
    b = (bytes){.data = "\0\0\x0c\x01\0\0\0\x02\0\0\1\2\xff\xff\xff\xfe", .n = 16};
    holds(&b, WEFT_I32, 1, (int64_t[]){2}, (int32_t[]){258, -2}, 8);
    b = (bytes){.data = "\0\0\x0d\x01\0\0\0\x01\x3f\xc0\0\0", .n = 12};
    holds(&b, WEFT_F32, 1, (int64_t[]){1}, &(float){1.5f}, 4);
}

/* ---- rules ---- */

#define GOOD "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }"
static const struct {
    const char *dictionary;
    size_t data_bytes;
    const char *says;
} broken_npy[] = {
    {GOOD, 3, "x: its header promises 4 bytes of data, the file has 3"},
    {GOOD, 5, "the file has 5"},
    {"", 4, "x: .npy header: '[' or '{' expected"},
    {"{'descr': '|u1', 'fortran_order': False}", 4, "shape are needed"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'x': 1}", 4, "no other key"},
    {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (4,)}", 4, "duplicate object key"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", 4, "descr '|O': f4, f8"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}", 4, "descr, a text"},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4, "after '<' or '>'"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", 4, "descr ''"},
    {"{'descr': '|u1', 'fortran_order': Maybe, 'shape': (4,)}", 4, "invalid token"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,)}", 4, "non-negative integers"},
    {"{'descr': '|U1', 'fortran_order': False, 'shape': (4,)}", 4, "descr '|U1'"},
    {"{'descr': '<F4', 'fortran_order': False, 'shape': (1,)}", 4, "descr '<F4'"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (4.0,)}", 4, "non-negative integers"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': 4}", 4, "shape are needed"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}", 0, "every axis must be at least 1"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4, "below 2^46 bytes"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4, "too big integer"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 4)}", 4, "more than 8 axes"},
    {GOOD " x", 4, "end of file expected"},
    {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}", 4, "shape are needed"},
    {"{'descr", 4, "premature end"},
};

TEST(each_rule_of_npy_has_its_message) {
    faults f;
    faults_init(&f);
    for (size_t i = 0; i < sizeof broken_npy / sizeof *broken_npy; i++) {
        weft_error error = {0};
        bytes b = npy(1, broken_npy[i].dictionary, "abcdefgh", broken_npy[i].data_bytes);
        weft_array *a = load(&f, &b, &error);
        CHECK_SAYS(!a && error.status == WEFT_FILE && strstr(error.text, broken_npy[i].says),
                   "%s: \"%s\", wanted \"%s\"", broken_npy[i].dictionary, error.text, broken_npy[i].says);
        weft_array_free(a);
        CHECK(f.live == 0 && f.handles == 0);
    }
    faults_end(&f);
}

TEST(each_rule_of_headers_and_gzip_has_its_message) {
    bytes good = npy(1, GOOD, "abcd", 4), packed = gzip(&good), longer = packed, damaged = packed, bomb,
          twice;
    bytes version = npy(4, GOOD, "abcd", 4), huge = {.data = "\x93NUMPY\2\0\xff\xff\xff\xff", .n = 12};
    add(&longer, "x", 1);
    damaged.data[packed.n - 6] ^= 1; /* the sum */
    bomb = npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (70368744177664,), }", "", 0);
    bomb = gzip(&bomb);
    twice = npy(1, GOOD, "abcde", 5);
    twice = gzip(&twice);
    const struct {
        bytes file;
        size_t cut;
        const char *says;
    } cases[] = {
        {{.n = 0}, 0, "it ends after 0 bytes, 4 more are needed"},
        {good, 5, "it ends after"},
        {good, 30, "it ends after"},
        {{.data = "PK\3\4 what", .n = 9}, 9, "neither .npy (93 NUMPY) nor IDX"},
        {{.data = "\x93NUMBER", .n = 8}, 8, "it does not begin with 93 NUMPY"},
        {version, version.n, ".npy version 4.0: 1.0, 2.0 and 3.0 are read"},
        {huge, huge.n, "a .npy header of 4294967295 bytes, at most 10000"},
        {{.data = "\0\0\x09\1\0\0\0\1x", .n = 9}, 9, "IDX element type 0x09"},
        {{.data = "\0\0\x08\0x", .n = 5}, 5, "0 axes, IDX files of 1 to 8"},
        {{.data = "\0\0\x08\x09x", .n = 5}, 5, "9 axes"},
        {{.data = "\0\0\x08\1\xff\xff\xff\xffx", .n = 9},
         9,
         "promises 4294967295 bytes of data, the file has 1"},
        {{.data = "\0\0\x08\1\0\0\0\0", .n = 8}, 8, "every axis must be at least 1"},
        {packed, packed.n - 9, "the gzip stream is cut off"},
        {packed, packed.n - 1, "the gzip stream is cut off"},
        {packed, 12, "the gzip stream is cut off"},
        {damaged, damaged.n, "the gzip stream is damaged: incorrect data check"},
        {longer, longer.n, "bytes follow the data"},
        {twice, twice.n, "bytes follow the data"},
        {bomb, bomb.n, "more than"},
    };
    faults f;
    faults_init(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error error = {0};
        bytes b = cases[i].file;
        if (b.n > cases[i].cut) b.n = cases[i].cut;
        weft_array *a = load(&f, &b, &error);
        CHECK_SAYS(!a && error.status == WEFT_FILE && strstr(error.text, cases[i].says),
                   "case %zu: \"%s\", wanted \"%s\"", i, error.text, cases[i].says);
        weft_array_free(a);
        CHECK(f.live == 0 && f.handles == 0 && f.largest < 128 << 10);
    }
    weft_error error;
    CHECK(!weft_array_load("none", &f.env, &error) && error.status == WEFT_IO);
    CHECK_HOLDS(error.text, "none: cannot be opened: No such file");
    CHECK(!weft_array_load(NULL, NULL, &error));
    fake_put(&f, "packed.npy", packed.data, packed.n);
    CHECK(!weft_array_load("packed.npy", &f.env, &error));
    CHECK_HOLDS(error.text, "gzip needs a name in .gz");
    faults_end(&f);
}

TEST(loading_an_array_survives_any_failure) {
    bytes plain = npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }", "abcd", 4),
          packed = gzip(&plain);
    for (int mode = 0; mode < 4; mode++) {
        faults f;
        faults_init(&f);
        const char *name = mode & 1 ? "x.gz" : "x";
        fake_put(&f, name, mode & 1 ? packed.data : plain.data, mode & 1 ? packed.n : plain.n);
        for (long n = 1; n < 100; n++) {
            weft_error error = {0};
            faults_arm(&f, mode & 2 ? n : 0, mode & 2 ? 0 : n, false);
            weft_array *a = weft_array_load(name, &f.env, &error);
            CHECK((a != NULL) == (error.status == WEFT_OK));
            weft_array_free(a);
            CHECK(f.live == 0 && f.handles == 0);
            if (!faults_hit(&f)) break;
        }
        faults_end(&f);
    }
}

/* ---- the loader ---- */

enum { SAMPLES = 103 };

/* Sample i of array 0 is the byte i, of array 1 the two i32 1000 i and 1000 i + 1. */
static void two_arrays(faults *f, weft_array *arrays[2], weft_source sources[2]) {
    bytes a = npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (103,), }", "", 0);
    bytes b = npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (103, 2), }", "", 0);
    for (int i = 0; i < SAMPLES; i++) {
        add(&a, &(unsigned char){(unsigned char)i}, 1);
        add(&b, (int32_t[]){1000 * i, 1000 * i + 1}, 8);
    }
    arrays[0] = load(f, &a, NULL);
    arrays[1] = load(f, &b, NULL);
    CHECK(arrays[0] && arrays[1]);
    for (int i = 0; i < 2; i++) CHECK(weft_array_source(arrays[i], &sources[i], NULL) == WEFT_OK);
}

/* One epoch: each sample at most once, both arrays in step. Returns how many samples came; the first into
 * *first. */
static int64_t epoch_of(weft_loader *l, int64_t epoch, int64_t batch, int64_t *last_rows,
                        unsigned char order[SAMPLES]) {
    bool seen[SAMPLES] = {false};
    int64_t count = 0, batches = 0;
    const void *data[2];
    weft_loader_set_epoch(l, epoch);
    for (int64_t rows; weft_loader_next(l, data, &rows, NULL); batches++) {
        const unsigned char *a = data[0];
        const int32_t *b = data[1];
        CHECK(rows == batch || count + rows == SAMPLES);
        *last_rows = rows;
        for (int64_t r = 0; r < rows; r++, count++) {
            if (!CHECK(a[r] < SAMPLES && !seen[a[r]])) return -1;
            seen[a[r]] = true;
            order[count] = a[r];
            CHECK(b[2 * r] == 1000 * a[r] && b[2 * r + 1] == 1000 * a[r] + 1);
        }
    }
    CHECK(batches == weft_loader_batches(l));
    return count;
}

TEST(an_array_may_lie_in_the_memory_of_the_caller) {
    float rows[3][2] = {{1, 2}, {3, 4}, {5, 6}}, row[2];
    weft_error error = {0};
    weft_array *a = weft_array_on(WEFT_F32, 2, (int64_t[]){3, 2}, rows, NULL, &error);
    weft_source source;
    CHECK(a && weft_array_data(a) == (void *)rows && weft_array_mutable_data(a) == (void *)rows);
    CHECK(!weft_array_source(a, &source, &error) && source.count == 3);
    rows[2][1] = 7;
    CHECK(!source.read(source.context, 2, (void *[]){row}, &error) && row[0] == 5 && row[1] == 7);
    weft_array_free(a);
    CHECK(!weft_array_on(WEFT_F32, 2, (int64_t[]){3, 2}, NULL, NULL, &error) && strstr(error.text, "NULL"));
    CHECK(!weft_array_on(WEFT_F32, 0, NULL, rows, NULL, &error) && strstr(error.text, "1 to 8 axes"));
}

TEST(an_epoch_covers_every_sample_once) {
    faults f;
    faults_init(&f);
    weft_array *arrays[2];
    weft_source sources[2];
    two_arrays(&f, arrays, sources);
    const weft_source *const list[] = {&sources[0], &sources[1]};
    unsigned char first[SAMPLES], second[SAMPLES];
    int64_t rows;
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int drop = 0; drop < 2; drop++) {
            weft_loader_options o = {.batch = 20, .shuffle = shuffle, .drop_last = drop, .seed = 7};
            weft_loader *l = weft_loader_new(2, list, &o, &f.env, NULL);
            NEED(l != NULL);
            CHECK(epoch_of(l, 0, 20, &rows, first) == (drop ? 100 : SAMPLES) && rows == (drop ? 20 : 3));
            CHECK(epoch_of(l, 1, 20, &rows, second) == (drop ? 100 : SAMPLES));
            CHECK((memcmp(first, second, 100) == 0) == !shuffle);
            CHECK(epoch_of(l, 0, 20, &rows, second) > 0 && memcmp(first, second, 100) == 0);
            weft_loader_free(l);
        }
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    CHECK(f.live == 0);
    faults_end(&f);
}

/* The same on every machine: the first samples of seed 42, epoch 0, as a few lines of Python compute them. */
TEST(the_order_depends_on_seed_and_epoch_alone) {
    faults f;
    faults_init(&f);
    weft_array *arrays[2];
    weft_source sources[2];
    two_arrays(&f, arrays, sources);
    const weft_source *const list[] = {&sources[0], &sources[1]};
    unsigned char order[SAMPLES], other[SAMPLES];
    int64_t rows;
    weft_loader *l =
        weft_loader_new(2, list, &(weft_loader_options){.batch = 8, .shuffle = true, .seed = 42}, NULL, NULL);
    weft_loader *k = weft_loader_new(
        2, list, &(weft_loader_options){.batch = 64, .shuffle = true, .seed = 42}, NULL, NULL);
    weft_loader *j = weft_loader_new(
        2, list, &(weft_loader_options){.batch = 64, .shuffle = true, .seed = 43}, NULL, NULL);
    NEED(l && k && j);
    CHECK(epoch_of(l, 0, 8, &rows, order) == SAMPLES);
    CHECK_SAYS(memcmp(order, (unsigned char[]){90, 87, 4, 53, 13, 58, 0, 60}, 8) == 0,
               "%d,%d,%d,%d,%d,%d,%d,%d", order[0], order[1], order[2], order[3], order[4], order[5],
               order[6], order[7]);
    CHECK(epoch_of(k, 0, 64, &rows, other) == SAMPLES && memcmp(order, other, SAMPLES) == 0);
    CHECK(epoch_of(j, 0, 64, &rows, other) == SAMPLES && memcmp(order, other, SAMPLES) != 0);
    CHECK(epoch_of(k, 3, 64, &rows, other) == SAMPLES && memcmp(order, other, SAMPLES) != 0);
    weft_loader_free(l);
    weft_loader_free(k);
    weft_loader_free(j);
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    faults_end(&f);
}

/* Where sample 0 lands over many epochs: chi-squared of 102 degrees of freedom, 0.1% of fair shuffles exceed
 * 150. */
TEST(shuffles_are_fair) {
    faults f;
    faults_init(&f);
    weft_array *arrays[2];
    weft_source sources[2];
    two_arrays(&f, arrays, sources);
    const weft_source *const list[] = {&sources[0], &sources[1]};
    weft_loader *l =
        weft_loader_new(2, list, &(weft_loader_options){.batch = 103, .shuffle = true}, NULL, NULL);
    NEED(l != NULL);
    enum { EPOCHS = 103 * 50 };
    int hits[SAMPLES] = {0};
    for (int e = 0; e < EPOCHS; e++) {
        const void *data[2];
        int64_t rows;
        weft_loader_set_epoch(l, e);
        CHECK(weft_loader_next(l, data, &rows, NULL) && rows == SAMPLES);
        hits[(const unsigned char *)memchr(data[0], 0, SAMPLES) - (const unsigned char *)data[0]]++;
    }
    double chi = 0;
    for (int i = 0; i < SAMPLES; i++) chi += (hits[i] - 50.0) * (hits[i] - 50.0) / 50.0;
    CHECK_SAYS(chi < 150, "chi-squared %.1f", chi);
    weft_loader_free(l);
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    faults_end(&f);
}

/* Batch `number` of one loader for all is batch j of rank r: number = (j / a * w + r) * a + j % a. */
static void check_share(const weft_source *source, int w, int a, bool drop) {
    unsigned char all[SAMPLES];
    int64_t rows, dealt = 0;
    const void *data;
    weft_loader_options o = {.batch = 8, .shuffle = true, .drop_last = drop, .seed = 4};
    weft_loader *one = weft_loader_new(1, &source, &o, NULL, NULL);
    for (int64_t at = 0; weft_loader_next(one, &data, &rows, NULL); at += rows)
        memcpy(all + at, data, (size_t)rows);
    for (int r = 0; r < w; r++) {
        o.rank = r, o.num_replicas = w, o.in_a_row = a;
        weft_loader *l = weft_loader_new(1, &source, &o, NULL, NULL);
        int64_t j = 0;
        for (; weft_loader_next(l, &data, &rows, NULL); j++)
            CHECK(memcmp(data, all + ((j / a * w + r) * a + j % a) * 8, (size_t)rows) == 0);
        CHECK(j == weft_loader_batches(l));
        CHECK(!drop || j == weft_loader_batches(one) / (w * a) * a);
        weft_loader_seek(l, 0);
        CHECK(j == 0 || (weft_loader_next(l, &data, &rows, NULL) &&
                         memcmp(data, all + (int64_t)r * a * 8, (size_t)rows) == 0));
        dealt += j;
        weft_loader_free(l);
    }
    CHECK(drop || dealt == weft_loader_batches(one));
    weft_loader_free(one);
}

TEST(ranks_share_the_batches_of_one_order) {
    faults f;
    faults_init(&f);
    weft_array *arrays[2];
    weft_source sources[2];
    two_arrays(&f, arrays, sources);
    for (int w = 1; w <= 5; w++)
        for (int a = 1; a <= 4; a++) {
            check_share(&sources[0], w, a, false);
            check_share(&sources[0], w, a, true);
        }
    weft_error error;
    weft_loader_options o = {.batch = 8, .rank = 2, .num_replicas = 2};
    CHECK(!weft_loader_new(1, (const weft_source *[]){&sources[0]}, &o, NULL, &error));
    CHECK_HOLDS(error.text, "rank 2 of 2");
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    faults_end(&f);
}

TEST(loaders_that_make_no_sense_say_so) {
    faults f;
    weft_error error;
    faults_init(&f);
    weft_array *arrays[2];
    weft_source sources[2];
    two_arrays(&f, arrays, sources);
    bytes b = npy(1, GOOD, "abcd", 4);
    weft_array *four = load(&f, &b, NULL);
    weft_source shorter;
    CHECK(weft_array_source(four, &shorter, &error) == WEFT_OK);
    const weft_source *const uneven[] = {&sources[0], &shorter};
    CHECK(!weft_loader_new(2, uneven, &(weft_loader_options){.batch = 2}, NULL, &error));
    CHECK_HOLDS(error.text, "source 1 has 4 samples, source 0 has 103");
    CHECK(!weft_loader_new(1, uneven, &(weft_loader_options){.batch = 0}, NULL, &error));
    CHECK_HOLDS(error.text, "a batch of at least 1");
    CHECK(!weft_loader_new(1, uneven, &(weft_loader_options){.batch = 200, .drop_last = true}, NULL, &error));
    CHECK_HOLDS(error.text, "103 samples make no whole batch of 200");
    weft_array_free(four);
    weft_array_free(arrays[0]);
    weft_array_free(arrays[1]);
    faults_end(&f);
}

SUITE("data",
      {T(npy_files_of_all_versions_and_orders_are_read), T(column_major_files_of_three_axes_are_turned),
       T(idx_files_are_read), T(each_rule_of_npy_has_its_message),
       T(each_rule_of_headers_and_gzip_has_its_message), T(loading_an_array_survives_any_failure),
       T(an_array_may_lie_in_the_memory_of_the_caller), T(an_epoch_covers_every_sample_once),
       T(the_order_depends_on_seed_and_epoch_alone), T(shuffles_are_fair),
       T(ranks_share_the_batches_of_one_order), T(loaders_that_make_no_sense_say_so)})
