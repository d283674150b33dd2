/* safetensors_read.c - reads safetensors files that may be hostile. Besides broken JSON these are errors:
 *   - a header longer than 16 MiB or than the file (before anything is allocated), bytes that are not UTF-8,
 *     NUL
 *   - duplicate names, duplicate or unknown keys at every level, numbers that are not plain non-negative
 *     integers
 *   - shapes whose product overflows (also when a later axis is 0) or differs from the byte span
 *   - holes, overlaps, and bytes before the first or after the last tensor
 * The parser knows this one shape of JSON, so it neither recurses nor builds a tree. */
#include "graph/core/compare.h"
#include "runtime/store/safetensors.h"

#include "graph/core/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry of __metadata__. */
typedef struct said {
    const char *key, *value;
} said;

typedef struct parser {
    /* The header, and the next byte to read. */
    const char *begin, *at, *end;
    safetensors *s;
    int room; /* length of s->tensors */
    size_t n_said;
    said *said; /* sorted by key, once all are read */
    weft_error *error;
} parser;

/* Sets the error "weights.safetensors: header byte 40: rule"; always returns false. */
__attribute__((format(printf, 2, 3))) static bool parse_fail(parser *p, const char *format, ...) {
    char rule[500];
    va_list args;
    va_start(args, format);
    vsnprintf(rule, sizeof rule, format, args);
    va_end(args);
    error_set(p->error, WEFT_FILE, "%.400s: header byte %zu: %s", p->s->path, (size_t)(p->at - p->begin),
              rule);
    return false;
}

/* ---- the part of JSON that is needed ---- */

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
}

/* Skips spaces and accepts c; false, without an error, if something else follows. */
static bool accept(parser *p, char c) {
    skip_space(p);
    if (p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

/* Like take, but an error if something else follows. */
static bool want(parser *p, char c) {
    return accept(p, c) || parse_fail(p, "'%c' is expected", c);
}

/* Four hexadecimal digits; *v below 65536. */
static bool hex4(parser *p, unsigned *v) {
    *v = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = p->at < p->end ? *p->at : 0;
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) return parse_fail(p, "\\u needs four hexadecimal digits");
        *v = *v * 16 + (unsigned)digit;
    }
    return true;
}

/* Appends code point c as UTF-8; returns the end. */
static char *utf8_put(char *to, unsigned c) {
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 63));
        }
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* Decodes one escape, after its backslash. A code point above U+FFFF is a pair of surrogates. */
static bool escape(parser *p, char **to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->end ? *p->at++ : 0;
    unsigned code, low;
    const char *known = c ? strchr(names, c) : NULL;
    if (known) {
        *(*to)++ = values[known - names];
        return true;
    }
    if (c != 'u') return parse_fail(p, "an escape that JSON does not have");
    if (!hex4(p, &code)) return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
            return parse_fail(p, "half a surrogate pair");
        p->at += 2;
        if (!hex4(p, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return parse_fail(p, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code == 0 || (code >= 0xdc00 && code < 0xe000)) {
        return parse_fail(p, "\\u0000 or half a surrogate pair");
    }
    *to = utf8_put(*to, code);
    return true;
}

/* A string in the file's arena; decoding never makes it longer. NULL after an error. */
static char *string(parser *p) {
    if (!want(p, '"')) return NULL;
    /* An upper bound of the decoded length: the bytes up to the first quote that is not escaped. */
    size_t room = 0;
    while (p->at + room < p->end && p->at[room] != '"') room += p->at[room] == '\\' ? 2 : 1;
    char *decoded = arena_new(&p->s->arena, room + 1), *to = decoded;
    if (!decoded) return error_memory(p->error, p->s->path), NULL;
    while (p->at < p->end && *p->at != '"') {
        if ((unsigned char)*p->at < 0x20) return parse_fail(p, "a control character in a string"), NULL;
        if (*p->at != '\\') {
            *to++ = *p->at++;
            continue;
        }
        p->at++;
        if (!escape(p, &to)) return NULL;
    }
    return want(p, '"') ? decoded : NULL;
}

/* A plain non-negative integer below 2^63: no sign, fraction, exponent or leading zero. */
static bool number(parser *p, int64_t *v) {
    skip_space(p);
    const char *first = p->at;
    *v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *p->at - '0', v))
            return parse_fail(p, "a number above 2^63 - 1");
    bool is_plain = p->at > first && (*first != '0' || p->at == first + 1) &&
                    (p->at == p->end || !strchr(".eE+-", *p->at));
    return is_plain || parse_fail(p, "a non-negative integer is expected");
}

/* ---- the header ---- */

