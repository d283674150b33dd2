/* test_sources.c - sources of data: arrays that are read from their files, .npz as NumPy writes it, windows
 * of tokens and text, functions of your own; and the loader's threads. */
#include "support/hostile/archive.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/data.h"
#include "weft/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- one sample ---- */

/* Sample i, all arrays one after another; false after an error. */
static bool sample(const weft_source *s, int64_t i, void *into, size_t room, weft_error *error) {
    void *to[WEFT_SOURCE_ARRAYS];
    static unsigned char memory[WEFT_SOURCE_ARRAYS][512];
    size_t at = 0;
    for (int k = 0; k < s->n; k++) to[k] = memory[k];
    if (s->read(s->context, i, to, error)) return false;
    for (int k = 0; k < s->n; k++) {
        size_t n = weft_dtype_bytes(s->arrays[k].dtype);
        for (int d = 0; d < s->arrays[k].ndim; d++) n *= (size_t)s->arrays[k].shape[d];
        if (!CHECK(at + n <= room)) return false;
        memcpy((char *)into + at, memory[k], n);
        at += n;
    }
    return true;
}

static weft_source *open_bytes(faults *f, const char *name, const bytes *b, const weft_source_options *o,
                               weft_error *error) {
    fake_put(f, name, b->data, b->n);
    return weft_source_open(name, o, &f->env, error);
}

/* Every sample of the source is a row of `rows`. */
static void gives(const bytes *b, const weft_source_options *o, int64_t count, const void *rows, size_t row) {
    faults f;
    weft_error error = {0};
    char got[512];
    faults_init(&f);
    weft_source *s = open_bytes(&f, "x", b, o, &error);
    CHECK_SAYS(s && s->count == count, "%s", error.text);
    for (int64_t i = 0; s && i < s->count; i++)
        CHECK_SAYS(sample(s, i, got, sizeof got, &error) &&
                       memcmp(got, (const char *)rows + (size_t)i * row, row) == 0,
                   "sample %lld: %s", (long long)i, error.text);
    weft_source_free(s);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

TEST(arrays_are_read_row_by_row_from_the_file) {
    const int32_t rows[] = {1, 2, 3, 4, 5, 6};
    bytes b = bytes_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2)}", rows, sizeof rows);
    gives(&b, NULL, 3, rows, 8);
    b = bytes_npy("{'descr': '<i4', 'fortran_order': True, 'shape': (3, 2)}", (int32_t[]){1, 3, 5, 2, 4, 6},
                  24);
    gives(&b, NULL, 3, rows, 8);
    b = bytes_npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2, 1)}", "\0\0\0\1\0\0\0\2", 8);
    gives(&b, NULL, 2, rows, 4);
    b = bytes_npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\7\1", 3);
    gives(&b, NULL, 3, "\0\1\1", 1);
    b = (bytes){"\0\0\x08\1\0\0\0\3abc", 11};
    gives(&b, NULL, 3, "abc", 1);
}

/* Of a file of 64 MiB only what was asked for is read, and only a row is held. */
TEST(large_files_are_not_held_in_memory) {
    faults f;
    weft_error error = {0};
    char row[64];
    faults_init(&f);
    bytes head = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1048576, 64)}", "", 0);
    size_t n = head.n + (64 << 20);
    char *file = calloc(n, 1);
    NEED(file != NULL);
    memcpy(file, head.data, head.n);
    file[n - 1] = 7;
    fake_put(&f, "large", file, n);
    free(file);
    weft_source *s = weft_source_open("large", NULL, &f.env, &error);
    CHECK_SAYS(s && s->count == 1048576 && sample(s, 1048575, row, sizeof row, &error) && row[63] == 7, "%s",
               error.text);
    CHECK_SAYS(f.peak < 100000, "%zu bytes were taken", f.peak);
    weft_source_free(s);
    faults_end(&f);
}

TEST(npz_members_are_the_arrays_of_a_sample) {
    const float x[] = {1, 2, 3, 4, 5, 6};
    const int64_t y[] = {7, 8, 9};
    char rows[3][16];
    for (int i = 0; i < 3; i++) memcpy(rows[i], x + 2 * i, 8), memcpy(rows[i] + 8, y + i, 8);
    for (int how = 0; how < 8; how++) {
        zip z = {.is_64 = how & 4};
        bytes a = bytes_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", x, sizeof x);
        bytes b = bytes_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3,)}", y, sizeof y);
        zip_add(&z, "x.npy", &a, how & 1);
        zip_add(&z, "y.npy", &b, how & 2);
        zip_end(&z, how & 1 ? "a comment" : "");
        gives(&z.file, NULL, 3, rows, 16);
        gives(&z.file, &(weft_source_options){.form = "npz", .members = "y"}, 3, y, 8);
    }
}

