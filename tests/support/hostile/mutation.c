/* mutation.c - see mutation.h. */
#include "support/hostile/mutation.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEEP = 4096, MOST_OPENING = 5 };

static size_t below(test_random *r, size_t n) {
    return n ? (size_t)(random_bits(r) % n) : 0;
}

void mutant_new(mutant *m, size_t n) {
    *m = (mutant){.room = 2 * n + 1024 + MOST_DEEP * MOST_OPENING};
    m->data = test_memory(m->room);
}

void mutant_set(mutant *m, const void *data, size_t n) {
    memcpy(m->data, data, n);
    m->n = n;
}

/* Puts `n` bytes in the place of those in [at, end). They must not lie in the mutant. */
static void replace(mutant *m, size_t at, size_t end, const void *with, size_t n) {
    if (m->n - (end - at) + n > m->room) return;
    memmove(m->data + at + n, m->data + end, m->n - end);
    memcpy(m->data + at, with, n);
    m->n = m->n - (end - at) + n;
}

/* The first byte from a random one on that is of this kind, round the end; the random one where none is. */
static size_t find(const mutant *m, test_random *r, bool (*is_it)(int c)) {
    size_t at = below(r, m->n);
    for (size_t i = 0; i < m->n && !is_it(m->data[at]); i++) at = (at + 1) % m->n;
    return at;
}

/* ---- bytes ---- */

static void flip(mutant *m, test_random *r) {
    m->data[below(r, m->n)] ^= (unsigned char)(1u << below(r, 8));
}

static void cut(mutant *m, test_random *r) {
    m->n = below(r, m->n + 1);
}

/* Repeats or drops a stretch. */
static void stretch(mutant *m, test_random *r) {
    size_t at = below(r, m->n), n = below(r, m->n - at < 200 ? m->n - at : 200);
    unsigned char kept[200];
    memcpy(kept, m->data + at, n);
    if (random_bits(r) & 1)
        replace(m, at, at + n, "", 0);
    else
        replace(m, at, at, kept, n);
}

static void insert(mutant *m, test_random *r) {
    unsigned char with[8];
    for (size_t i = 0; i < sizeof with; i++) with[i] = (unsigned char)random_bits(r);
    size_t at = below(r, m->n + 1);
    replace(m, at, at, with, 1 + below(r, sizeof with));
}

/* ---- numbers ---- */

static bool is_digit(int c) {
    return isdigit(c) != 0;
}

/* Numbers that programs trip over, in the file's own digits. */
static void number(mutant *m, test_random *r) {
    static const char *const digits[] = {"0",
                                         "1",
                                         "-1",
                                         "9",
                                         "127",
                                         "128",
                                         "255",
                                         "-0",
                                         "1e30",
                                         "1e999",
                                         "1.5",
                                         "2147483647",
                                         "nan",
                                         "0x10",
                                         "007",
                                         "1e-9",
                                         "65536",
                                         "4294967296",
                                         "281474976710656",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "99999999999999999999"};
    size_t at = find(m, r, is_digit), end = at;
    while (end < m->n && is_digit(m->data[end])) end++;
    const char *with = digits[below(r, sizeof digits / sizeof *digits)];
    if (end > at) replace(m, at, end, with, strlen(with));
}

/* The same as bytes. */
static void bytes_of_number(mutant *m, test_random *r) {
    static const uint64_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, UINT64_MAX, INT64_MAX};
    uint64_t v = values[below(r, sizeof values / sizeof *values)];
    size_t width = (size_t)1 << below(r, 4);
    if (m->n < width) return;
    memcpy(m->data + below(r, m->n - width + 1), &v, width);
}

/* A length or a count that is off by little, of either byte order; mostly at the beginning, in the head. */
static void nudge(mutant *m, test_random *r) {
    static const int by[] = {-8, -4, -2, -1, 1, 2, 4, 8};
    size_t end = random_bits(r) % 2 && m->n > 64 ? 64 : m->n, at = below(r, end), i = at;
    int carry = by[below(r, sizeof by / sizeof *by)];
    bool is_big = random_bits(r) & 1;
    for (int k = 0; k < 8 && carry && i < m->n; k++) {
        int sum = m->data[i] + carry;
        m->data[i] = (unsigned char)sum;
        carry = sum < 0 ? -1 : sum > 255;
        if (is_big && !i) break;
        i += is_big ? (size_t)-1 : 1;
    }
}