/* Weft's types only: a file with others (F8, I16, ...) is an error that names the type. */
static bool dtype_named(const char *name, weft_dtype *dtype) {
    static const char *const names[WEFT_DTYPES] = {
        [WEFT_F32] = "F32", [WEFT_F64] = "F64", [WEFT_BF16] = "BF16", [WEFT_F16] = "F16",
        [WEFT_I64] = "I64", [WEFT_I32] = "I32", [WEFT_U8] = "U8",     [WEFT_BOOL] = "BOOL",
        [WEFT_I8] = "I8",   [WEFT_U16] = "U16", [WEFT_U32] = "U32"};
    for (int i = 0; i < WEFT_DTYPES; i++)
        if (strcmp(names[i], name) == 0) {
            *dtype = (weft_dtype)i;
            return true;
        }
    return false;
}

/* "[2,3]": at most WEFT_MAX_NDIM axes, which may be 0. */
static bool shape(parser *p, safetensors_tensor *t) {
    if (!want(p, '[')) return false;
    if (accept(p, ']')) return true;
    do {
        if (t->type.ndim == WEFT_MAX_NDIM)
            return parse_fail(p, "%s: more than %d axes", SHOW(t->name), WEFT_MAX_NDIM);
        if (!number(p, &t->type.shape[t->type.ndim++])) return false;
    } while (accept(p, ','));
    return want(p, ']');
}

/* "[0,24]": the tensor's bytes, from the start of the data. span_check and layout_check judge them. */
static bool offsets(parser *p, safetensors_tensor *t) {
    int64_t begin, end;
    if (!want(p, '[') || !number(p, &begin) || !want(p, ',') || !number(p, &end) || !want(p, ']'))
        return false;
    t->begin = (uint64_t)begin;
    t->end = (uint64_t)end;
    return true;
}

/* The byte span must be exactly what type and shape require. */
static bool span_check(parser *p, const safetensors_tensor *t) {
    size_t bytes = dtype_bytes(t->type.dtype);
    for (int i = 0; i < t->type.ndim; i++)
        if (!size_mul(&bytes, bytes, (size_t)t->type.shape[i]))
            return parse_fail(p, "%s: its shape overflows", SHOW(t->name));
    if (t->begin > t->end || t->end - t->begin != bytes)
        return parse_fail(p, "%s: bytes %ju to %ju, but %s is %zu bytes", SHOW(t->name), t->begin, t->end,
                          TYPE(&t->type), bytes);
    return true;
}

/* One tensor: an object with each of the three keys once, in any order. */
static bool tensor_entry(parser *p, char *name) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    safetensors_tensor t = {.name = name};
    unsigned seen = 0;
    if (p->s->n == p->room || !want(p, '{'))
        return parse_fail(p, "%s: {dtype, shape, data_offsets}", SHOW(name));
    do {
        char *key = string(p), *type;
        if (!key || !want(p, ':')) return false;
        int k = 0;
        while (k < 3 && strcmp(keys[k], key) != 0) k++;
        if (k == 3) return parse_fail(p, "%s: there is no key '%s'", SHOW(name), SHOW(key));
        if (seen >> k & 1) return parse_fail(p, "%s: %s is there twice", SHOW(name), key);
        seen |= 1u << k;
        if (k == 1 && !shape(p, &t)) return false;
        if (k == 2 && !offsets(p, &t)) return false;
        if (k == 0 && !(type = string(p))) return false;
        if (k == 0 && !dtype_named(type, &t.type.dtype))
            return parse_fail(p, "%s: element type '%s' is not read by Weft", SHOW(name), SHOW(type));
    } while (accept(p, ','));
    if (!want(p, '}')) return false;
    if (seen != 7) return parse_fail(p, "%s: dtype, shape and data_offsets are all needed", SHOW(name));
    if (!span_check(p, &t)) return false;
    p->s->tensors[p->s->n++] = t;
    return true;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const said *)a)->key, ((const said *)b)->key);
}

/* Room for one more; the arena keeps the old array. */
static bool grow_said(parser *p) {
    said *more = arena_grow(&p->s->arena, p->said, p->n_said, sizeof *more);
    if (more) p->said = more;
    return more || !error_memory(p->error, p->s->path);
}