/* ---- windows ---- */

TEST(rows_may_be_of_types_that_only_hold_data) {
    bytes b = bytes_npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}", (uint16_t[]){60000, 7}, 4);
    gives(&b, NULL, 2, (uint16_t[]){60000, 7}, 2);
    gives(&b, &(weft_source_options){.dtype = "i32"}, 2, (int32_t[]){60000, 7}, 4);
    b = bytes_npy("{'descr': '>u4', 'fortran_order': False, 'shape': (1,)}", "\xff\0\0\1", 4);
    gives(&b, NULL, 1, (uint32_t[]){0xff000001}, 4);
    gives(&b, &(weft_source_options){.dtype = "i64"}, 1, (int64_t[]){0xff000001}, 8);
    b = bytes_npy("{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}", (int8_t[]){-3}, 1);
    gives(&b, NULL, 1, (int8_t[]){-3}, 1);
    gives(&b, &(weft_source_options){.dtype = "f32"}, 1, (float[]){-3}, 4);
}

TEST(tokens_are_cut_into_windows) {
    const uint16_t ids[] = {1, 2, 3, 4, 5, 60000, 7};
    const int64_t windows[] = {1, 2, 3, 4, 5, 60000}, pairs[] = {1, 2, 2, 3, 3, 4, 4, 5, 5, 60000, 60000, 7};
    bytes b = {.n = 0};
    bytes_add(&b, ids, sizeof ids);
    gives(&b, &(weft_source_options){.form = "tokens", .window = 3}, 2, windows, 24);
    gives(&b, &(weft_source_options){.form = "tokens", .window = 2, .pairs = true}, 3, pairs, 32);
    b = bytes_npy("{'descr': '<u2', 'fortran_order': False, 'shape': (7,)}", ids, sizeof ids);
    gives(&b, &(weft_source_options){.window = 3}, 2, windows, 24);
    b = bytes_npy("{'descr': '>u4', 'fortran_order': False, 'shape': (2,)}", "\xff\0\0\1\0\0\0\2", 8);
    gives(&b, &(weft_source_options){.window = 2}, 1, (int64_t[]){0xff000001, 2}, 16);
    b = bytes_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", (int32_t[]){-1, 2}, 8);
    gives(&b, &(weft_source_options){.window = 1}, 2, (int64_t[]){-1, 2}, 8);
    b = (bytes){.n = 0};
    bytes_add(&b, (uint32_t[]){70000, 2}, 8);
    gives(&b, &(weft_source_options){.form = "tokens", .window = 2, .token_bytes = 4}, 1,
          (int64_t[]){70000, 2}, 16);
}

/* Two bytes of tokens say nothing of the file: only a name in .gz says gzip. */
TEST(tokens_may_begin_as_gzip_does) {
    faults f;
    weft_error error = {0};
    int64_t got[2];
    faults_init(&f);
    fake_put(&f, "x.bin", "\x1f\x8b\2\0", 4);
    weft_source *s = weft_source_open_text("x.bin:window=2", &f.env, &error);
    CHECK_SAYS(s && sample(s, 0, got, sizeof got, &error) && got[0] == 0x8b1f && got[1] == 2, "%s",
               error.text);
    weft_source_free(s);
    fake_put(&f, "x.txt", "\x1f\x8b", 2);
    s = weft_source_open_text("x.txt:window=2,dtype=u8", &f.env, &error);
    CHECK_SAYS(s && sample(s, 0, got, sizeof got, &error), "%s", error.text);
    weft_source_free(s);
    faults_end(&f);
}

