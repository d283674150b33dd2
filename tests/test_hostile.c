/* test_hostile.c - 2,000 seeded mutations of a good file of each format: flipped bits, cuts, insertions,
 * edited numbers, moved words. Loading returns a value or a clean error; nothing crashes (also run under the
 * sanitizers), leaks, or allocates memory that the file's length does not justify. What still loads is
 * compiled, and its text reads back, as a mutant may be valid by chance. */
#include "runtime/store/safetensors.h"
#include "support/archive.h"
#include "support/example.h"
#include "support/faults.h"
#include "support/seal.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MEMORY_CAP = 64 << 20 };

/* ---- mutations ---- */

typedef struct mutant {
    unsigned char *data;
    size_t n, room;
} mutant;

static size_t below(test_random *r, size_t n) {
    return n ? (size_t)(random_bits(r) % n) : 0;
}

static void flip(mutant *m, test_random *r) {
    if (m->n) m->data[below(r, m->n)] ^= (unsigned char)(1u << below(r, 8));
}

static void cut(mutant *m, test_random *r) {
    m->n = below(r, m->n + 1);
}

/* Doubles, repeats or drops a stretch: duplicate entries, missing ones. */
static void stretch(mutant *m, test_random *r) {
    size_t at = below(r, m->n), n = below(r, m->n - at < 200 ? m->n - at : 200);
    if (random_bits(r) & 1) {
        memmove(m->data + at, m->data + at + n, m->n - at - n);
        m->n -= n;
    } else if (m->n + n <= m->room) {
        memmove(m->data + at + n, m->data + at, m->n - at);
        m->n += n;
    }
}

static void insert(mutant *m, test_random *r) {
    size_t at = below(r, m->n + 1), n = 1 + below(r, 8);
    if (m->n + n > m->room) return;
    memmove(m->data + at + n, m->data + at, m->n - at);
    for (size_t i = 0; i < n; i++) m->data[at + i] = (unsigned char)random_bits(r);
    m->n += n;
}

/* Numbers that programs trip over, in the file's own digits or as bytes. */
static void number(mutant *m, test_random *r) {
    static const char *const digits[] = {"0",
                                         "1",
                                         "-1",
                                         "9",
                                         "127",
                                         "128",
                                         "255",
                                         "2147483647",
                                         "4294967296",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "99999999999999999999"};
    size_t at = below(r, m->n), end = at;
    for (size_t i = 0; i < m->n && !(m->data[at] >= '0' && m->data[at] <= '9'); i++) at = (at + 1) % m->n;
    for (end = at; end < m->n && m->data[end] >= '0' && m->data[end] <= '9';) end++;
    const char *with = digits[below(r, sizeof digits / sizeof *digits)];
    size_t n = strlen(with);
    if (end == at || m->n + n > m->room) return;
    memmove(m->data + at + n, m->data + end, m->n - end);
    memcpy(m->data + at, with, n);
    m->n = m->n - (end - at) + n;
}

static void bytes_of_number(mutant *m, test_random *r) {
    static const uint64_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, UINT64_MAX, INT64_MAX};
    uint64_t v = values[below(r, sizeof values / sizeof *values)];
    size_t width = (size_t)1 << below(r, 4);
    if (m->n < width) return;
    memcpy(m->data + below(r, m->n - width + 1), &v, width);
}

/* A word copied in front of another: in texts what belongs to one line comes into another. */
static void graft(mutant *m, test_random *r) {
    size_t from = below(r, m->n), to = below(r, m->n), n = 1;
    while (from < m->n && m->data[from] != ' ') from++;
    while (to < m->n && m->data[to] != ' ') to++;
    while (from + n < m->n && m->data[from + n] > ' ') n++;
    unsigned char word[200];
    if (from + n > m->n || n > sizeof word || m->n + n > m->room) return;
    memcpy(word, m->data + from, n);
    memmove(m->data + to + n, m->data + to, m->n - to);
    memcpy(m->data + to, word, n);
    m->n += n;
}