/* ---- words ---- */

static bool is_in_word(int c) {
    return isalnum(c) || strchr("_<>|@", c ? c : ' ');
}

/* Names of types and words of the formats, in the place of any other. */
static void word(mutant *m, test_random *r) {
    static const char *const words[] = {
        "F32",       "F64",        "BF16",      "F16",     "I64",   "I32",   "U8",  "BOOL", "<f4",
        ">f8",       "|u1",        "|O",        "<U3",     "<i8",   "f32",   "f64", "bf16", "i64",
        "u8",        "True",       "False",     "true",    "null",  "{}",    "[]",  "\"\"", "\\u0000",
        "../x",      "/dev/full",  "@0:f32[1]", "@rank1",  "shape", "dtype", "inf", "nan",  "matmul",
        "parameter", "all_reduce", "\xff\xfe",  "\x1b[2J", "%s%n"};
    size_t at = find(m, r, is_in_word), end = at;
    while (end < m->n && is_in_word(m->data[end])) end++;
    const char *with = words[below(r, sizeof words / sizeof *words)];
    replace(m, at, end, with, strlen(with));
}

/* A word copied in front of another: in texts what belongs to one line comes into another. */
static void graft(mutant *m, test_random *r) {
    size_t from = below(r, m->n), to = below(r, m->n), n = 1;
    while (from < m->n && m->data[from] != ' ') from++;
    while (to < m->n && m->data[to] != ' ') to++;
    while (from + n < m->n && m->data[from + n] > ' ') n++;
    unsigned char kept[200];
    if (from + n > m->n || n > sizeof kept) return;
    memcpy(kept, m->data + from, n);
    replace(m, to, to, kept, n);
}

/* ---- structure ---- */

static bool is_edge(int c) {
    return c == ',' || c == '\n' || c == ';' || c == '{' || c == '[';
}

/* What is between two commas, or a line, once more at its place or at another: a key or a name twice. */
static void duplicate(mutant *m, test_random *r) {
    unsigned char kept[500];
    size_t at = find(m, r, is_edge), end = at + 1;
    while (end < m->n && !is_edge(m->data[end])) end++;
    if (end > m->n || end - at > sizeof kept) return;
    memcpy(kept, m->data + at, end - at);
    size_t to = random_bits(r) & 1 ? end : find(m, r, is_edge);
    replace(m, to, to, kept, end - at);
}

/* One entry is gone. */
static void drop(mutant *m, test_random *r) {
    size_t at = find(m, r, is_edge), end = at + 1;
    while (end < m->n && !is_edge(m->data[end])) end++;
    if (end <= m->n) replace(m, at, end, "", 0);
}

/* Opened again and again, and mostly never closed. */
static void nest(mutant *m, test_random *r) {
    static const char *const openings[] = {"[", "{\"a\":", "(", "\"", "[{"};
    const char *one = openings[below(r, sizeof openings / sizeof *openings)];
    size_t width = strlen(one), deep = 1 + below(r, (size_t)1 << below(r, 12)), at = find(m, r, is_edge);
    unsigned char all[MOST_DEEP * MOST_OPENING];
    for (size_t i = 0; i < deep; i++) memcpy(all + i * width, one, width);
    at = at < m->n ? at + 1 : at;
    replace(m, at, at, all, deep * width);
}

void mutate(mutant *m, const void *good, size_t n, test_random *r) {
    static void (*const ways[])(mutant *, test_random *) = {
        flip,  flip, cut,  stretch, insert,    number, number, bytes_of_number,
        nudge, word, word, graft,   duplicate, drop,   nest};
    mutant_set(m, good, n);
    for (size_t i = 1 + below(r, 3); i > 0 && m->n; i--) ways[below(r, sizeof ways / sizeof *ways)](m, r);
}