/* Windows longer than the buffer that elements pass through, from every width to every type. */
TEST(long_windows_are_converted) {
    enum { N = 1500 };
    static int64_t wide[N];
    static int32_t narrow[N];
    faults f;
    weft_error error = {0};
    faults_init(&f);
    for (int i = 0; i < N; i++) wide[i] = narrow[i] = i * 31;
    fake_put(&f, "x.bin", narrow, sizeof narrow);
    weft_source *s = weft_source_open_text("x.bin:window=1500,token_bytes=4,dtype=i32", &f.env, &error);
    int32_t *got = test_memory(sizeof wide);
    CHECK(s && !s->read(s->context, 0, (void *[]){got}, &error) && memcmp(got, narrow, sizeof narrow) == 0);
    weft_source_free(s);
    s = weft_source_open_text("x.bin:window=1500,token_bytes=4", &f.env, &error);
    CHECK(s && !s->read(s->context, 0, (void *[]){got}, &error) && memcmp(got, wide, sizeof wide) == 0);
    weft_source_free(s);
    bytes b = bytes_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1500,)}", wide, sizeof wide);
    fake_put(&f, "x", b.data, b.n);
    s = weft_source_open_text("x:window=1500,dtype=i32", &f.env, &error);
    CHECK(s && !s->read(s->context, 0, (void *[]){got}, &error) && memcmp(got, narrow, sizeof narrow) == 0);
    weft_source_free(s);
    fake_put(&f, "x.bin", "\1\0\0\0\0\0\0\xff", 8);
    s = weft_source_open_text("x.bin:window=2,token_bytes=4,dtype=i32", &f.env, &error);
    CHECK(s && s->read(s->context, 0, (void *[]){got}, &error) == WEFT_DATA);
    CHECK_HOLDS(error.text, "x.bin: sample 0 has 4278190080, which i32 does not hold");
    weft_source_free(s);
    free(got);
    faults_end(&f);
}

TEST(text_is_cut_into_windows_of_bytes) {
    bytes b = {"abcdef", 6};
    gives(&b, &(weft_source_options){.form = "text", .window = 4, .stride = 1, .dtype = "u8"}, 3,
          "abcdbcdecdef", 4);
    gives(&b, &(weft_source_options){.form = "text", .window = 2, .dtype = "u8"}, 3, "abcdef", 2);
    gives(&b, &(weft_source_options){.form = "text", .window = 3, .pairs = true}, 1,
          (int64_t[]){'a', 'b', 'c', 'b', 'c', 'd'}, 48);
}

/* ---- what is refused ---- */

static void refused(const bytes *b, const char *name, const weft_source_options *o, const char *part) {
    faults f;
    weft_error error = {0};
    faults_init(&f);
    weft_source *s = open_bytes(&f, name, b, o, &error);
    CHECK_SAYS(!s && strstr(error.text, part), "wanted \"%s\", got \"%s\"", part, error.text);
    weft_source_free(s);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

TEST(options_that_make_no_sense_are_told) {
    bytes b = {"abcdefg", 7};
    refused(&b, "x", NULL, "no form of data is recognized");
    refused(&b, "x", &(weft_source_options){.form = "csv"}, "form=csv: it must be npy, idx, npz, images, ");
    refused(&b, "x.txt", NULL, "window=N");
    refused(&b, "x.txt", &(weft_source_options){.window = -1}, "window=-1: it must be a whole number from 1");
    refused(&b, "x.txt", &(weft_source_options){.window = 2, .stride = -1},
            "stride=-1: it must be a whole number from 1");
    refused(&b, "x.txt", &(weft_source_options){.window = 8}, "7 elements are less than the 8");
    refused(&b, "x.txt", &(weft_source_options){.window = 7, .pairs = true},
            "7 elements are less than the 8");
    refused(&b, "x.txt", &(weft_source_options){.window = 2, .height = 3}, "height has no effect on text");
    refused(&b, "x.txt", &(weft_source_options){.window = 2, .members = "x"},
            "members has no effect on text");
    refused(&b, "x.txt", &(weft_source_options){.window = 2, .token_bytes = 4}, "token_bytes has no effect");
    b.n = 6;
    refused(&b, "x.bin", &(weft_source_options){.window = 2, .dtype = "u8"}, "do not fit into u8");
    b.n = 7;
    refused(&b, "x.txt", &(weft_source_options){.window = 2, .dtype = "f32"}, "dtype=f32: i64, i32 or u8");
    refused(&b, "x.bin", &(weft_source_options){.window = 2}, "not a whole number of tokens of 2 bytes");
    refused(&b, "x.bin", &(weft_source_options){.window = 2, .token_bytes = 3}, "token_bytes=3");
    b = bytes_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "abcd", 4);
    refused(&b, "x", &(weft_source_options){.window = 1}, "tokens are one row of integers");
    refused(&b, "x", &(weft_source_options){.form = "npz"}, "no .npz");
    b = bytes_npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd", 4);
    refused(&b, "x", NULL, "one number has no samples");
    b = bytes_npy("{'descr': '<u8', 'fortran_order': False, 'shape': (2,)}", "abcdefghijklmnop", 16);
    refused(&b, "x", NULL, "are read, after");
}