static void mutate(mutant *m, const void *good, size_t n, test_random *r) {
    static void (*const ways[])(mutant *, test_random *) = {
        flip, flip, cut, stretch, insert, number, number, bytes_of_number, graft, graft};
    memcpy(m->data, good, n);
    m->n = n;
    for (size_t i = 1 + below(r, 3); i > 0 && m->n; i--) ways[below(r, sizeof ways / sizeof *ways)](m, r);
}

/* ---- formats: each tries one mutant and says how it went ---- */

typedef struct subject {
    faults *f;
    const char *name;
    uint64_t seed;
    weft_error error;
    bool good; /* it was accepted */
} subject;

/* Whatever was accepted has a text that reads back to the letter. */
static void check_back(const subject *s, const weft_model *m) {
    weft_error error = {0};
    char *text = weft_model_text(m);
    weft_model *back = weft_model_parse(text, "back", NULL, &error);
    char *again = back ? weft_model_text(back) : NULL;
    CHECK_SAYS(again && strcmp(text, again) == 0, "%s, seed %llu: its text does not read back: %s", s->name,
               (unsigned long long)s->seed, error.text);
    free(again);
    weft_model_free(back);
    free(text);
}

static void use_model(subject *s, weft_model *m) {
    weft_error error;
    s->good = m != NULL;
    if (!m) return;
    check_back(s, m);
    weft_plan_free(weft_compile(m, &(weft_compile_options){.threads = 1, .isa = WEFT_ISA_REFERENCE}, &error));
    weft_model_free(m);
}

static void try_model(subject *s) {
    use_model(s, weft_load("x", &s->f->env, &s->error));
}

static void try_text(subject *s) {
    const fake_file *file = fake_get(s->f, "x");
    char *string = test_memory(file->bytes + 1);
    memcpy(string, file->data, file->bytes);
    use_model(s, weft_model_parse(string, "x", &s->f->env, &s->error));
    free(string);
}

static void try_safetensors(subject *s) {
    safetensors file;
    s->good = safetensors_open(&file, "x", &s->f->env, &s->error) == WEFT_OK;
    for (int i = 0; s->good && i < file.n; i++) {
        size_t bytes = (size_t)(file.tensors[i].end - file.tensors[i].begin);
        void *data = test_memory(bytes);
        CHECK(safetensors_read(&file, &file.tensors[i], data, NULL) == WEFT_OK);
        free(data);
    }
    if (s->good) safetensors_close(&file);
}

static void load_array(subject *s, const char *name) {
    weft_array *a = weft_array_load(name, &s->f->env, &s->error);
    int64_t shape[WEFT_MAX_NDIM];
    s->good = a != NULL;
    int ndim = weft_array_shape(a, shape);
    size_t elements = a != NULL;
    for (int i = 0; i < ndim; i++) elements *= (size_t)shape[i];
    const unsigned char *data = weft_array_data(a);
    unsigned sum = 0; /* every byte is there to be read */
    for (size_t i = 0; i < elements; i++) sum += data[i];
    CHECK(sum < UINT32_MAX);
    weft_array_free(a);
}

static void try_array(subject *s) {
    load_array(s, "x");
}

/* The name says that it is packed. */
static void try_packed(subject *s) {
    const fake_file *file = fake_get(s->f, "x");
    fake_put(s->f, "x.gz", file->data, file->bytes);
    load_array(s, "x.gz");
}