/* Pairs of strings, whose keys must differ. */
static bool metadata(parser *p) {
    if (!want(p, '{')) return false;
    if (accept(p, '}')) return true;
    do {
        if (!grow_said(p)) return false;
        said *pair = &p->said[p->n_said++];
        if (!(pair->key = string(p)) || !want(p, ':') || !(pair->value = string(p))) return false;
    } while (accept(p, ','));
    if (!want(p, '}')) return false;
    qsort(p->said, p->n_said, sizeof *p->said, by_key);
    for (size_t i = 1; i < p->n_said; i++)
        if (by_key(&p->said[i - 1], &p->said[i]) == 0)
            return parse_fail(p, "__metadata__: %s is there twice", SHOW(p->said[i].key));
    return true;
}

/* The whole header: one object, then spaces at most. */
static bool header_parse(parser *p) {
    bool has_metadata = false;
    if (p->at == p->end || *p->at != '{') return parse_fail(p, "'{' must be the first byte");
    p->at++;
    if (!accept(p, '}')) {
        do {
            char *name = string(p);
            if (!name || !want(p, ':')) return false;
            if (strcmp(name, "__metadata__") != 0) {
                if (!tensor_entry(p, name)) return false;
                continue;
            }
            if (has_metadata) return parse_fail(p, "__metadata__ is there twice");
            has_metadata = true;
            if (!metadata(p)) return false;
        } while (accept(p, ','));
        if (!want(p, '}')) return false;
    }
    skip_space(p);
    return p->at == p->end || parse_fail(p, "text after the closing '}'");
}

/* ---- the whole file ---- */

/* Empty tensors come before the one that begins at the same byte. */
static int by_begin(const void *pa, const void *pb) {
    const safetensors_tensor *a = pa, *b = pb;
    return by_numbers((int64_t)a->begin, (int64_t)b->begin, (int64_t)a->end, (int64_t)b->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const safetensors_tensor *)a)->name, ((const safetensors_tensor *)b)->name);
}

const safetensors_tensor *safetensors_sort(safetensors *s) {
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, by_name);
    for (int i = 1; i < s->n; i++)
        if (by_name(&s->tensors[i - 1], &s->tensors[i]) == 0) return &s->tensors[i];
    return NULL;
}

/* Each tensor begins where the one before it ends, and the last one at the end of the data: no holes, no
 * overlaps. Afterwards tensors are sorted by name. */
static weft_status layout_check(safetensors *s, weft_error *error) {
    uint64_t at = 0;
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, by_begin);
    for (int i = 0; i < s->n; at = s->tensors[i++].end)
        if (s->tensors[i].begin != at)
            return error_set(error, WEFT_FILE,
                             "%.400s: %s begins at byte %ju of the data, the tensor before it ends at %ju",
                             s->path, SHOW(s->tensors[i].name), s->tensors[i].begin, at);
    if (at != s->data_bytes)
        return error_set(error, WEFT_FILE, "%.400s: its tensors have %ju bytes, the file has %ju of data",
                         s->path, at, s->data_bytes);
    const safetensors_tensor *again = safetensors_sort(s);
    return again ? error_set(error, WEFT_FILE, "%.400s: %s is there twice", s->path, SHOW(again->name))
                 : WEFT_OK;
}

/* Binary search. */
static safetensors_tensor *tensor_named(const safetensors *s, const char *name) {
    safetensors_tensor key = {.name = name};
    return s->n ? bsearch(&key, s->tensors, (size_t)s->n, sizeof key, by_name) : NULL;
}

/* What metadata say of tensors that are there. */
static void note_said(parser *p) {
    size_t head = strlen(SAFETENSORS_SAYS);
    for (size_t i = 0; i < p->n_said; i++) {
        if (strncmp(p->said[i].key, SAFETENSORS_SAYS, head)) continue;
        safetensors_tensor *t = tensor_named(p->s, p->said[i].key + head);
        if (t) t->says = p->said[i].value;
    }
}

static weft_status open_file(safetensors *s, uint64_t *bytes, weft_error *error) {
    const weft_io *io = io_of(&s->env);
    int code = io->open_read(io->context, s->path, &s->file, bytes);
    if (!code) return WEFT_OK;
    s->file = NULL;
    return io_fail(error, s->path, "cannot be opened", code);
}

static weft_status read_at(const safetensors *s, uint64_t at, void *into, size_t bytes, weft_error *error) {
    const weft_io *io = io_of(&s->env);
    int code = io->read(io->context, s->file, at, into, bytes);
    return code ? io_fail(error, s->path, "cannot be read", code) : WEFT_OK;
}

/* The table is allocated by the number of '{', and an entry takes at least 45 bytes of header, so it is at
 * most a few times the header's size. */