TEST(archives_that_make_no_sense_are_told) {
    bytes three = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc", 3);
    bytes two = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "ab", 2);
    zip z = {.entries = 0};
    zip_add(&z, "x.npy", &three, false);
    zip_add(&z, "y.npy", &two, true);
    zip_end(&z, "");
    refused(&z.file, "x", NULL, "y has 2 samples, x has 3");
    refused(&z.file, "x", &(weft_source_options){.members = "x,z"}, "1 of the members 'x,z' are there");
    zip cut = z;
    cut.file.n -= 4;
    refused(&cut.file, "x", NULL, "it is cut off");
    zip empty = {.entries = 0};
    zip_end(&empty, "");
    refused(&empty.file, "x", NULL, "0 of the members");
    z.file.data[0] = 0, z.file.data[1] = 'K';
    refused(&z.file, "x", &(weft_source_options){.form = "npz"}, "local header is damaged");
}

/* A bit of the data that flips is no business of the .npy header: the sum has it, stored or deflated. */
TEST(damaged_members_are_told) {
    bytes data = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc", 3);
    for (int packs = 0; packs < 2; packs++) {
        zip z = {.entries = 0}, shorter = {.entries = 0};
        zip_add(&z, "x.npy", &data, packs);
        zip_end(&z, "");
        size_t begin = 30 + strlen("x.npy") + 4, end = begin + (z.file.data[18] | z.file.data[19] << 8);
        z.file.data[packs ? end - 1 : end - 2] ^= 4;
        refused(&z.file, "x", NULL, packs ? "x" : "zip: x is damaged: its CRC-32 is");
        zip_add(&shorter, "x.npy", &data, packs);
        shorter.directory.data[24]--; /* its length */
        if (!packs) shorter.directory.data[20]--;
        zip_end(&shorter, "");
        refused(&shorter.file, "x", NULL, packs ? "bytes follow the data" : "x is damaged");
    }
}