static void attack(const char *name, void (*act)(subject *s), const void *good, size_t n) {
    faults f;
    faults_init(&f);
    f.cap = MEMORY_CAP;
    mutant m = {.room = 2 * n + 1024};
    m.data = test_memory(m.room);
    int accepted = 0;
    uint64_t first = test_seed(1);
    int mutations = test_count(2000, 2000);
    for (int i = 0; i <= mutations; i++) {
        uint64_t seed = i ? first + (uint64_t)i - 1 : 0; /* 0: the good file itself */
        test_random r = {seed};
        subject s = {.f = &f, .name = name, .seed = seed};
        test_case_begin();
        if (seed)
            mutate(&m, good, n, &r);
        else
            memcpy(m.data, good, m.n = n);
        fake_put(&f, "x", m.data, m.n);
        act(&s);
        accepted += s.good;
        bool clean =
            s.good || (s.error.status != WEFT_OK && s.error.status != WEFT_INTERNAL && *s.error.text);
        CHECK_SAYS(s.good || seed, "%s: the good file is refused: %s", name, s.error.text);
        CHECK_SAYS(clean && memchr(s.error.text, 0, sizeof s.error.text), "%s, seed %llu: status %d, \"%s\"",
                   name, (unsigned long long)seed, s.error.status, s.error.text);
        CHECK_SAYS(s.error.status != WEFT_MEMORY, "%s, seed %llu: took more than the cap: %s", name,
                   (unsigned long long)seed, s.error.text);
        CHECK_SAYS(f.live == 0 && f.handles == 0, "%s, seed %llu: %zu bytes, %ld files are left", name,
                   (unsigned long long)seed, f.live, f.handles);
        test_case_end(false);
    }
    CHECK_SAYS(accepted < mutations / 2, "%s: %d of %d mutants were accepted", name, accepted, mutations);
    free(m.data);
    faults_end(&f);
}

/* ---- the good files ---- */

TEST(model_files_survive_mutation) {
    faults f;
    faults_init(&f);
    weft_model *m = example_model(&f.env);
    CHECK(weft_save(m, "x", NULL) == WEFT_OK);
    weft_model_free(m);
    const fake_file *file = fake_get(&f, "x");
    if (file) attack("model.bin", try_model, file->data, file->bytes);
    unseal_fake(&f, "x"); /* what the checksum protects */
    if ((file = fake_get(&f, "x"))) attack("model.bin, version 1", try_model, file->data, file->bytes);
    faults_end(&f);
}

TEST(model_texts_survive_mutation) {
    weft_model *m = example_model(NULL);
    char *string = weft_model_text(m);
    weft_model_free(m);
    attack("text", try_text, string, strlen(string));
    free(string);
}

/* Layouts, places, fused bodies, buckets, shards: what only compiling makes. */
static void attack_plan(const char *name, const weft_compile_options *options) {
    weft_error error = {0};
    weft_model *m = example_model(NULL);
    weft_plan *plan = weft_compile(m, options, &error);
    char *string = weft_plan_text(plan);
    CHECK_SAYS(string != NULL, "%s", error.text);
    if (string) attack(name, try_text, string, strlen(string));
    free(string);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(plan_texts_survive_mutation) {
    attack_plan("plan", &(weft_compile_options){.threads = 1, .graph = "g_step"});
    attack_plan("plan of a rank",
                &(weft_compile_options){
                    .threads = 1, .graph = "g_step", .world = 4, .zero = 2, .stop_after = "optimizer"});
}

static weft_status fill(void *context, int index, uint64_t at, void *into, size_t bytes, weft_error *error) {
    (void)context;
    (void)at;
    (void)error;
    memset(into, index, bytes);
    return WEFT_OK;
}

TEST(safetensors_survive_mutation) {
    faults f;
    faults_init(&f);
    safetensors_tensor list[] = {{.name = "generator.fc.weight", .type = {WEFT_F32, 2, {3, 4}}},
                                 {.name = "generator.fc.bias", .type = {WEFT_F32, 1, {3}}},
                                 {.name = "step", .type = {WEFT_I64, 0, {0}}},
                                 {.name = "half", .type = {WEFT_BF16, 4, {1, 2, 3, 4}}}};
    CHECK(safetensors_write("x", &f.env, 4, list, fill, NULL, NULL) == WEFT_OK);
    const fake_file *file = fake_get(&f, "x");
    if (file) attack("safetensors", try_safetensors, file->data, file->bytes);
    faults_end(&f);
}

/* In the header the data are few bytes, so that most mutations meet a rule. */
static const char npy[] =
    "\x93NUMPY\1\0\x45\0{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }          \n"
    "abcdefghijklmnopqrstuvwx";
static const char idx[] = "\0\0\x0c\x02\0\0\0\x02\0\0\0\x03"
                          "abcdefghijklmnopqrstuvwx";

static size_t gzip(const void *plain, size_t n, unsigned char *into, size_t room) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)plain;
    z.avail_in = (uInt)n;
    z.next_out = into;
    z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

