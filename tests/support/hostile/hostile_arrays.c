/* hostile_arrays.c - arrays and archives of data, and weights. */
#include "runtime/store/safetensors.h"
#include "support/hostile/archive.h"
#include "support/hostile/hostile.h"
#include "weft/weft.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- safetensors ---- */

static weft_status fill(void *context, int index, uint64_t at, void *into, size_t bytes, weft_error *error) {
    (void)context;
    (void)at;
    (void)error;
    memset(into, index, bytes);
    return WEFT_OK;
}

static void make_safetensors(hostile *h) {
    safetensors_tensor list[] = {{.name = "generator.fc.weight", .type = {WEFT_F32, 2, {3, 4}}},
                                 {.name = "generator.fc.bias", .type = {WEFT_F32, 1, {3}}},
                                 {.name = "step", .type = {WEFT_I64, 0, {0}}},
                                 {.name = "half", .type = {WEFT_BF16, 4, {1, 2, 3, 4}}}};
    safetensors_write("good", &h->f.env, 4, list, fill, NULL, NULL);
    const fake_file *file = fake_get(&h->f, "good");
    if (file) hostile_put(h, file->data, file->bytes);
}

/* The header's length, for as many bytes of data as the good file has. */
static void mend_safetensors(mutant *m, const mutant *good) {
    uint64_t header, data;
    memcpy(&header, good->data, sizeof header);
    data = good->n - sizeof header - header;
    if (m->n < data + sizeof header) return;
    header = m->n - data - sizeof header;
    memcpy(m->data, &header, sizeof header);
}

static void try_safetensors(subject *s) {
    safetensors file;
    s->good = safetensors_open(&file, HOSTILE_FILE, &s->f->env, &s->error) == WEFT_OK;
    for (int i = 0; s->good && i < file.n; i++) {
        size_t bytes = (size_t)(file.tensors[i].end - file.tensors[i].begin);
        void *data = test_memory(bytes);
        if (safetensors_read(&file, &file.tensors[i], data, NULL))
            hostile_complain(s, "%s cannot be read", file.tensors[i].name);
        free(data);
    }
    if (s->good) safetensors_close(&file);
}

/* ---- arrays ---- */

/* The data are few bytes, so that most changes meet a rule. */
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

enum { NPY, IDX };
static const struct {
    const char *data;
    size_t n;
} arrays[] = {{npy, sizeof npy - 1}, {idx, sizeof idx - 1}};

static void make_array(hostile *h) {
    hostile_put(h, arrays[h->format->variant].data, arrays[h->format->variant].n);
}

static void make_packed(hostile *h) {
    unsigned char packed[500];
    size_t n = gzip(arrays[h->format->variant].data, arrays[h->format->variant].n, packed, sizeof packed);
    hostile_put(h, packed, n);
}

/* The length of the header, for as many bytes of data as the good file has. */
static void mend_npy(mutant *m, const mutant *good) {
    enum { HEADER_AT = 10 };
    size_t data = good->n - HEADER_AT - (good->data[8] | good->data[9] << 8);
    if (m->n < data + HEADER_AT) return;
    size_t header = m->n - data - HEADER_AT;
    memcpy(m->data, "\x93NUMPY\1\0", 8);
    m->data[8] = (unsigned char)header;
    m->data[9] = (unsigned char)(header >> 8);
}

static void load_array(subject *s, const char *name) {
    weft_array *a = weft_array_load(name, &s->f->env, &s->error);
    int64_t shape[WEFT_MAX_NDIM];
    s->good = a != NULL;
    int ndim = weft_array_shape(a, shape);
    size_t elements = a != NULL;
    for (int i = 0; i < ndim; i++) elements *= (size_t)shape[i];
    const unsigned char *data = weft_array_data(a);
    volatile unsigned sum = 0; /* every byte is there to be read */
    for (size_t i = 0; i < elements; i++) sum += data[i];
    (void)sum;
    weft_array_free(a);
}