/* Options stand after the path, and are those of the structure. */
TEST(sources_open_from_text) {
    faults f;
    weft_error error = {0};
    int64_t got[8];
    faults_init(&f);
    fake_put(&f, "c:/a b.txt", "abcdef", 6);
    weft_source *s = weft_source_open_text("c:/a b.txt:window=3,stride=2,pairs=1", &f.env, &error);
    CHECK_SAYS(s && s->n == 2 && s->count == 2 && strcmp(s->arrays[1].name, "target") == 0, "%s", error.text);
    CHECK(s && sample(s, 1, got, sizeof got, &error) && got[0] == 'c' && got[5] == 'f');
    weft_source_free(s);
    const char *const wrong[][2] = {
        {"c:/a b.txt:window=3,strid=2", "there is no option 'strid': did you mean 'stride'?"},
        {"c:/a b.txt:window=x", "window=x: it must be a whole number from 1"},
        {"c:/a b.txt:window=", "window=: it must be a whole number"},
        {"c:/a b.txt:window=3,pairs=2", "pairs=2: it must be 0 or 1"},
        {"c:/a b.txt:window=3,pairs,stride", "stride has no value: it must be a whole number"},
        {"none.txt:window=3", "none.txt: cannot be opened"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!weft_source_open_text(wrong[i][0], &f.env, &error));
        CHECK_HOLDS(error.text, wrong[i][1]);
    }
    CHECK(!weft_source_open_text(NULL, NULL, &error) && !weft_source_open(NULL, NULL, NULL, NULL));
    weft_source_free(NULL);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* ---- every failing allocation and file call ---- */

static zip archive;

static weft_status read_one(faults *f, weft_error *error) {
    char got[64];
    weft_source *s = weft_source_open("x", NULL, &f->env, error);
    if (s) sample(s, 1, got, sizeof got, error);
    weft_source_free(s);
    return error->status;
}

static void nothing_is_left(faults *f) {
    CHECK(f->live == 0 && f->handles == 0);
}

TEST(failing_memory_and_files_are_errors) {
    faults f;
    faults_init(&f);
    bytes three = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc", 3);
    archive = (zip){.entries = 0};
    zip_add(&archive, "x.npy", &three, false);
    zip_add(&archive, "y.npy", &three, true);
    zip_end(&archive, "");
    fake_put(&f, "x", archive.file.data, archive.file.n);
    faults_inject(&f, true, read_one, nothing_is_left);
    faults_inject(&f, false, read_one, nothing_is_left);
    faults_end(&f);
}

/* ---- the loader's threads ---- */

enum { COUNT = 100, BAD = 57 };

/* Sample i is the number i; BAD cannot be read if the context says so. */
static weft_status count_up(void *context, int64_t i, void *const *into, weft_error *error) {
    if (context && i == BAD) return weft_error_set(error, WEFT_DATA, "sample 57 is bad");
    memcpy(into[0], &i, sizeof i);
    return WEFT_OK;
}

static weft_source counting(void *context) {
    return (weft_source){
        .count = COUNT, .n = 1, .arrays = {{"i", WEFT_I64, 0, {0}}}, .read = count_up, .context = context};
}

/* ---- names ---- */

TEST(the_nearest_of_some_names_is_found) {
    static const char *const names[] = {"d_step", "g_step", "val"};
    static const char *const rows[][2] = {
        {"d_stpe", "d_step"}, {"G-step", "g_step"}, {"vall", "val"}, {"photographs", NULL}, {"", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *near = NULL;
        for (int k = 0; k < 3; k++) near = weft_nearest(rows[i][0], near, names[k]);
        CHECK_TEXT(near ? near : "none", rows[i][1] ? rows[i][1] : "none");
    }
    CHECK(!weft_nearest(NULL, NULL, "val") && !weft_nearest("val", NULL, NULL));
}

/* ---- waits ---- */

enum { PAUSE_NS = 2000000 };

static weft_status read_slowly(void *context, int64_t i, void *const *into, weft_error *error) {
    test_nap(PAUSE_NS / 1000000);
    return count_up(context, i, into, error);
}

typedef struct waits {
    int n;
    uint64_t ns, last_ns;
    int64_t batch[8];
} waits;

static void note_wait(void *context, const weft_loader_event *e) {
    waits *w = context;
    CHECK(e->finished_ns >= e->began_ns && e->began_ns >= w->last_ns);
    w->ns += e->finished_ns - e->began_ns;
    w->last_ns = e->finished_ns;
    if (w->n < 8) w->batch[w->n] = e->batch;
    w->n++;
}

/* Without a thread all reading is waiting; with one at least the first batch's is. */
TEST(what_a_caller_waits_for_is_told) {
    for (int threads = 0; threads <= 1; threads++) {
        waits w = {0};
        weft_error error = {0};
        const void *data;
        int64_t rows;
        weft_source s = counting(NULL);
        s.read = read_slowly;
        weft_loader_options o = {.batch = 5, .ahead = threads ? 2 : -1, .threads = threads};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
        NEED(l != NULL);
        CHECK(weft_loader_waited(l) == 0);
        weft_loader_trace(l, note_wait, &w);
        for (int i = 0; i < 2; i++) CHECK(weft_loader_next(l, &data, &rows, &error));
        weft_loader_set_epoch(l, 1);
        CHECK(weft_loader_next(l, &data, &rows, &error));
        CHECK(w.n == 4 && w.batch[0] == 0 && w.batch[1] == 1 && w.batch[2] == -1 && w.batch[3] == 0);
        double all = weft_loader_waited(l), least = (threads ? 5 : 15) * 1e-9 * PAUSE_NS;
        CHECK_SAYS(all >= least && all - 1e-9 * (double)w.ns < 1e-9 && 1e-9 * (double)w.ns - all < 1e-9,
                   "%g s, at least %g; events say %g", all, least, 1e-9 * (double)w.ns);
        weft_loader_trace(l, NULL, NULL);
        CHECK(weft_loader_next(l, &data, &rows, &error) && w.n == 4 && weft_loader_waited(l) >= all);
        weft_loader_free(l);
    }
}

/* Two epochs in one order, whoever reads. */
TEST(batches_do_not_depend_on_who_reads_them) {
    weft_source s = counting(NULL);
    int64_t want[2][COUNT], got[2][COUNT];
    const int how[][2] = {{-1, 1}, {1, 1}, {2, 1}, {2, 4}, {7, 3}, {50, 8}};
    for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
        weft_error error = {0};
        weft_loader_options o = {
            .batch = 7, .shuffle = true, .seed = 5, .ahead = how[h][0], .threads = how[h][1]};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
        NEED(l != NULL);
        for (int e = 0; e < 2; e++) {
            const void *data;
            int64_t rows, at = 0;
            weft_loader_set_epoch(l, e);
            for (; weft_loader_next(l, &data, &rows, &error); at += rows)
                memcpy(got[e] + at, data, (size_t)rows * sizeof **got);
            CHECK_SAYS(at == COUNT && !error.status, "%s", error.text);
        }
        weft_loader_free(l);
        if (h == 0) memcpy(want, got, sizeof want);
        CHECK(memcmp(want, got, sizeof want) == 0);
    }
}

/* Jumps to any batch, within what was read ahead and outside, the same again, and from one epoch to
 * another. */
TEST(seeking_finds_every_batch) {
    weft_source s = counting(NULL);
    weft_error error = {0};
    test_random r = {test_seed(1)};
    for (int threads = 0; threads <= 4; threads++) {
        weft_loader_options o = {.batch = 10, .ahead = threads ? 3 : -1, .threads = threads};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
        NEED(l != NULL);
        for (int i = 0; i < test_count(2000, 300); i++) {
            const void *data = NULL;
            int64_t rows, batch = (int64_t)(random_bits(&r) % 10), first = -1;
            if (random_bits(&r) % 50 == 0) weft_loader_set_epoch(l, i);
            weft_loader_seek(l, batch);
            for (int again = 0; again <= (int)(random_bits(&r) % 3) && batch < 10; again++, batch++) {
                CHECK_SAYS(weft_loader_next(l, &data, &rows, &error) && rows == 10, "%s", error.text);
                memcpy(&first, data, sizeof first);
                CHECK(first == batch * 10);
            }
        }
        weft_loader_free(l);
    }
}

/* Counts how often samples are read: what the list leaves out is not. */
static weft_status count_reads(void *context, int64_t i, void *const *into, weft_error *error) {
    __atomic_fetch_add(&((int *)context)[i], 1, __ATOMIC_RELAXED);
    return count_up(NULL, i, into, error);
}

TEST(a_list_says_which_batches_come) {
    for (int threads = 0; threads <= 3; threads++) {
        int reads[COUNT] = {0}, all = 0;
        const int64_t list[] = {1, 3, 3, 5, 2}, want[] = {1, 3, 3, 5, 2, 3, 4};
        weft_error error = {0};
        const void *data;
        int64_t rows;
        weft_source s = counting(reads);
        s.read = count_reads;
        weft_loader_options o = {.batch = 10, .ahead = threads ? 2 : -1, .threads = threads};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
        NEED(l != NULL);
        CHECK(weft_loader_follow(l, 5, list, &error) == WEFT_OK);
        for (int i = 0; i < 7; i++) {
            CHECK_SAYS(weft_loader_next(l, &data, &rows, &error), "%s", error.text);
            CHECK(*(const int64_t *)data == 10 * want[i]);
        }
        CHECK(weft_loader_waited(l) >= 0 && (threads || weft_loader_waited(l) > 0));
        CHECK(weft_loader_follow(l, 2, (int64_t[]){9, 10}, &error) == WEFT_OK &&
              weft_loader_next(l, &data, &rows, &error));
        CHECK(!weft_loader_next(l, &data, &rows, &error) && !error.status); /* after the end */
        weft_loader_seek(l, 4);
        CHECK(weft_loader_next(l, &data, &rows, &error) && *(const int64_t *)data == 40);
        CHECK(weft_loader_follow(l, 0, list, &error) && weft_loader_follow(l, 1, (int64_t[]){-1}, &error));
        weft_loader_free(l);
        CHECK(reads[0] == 0 && reads[7] == 0 && reads[10] > 0);
        for (int i = 0; i < COUNT; i++) all += reads[i];
        CHECK_SAYS(all <= 150, "%d samples were read", all);
    }
}

TEST(a_reader_that_fails_gives_its_error_and_goes_on) {
    int bad = 1;
    weft_source s = counting(&bad);
    for (int ahead = -1; ahead <= 3; ahead += 2) {
        weft_error error = {0};
        const void *data;
        int64_t rows, batches = 0;
        weft_loader_options o = {.batch = 10, .ahead = ahead};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
        NEED(l != NULL);
        while (weft_loader_next(l, &data, &rows, &error)) batches++;
        CHECK(batches == 5 && error.status == WEFT_DATA);
        CHECK_HOLDS(error.text, "sample 57 is bad");
        CHECK(!weft_loader_next(l, &data, &rows, NULL)); /* still */
        weft_loader_seek(l, 10);
        CHECK(!weft_loader_next(l, &data, &rows, &error) && !error.status); /* the end is not an error */
        weft_loader_seek(l, 6);
        CHECK(weft_loader_next(l, &data, &rows, &error) && *(const int64_t *)data == 60);
        weft_loader_free(l); /* while it reads ahead */
    }
}

TEST(loaders_close_while_they_read) {
    weft_source s = counting(NULL);
    for (int i = 0; i < test_count(300, 50); i++) {
        const void *data;
        int64_t rows;
        weft_loader_options o = {.batch = 2, .ahead = 1 + i % 5, .threads = 1 + i % 3};
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, NULL);
        for (int k = 0; k < i % 4; k++) CHECK(weft_loader_next(l, &data, &rows, NULL));
        if (i % 2) weft_loader_set_epoch(l, i);
        weft_loader_free(l);
    }
}