TEST(npy_files_survive_mutation) {
    unsigned char packed[500];
    attack("npy", try_array, npy, sizeof npy - 1);
    attack("npy.gz", try_packed, packed, gzip(npy, sizeof npy - 1, packed, sizeof packed));
}

/* Every byte of every sample is there to be read, or reading it is an error. */
static void read_all(subject *s, const weft_source *source) {
    unsigned char *into[WEFT_SOURCE_ARRAYS] = {0};
    for (int k = 0; k < source->n; k++) {
        size_t n = weft_dtype_bytes(source->arrays[k].dtype);
        for (int d = 0; d < source->arrays[k].ndim; d++) n *= (size_t)source->arrays[k].shape[d];
        into[k] = test_memory(n);
    }
    for (int64_t i = 0; s->good && i < source->count; i++)
        s->good = source->read(source->context, i, (void *const *)into, &s->error) == WEFT_OK;
    for (int k = 0; k < source->n; k++) free(into[k]);
}

static void try_form(subject *s, const weft_source_options *options) {
    weft_source *source = weft_source_open("x", options, &s->f->env, &s->error);
    s->good = source != NULL;
    if (source) read_all(s, source);
    weft_source_free(source);
}

static void try_npz(subject *s) {
    try_form(s, &(weft_source_options){.form = "npz"});
}

static void try_rows(subject *s) {
    try_form(s, &(weft_source_options){.form = "npy"});
}

static void try_tokens(subject *s) {
    try_form(s, &(weft_source_options){.form = "tokens", .window = 2, .pairs = true});
}

TEST(npz_files_survive_mutation) {
    bytes x = bytes_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2)}", "abcdefghijklmnop", 16);
    bytes y = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "ab", 2);
    for (int how = 0; how < 2; how++) {
        zip z = {.is_64 = how};
        zip_add(&z, "x.npy", &x, false);
        zip_add(&z, "y.npy", &y, true);
        zip_end(&z, "");
        attack(how ? "npz of zip64" : "npz", try_npz, z.file.data, z.file.n);
    }
}

TEST(arrays_that_are_read_by_rows_survive_mutation) {
    bytes rows =
        bytes_npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2, 2)}", "abcdefghijklmnop", 16);
    attack("rows of npy", try_rows, rows.data, rows.n);
    rows = bytes_npy("{'descr': '<u2', 'fortran_order': False, 'shape': (5,)}", "abcdefghij", 10);
    attack("tokens of npy", try_tokens, rows.data, rows.n);
}

TEST(idx_files_survive_mutation) {
    unsigned char packed[500];
    attack("idx", try_array, idx, sizeof idx - 1);
    attack("idx.gz", try_packed, packed, gzip(idx, sizeof idx - 1, packed, sizeof packed));
}

SUITE("hostile",
      {T(model_files_survive_mutation), T(model_texts_survive_mutation), T(plan_texts_survive_mutation),
       T(safetensors_survive_mutation), T(npy_files_survive_mutation), T(npz_files_survive_mutation),
       T(arrays_that_are_read_by_rows_survive_mutation), T(idx_files_survive_mutation)})