static void try_array(subject *s) {
    load_array(s, HOSTILE_FILE);
}

/* The name says that it is packed. */
static void try_packed(subject *s) {
    const fake_file *file = hostile_file(s);
    fake_put(s->f, HOSTILE_FILE ".gz", file->data, file->bytes);
    load_array(s, HOSTILE_FILE ".gz");
}

/* ---- sources ---- */

/* Every byte of every sample is there to be read, or reading it is an error. */
static void read_all(subject *s, const weft_source *source) {
    enum { MOST = 1000 };
    unsigned char *into[WEFT_SOURCE_ARRAYS] = {0};
    for (int k = 0; k < source->n; k++) {
        size_t n = weft_dtype_bytes(source->arrays[k].dtype);
        for (int d = 0; d < source->arrays[k].ndim; d++) n *= (size_t)source->arrays[k].shape[d];
        into[k] = test_memory(n);
    }
    for (int64_t i = 0; s->good && i < source->count && i < MOST; i++)
        s->good = source->read(source->context, i, (void *const *)into, &s->error) == WEFT_OK;
    for (int k = 0; k < source->n; k++) free(into[k]);
}

enum { NPZ, NPZ_64, ROWS, TOKENS, BARE_TOKENS, TEXT };
static const weft_source_options forms[] = {
    [NPZ] = {.form = "npz"},
    [NPZ_64] = {.form = "npz"},
    [ROWS] = {.form = "npy"},
    [TOKENS] = {.form = "tokens", .window = 2, .pairs = true},
    [BARE_TOKENS] = {.form = "tokens", .window = 3, .dtype = "i32"},
    [TEXT] = {.form = "text", .window = 5, .pairs = true},
};

static void try_source(subject *s) {
    weft_source *source =
        weft_source_open(HOSTILE_FILE, &forms[s->h->format->variant], &s->f->env, &s->error);
    s->good = source != NULL;
    if (source) read_all(s, source);
    weft_source_free(source);
}

static void make_npz(hostile *h) {
    bytes x = bytes_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2)}", "abcdefghijklmnop", 16);
    bytes y = bytes_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "ab", 2);
    static zip z;
    z = (zip){.is_64 = h->format->variant == NPZ_64};
    zip_add(&z, "x.npy", &x, false);
    zip_add(&z, "y.npy", &y, true);
    zip_end(&z, "");
    hostile_put(h, z.file.data, z.file.n);
}

static void make_rows(hostile *h) {
    bytes b =
        h->format->variant == ROWS
            ? bytes_npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2, 2)}", "abcdefghijklmnop", 16)
            : bytes_npy("{'descr': '<u2', 'fortran_order': False, 'shape': (5,)}", "abcdefghij", 10);
    hostile_put(h, b.data, b.n);
}

static void make_bare(hostile *h) {
    static const char words[] = "It is a truth universally acknowledged";
    hostile_put(h, words, sizeof words - 1);
}

const hostile_format hostile_arrays[] = {
    {"safetensors", make_safetensors, try_safetensors, .mend = mend_safetensors},
    {"npy", make_array, try_array, .mend = mend_npy, .variant = NPY},
    {"npy.gz", make_packed, try_packed, .variant = NPY},
    {"npz", make_npz, try_source, .variant = NPZ},
    {"npz of zip64", make_npz, try_source, .variant = NPZ_64},
    {"rows of npy", make_rows, try_source, .mend = mend_npy, .variant = ROWS},
    {"tokens of npy", make_rows, try_source, .mend = mend_npy, .variant = TOKENS},
    {"tokens", make_bare, try_source, .variant = BARE_TOKENS, .takes_nearly = true},
    {"lines of text", make_bare, try_source, .variant = TEXT, .takes_nearly = true},
    {"idx", make_array, try_array, .variant = IDX},
    {"idx.gz", make_packed, try_packed, .variant = IDX},
    {0}};