static void every_third(void *context, int64_t epoch, int64_t *order, int64_t n) {
    for (int64_t i = 0; i < n; i++) order[i] = 3 * i + epoch + (context ? 1000 : 0);
}

TEST(samplers_give_any_order) {
    weft_source s = counting(NULL);
    weft_error error = {0};
    const void *data;
    int64_t rows;
    weft_loader_options o = {.batch = 4, .sampler = every_third, .sampler_count = 10};
    weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
    NEED(l != NULL);
    CHECK(weft_loader_batches(l) == 3 && weft_loader_next(l, &data, &rows, &error));
    CHECK(memcmp(data, (int64_t[]){0, 3, 6, 9}, 32) == 0);
    weft_loader_set_epoch(l, 2);
    CHECK(weft_loader_next(l, &data, &rows, &error) && memcmp(data, (int64_t[]){2, 5, 8, 11}, 32) == 0);
    weft_loader_free(l);
    o.sampler_context = &o;
    l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
    CHECK(!weft_loader_next(l, &data, &rows, &error));
    CHECK_HOLDS(error.text, "the sampler names sample 1000, there are 100");
    weft_loader_free(l);
}

/* Rank r of w takes samples r, r + w ...; all ranks together take each once. */
TEST(ranks_share_samples_of_one_order) {
    weft_source s = counting(NULL);
    for (int w = 1; w <= 7; w++) {
        int seen[COUNT] = {0};
        int64_t all = 0;
        for (int r = 0; r < w; r++) {
            weft_error error = {0};
            const void *data;
            int64_t rows, own = 0;
            weft_loader_options o = {.batch = 8, .by_sample = true, .rank = r, .num_replicas = w};
            weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
            NEED(l != NULL);
            while (weft_loader_next(l, &data, &rows, &error))
                for (int64_t i = 0; i < rows; i++, own++, all++) {
                    int64_t v = ((const int64_t *)data)[i];
                    CHECK(v == own * w + r && !seen[v]++);
                }
            weft_loader_free(l);
        }
        CHECK(all == COUNT);
    }
}