static weft_status header_read(safetensors *s, char *header, size_t bytes, weft_error *error) {
    if (read_at(s, 8, header, bytes, error)) return error->status;
    /* Checked once for the whole header, so that names may be treated as C strings. */
    if (memchr(header, 0, bytes) || !utf8_is_valid(header, bytes))
        return error_set(error, WEFT_FILE, "%.400s: its header is not UTF-8 text", s->path);
    parser p = {.begin = header, .at = header, .end = header + bytes, .s = s, .error = error};
    size_t braces = 0;
    for (size_t i = 0; i < bytes; i++) braces += header[i] == '{';
    p.room = (int)(braces < bytes / 45 + 1 ? braces : bytes / 45 + 1);
    s->tensors = arena_new_array(&s->arena, p.room, sizeof *s->tensors);
    if (!s->tensors) return error_memory(error, s->path);
    if (!header_parse(&p) || layout_check(s, error)) return error->status;
    note_said(&p);
    return WEFT_OK;
}

/* Checks the length against the file before anything is allocated. A model.bin is recognized, as users
 * confuse the two. */
static weft_status file_check(safetensors *s, uint64_t file_bytes, weft_error *error) {
    unsigned char first[8];
    uint64_t length = 0;
    if (file_bytes < 8)
        return error_set(error, WEFT_FILE, "%.400s: %ju bytes, a safetensors file has at least 8", s->path,
                         file_bytes);
    if (read_at(s, 0, first, 8, error)) return error->status;
    for (int i = 7; i >= 0; i--) length = length << 8 | first[i];
    if (first[0] == 0x0d && memcmp(first + 1, "WEFT", 4) == 0)
        return error_set(error, WEFT_FILE,
                         "%.400s: it is a model, weights are needed (as graphtool train -o writes them)",
                         s->path);
    bool is_torchs = memcmp(first, "PK\3\4", 4) == 0 || (first[0] == 0x80 && first[1] <= 5); /* zip, pickle */
    if (is_torchs && length > file_bytes - 8)
        return error_set(error, WEFT_FILE,
                         "%.300s: a file of torch.save: write its tensors by "
                         "safetensors.torch.save_file(torch.load(\"x.pt\"), \"x.safetensors\")",
                         s->path);
    if (length > file_bytes - 8 || length > SAFETENSORS_MAX_HEADER)
        return error_set(error, WEFT_FILE,
                         "%.400s: it is not a safetensors file, or it is damaged: a header of %ju bytes; the "
                         "file has %ju, %d are accepted",
                         s->path, length, file_bytes, SAFETENSORS_MAX_HEADER);
    s->data_at = 8 + length;
    s->data_bytes = file_bytes - s->data_at;
    char *header = mem_raw(&s->env, (size_t)length + 1);
    if (!header) return error_memory(error, s->path);
    weft_status status = header_read(s, header, (size_t)length, error);
    mem_free(&s->env, header, (size_t)length + 1);
    return status;
}

/* The whole header is checked before a caller sees any of it. */
weft_status safetensors_open(safetensors *s, const char *path, const weft_env *env, weft_error *error) {
    weft_error own;
    uint64_t bytes;
    error = error_here(error, &own);
    *s = (safetensors){.env = env ? *env : (weft_env){0}, .path = path};
    arena_init(&s->arena, &s->env);
    if (!path) return error_set(error, WEFT_ARGUMENT, "a path is needed");
    if (open_file(s, &bytes, error)) return error->status;
    weft_status status = file_check(s, bytes, error);
    if (status) safetensors_close(s);
    return status;
}

void safetensors_rest(safetensors *s) {
    const weft_io *io = io_of(&s->env);
    if (s->file) io->close(io->context, s->file); /* closing a file that was only read cannot lose data */
    s->file = NULL;
}

weft_status safetensors_wake(safetensors *s, weft_error *error) {
    uint64_t bytes;
    weft_status status = open_file(s, &bytes, error);
    return status || bytes == s->data_at + s->data_bytes
               ? status
               : error_set(error, WEFT_FILE, "%.400s: it has changed", s->path);
}

void safetensors_close(safetensors *s) {
    safetensors_rest(s);
    arena_free(&s->arena);
    s->n = 0;
}

const safetensors_tensor *safetensors_find(const safetensors *s, const char *name) {
    return tensor_named(s, name);
}

weft_status safetensors_read_range(const safetensors *s, const safetensors_tensor *t, uint64_t at, void *into,
                                   size_t bytes, weft_error *error) {
    return bytes ? read_at(s, s->data_at + t->begin + at, into, bytes, error) : WEFT_OK;
}

weft_status safetensors_read(const safetensors *s, const safetensors_tensor *t, void *into,
                             weft_error *error) {
    return safetensors_read_range(s, t, 0, into, (size_t)(t->end - t->begin), error);
}