/* Without a batch for each rank there would be nothing to train on, and nobody would say so. */
TEST(ranks_that_would_get_no_batch_are_told) {
    weft_source s = counting(NULL);
    for (int by_sample = 0; by_sample < 2; by_sample++)
        for (int64_t batch = 33; batch < 35; batch++) {
            weft_error error = {0};
            weft_loader_options o = {
                .batch = batch, .drop_last = true, .by_sample = by_sample, .num_replicas = 3};
            weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
            CHECK((batch == 33) == (weft_loader_batches(l) == 1));
            CHECK_TEXT(error.text, batch == 33
                                       ? ""
                                       : "loader: 100 samples make no whole batch of 34 for each of 3 ranks: "
                                         "leave drop_last out, or make the batch smaller");
            weft_loader_free(l);
        }
}

/* With drop_last by_sample deals what PyTorch's DistributedSampler(range(100), 3, r, shuffle=False,
 * drop_last=True) deals; without it nothing is repeated. */
TEST(samples_are_dealt_as_by_the_distributed_sampler) {
    weft_source s = counting(NULL);
    for (int r = 0; r < 3; r++)
        for (int drop = 0; drop < 2; drop++) {
            weft_error error = {0};
            const void *data;
            int64_t rows, n = 0, last = -1;
            weft_loader_options o = {
                .batch = 11, .drop_last = drop, .by_sample = true, .rank = r, .num_replicas = 3};
            weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
            NEED(l != NULL);
            for (; weft_loader_next(l, &data, &rows, &error); n += rows)
                last = ((const int64_t *)data)[rows - 1];
            CHECK_SAYS(n == (!drop && r == 0 ? 34 : 33) && last == (!drop && r == 0 ? 99 : 96 + r),
                       "rank %d: %lld samples, the last is %lld", r, (long long)n, (long long)last);
            weft_loader_free(l);
        }
}

/* A sample has its draws in an epoch, whoever deals it, and others in the next; all together are uniform. */
TEST(draws_depend_on_seed_epoch_and_sample_alone) {
    enum { DRAWS = 3, EPOCHS = 30 };
    static float want[EPOCHS][COUNT][DRAWS], *at;
    weft_source s = counting(NULL);
    double sum = 0, squares = 0;
    for (int w = 1; w <= 3; w++)
        for (int r = 0; r < w; r++) {
            weft_error error = {0};
            const void *data[2];
            int64_t rows;
            weft_loader_options o = {
                .batch = 3 + w, .shuffle = w > 1, .seed = 9, .draws = DRAWS, .rank = r, .num_replicas = w};
            weft_loader *l = weft_loader_new(1, (const weft_source *[]){&s}, &o, NULL, &error);
            NEED(l != NULL);
            CHECK_TEXT(weft_loader_array(l, 1)->name, "draws");
            CHECK(!weft_loader_array(l, 2));
            for (int64_t e = 0; e < EPOCHS; e++) {
                weft_loader_set_epoch(l, e);
                while (weft_loader_next(l, data, &rows, &error))
                    for (int64_t i = 0; i < rows; i++) {
                        at = want[e][((const int64_t *)data[0])[i]];
                        if (w == 1) memcpy(at, (const float *)data[1] + i * DRAWS, DRAWS * sizeof *at);
                        CHECK(memcmp(at, (const float *)data[1] + i * DRAWS, DRAWS * sizeof *at) == 0);
                    }
            }
            weft_loader_free(l);
        }
    at = want[0][0];
    for (int i = 0; i < EPOCHS * COUNT * DRAWS; i++) {
        CHECK(at[i] >= 0 && at[i] < 1);
        sum += at[i], squares += at[i] * at[i];
    }
    double n = EPOCHS * COUNT * DRAWS; /* means within four deviations of 1/2 and 1/3 */
    CHECK_SAYS(fabs(sum / n - 0.5) < 4 * 0.289 / sqrt(n) && fabs(squares / n - 1.0 / 3) < 4 * 0.298 / sqrt(n),
               "means %g and %g", sum / n, squares / n);
    CHECK(memcmp(want[0], want[1], sizeof want[0]) != 0);
}

TEST(sources_that_make_no_sense_are_told) {
    weft_error error = {0};
    weft_loader_options o = {.batch = 4};
    weft_source good = counting(NULL), bad[6] = {good, good, good, good, good, good};
    bad[0].count = 0;
    bad[1].n = 17;
    bad[2].read = NULL;
    bad[3].arrays[0].dtype = (weft_dtype)99;
    bad[4].arrays[0].ndim = 8;
    bad[5].arrays[0].ndim = 1; /* of length 0 */
    for (int i = 0; i < 6; i++) {
        CHECK(!weft_loader_new(1, (const weft_source *[]){&bad[i]}, &o, NULL, &error));
        CHECK_HOLDS(error.text, i < 3 ? "at least one sample" : "a known type");
    }
    CHECK(!weft_loader_next(NULL, NULL, NULL, &error) && error.status == WEFT_ARGUMENT);
}

SUITE("sources", {T(arrays_are_read_row_by_row_from_the_file),
                  T(large_files_are_not_held_in_memory),
                  T(npz_members_are_the_arrays_of_a_sample),
                  T(rows_may_be_of_types_that_only_hold_data),
                  T(tokens_are_cut_into_windows),
                  T(tokens_may_begin_as_gzip_does),
                  T(long_windows_are_converted),
                  T(text_is_cut_into_windows_of_bytes),
                  T(options_that_make_no_sense_are_told),
                  T(archives_that_make_no_sense_are_told),
                  T(damaged_members_are_told),
                  T(sources_open_from_text),
                  T(failing_memory_and_files_are_errors),
                  T(the_nearest_of_some_names_is_found),
                  T(what_a_caller_waits_for_is_told),
                  T(batches_do_not_depend_on_who_reads_them),
                  T(seeking_finds_every_batch),
                  T(a_list_says_which_batches_come),
                  T(a_reader_that_fails_gives_its_error_and_goes_on),
                  T(loaders_close_while_they_read),
                  T(samplers_give_any_order),
                  T(ranks_share_samples_of_one_order),
                  T(ranks_that_would_get_no_batch_are_told),
                  T(samples_are_dealt_as_by_the_distributed_sampler),
                  T(draws_depend_on_seed_epoch_and_sample_alone),
                  T(sources_that_make_no_sense_are_told)})
