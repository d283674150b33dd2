/* columns.c - a column of numbers in the shortest of three forms: [3, 3, 3, 4]; {"runs": [3, 3, 4, 1]}, each
 * value with its count; {"delta": [3, 0, 0, 1]}, each the difference to the one before, the first to 0. */
#include "tools/graphtool/view/view.h"

#include <string.h>

/* A column in memory: numbers of 4 or 8 bytes, or bytes, `stride` bytes apart. */
typedef struct column {
    const char *at;
    int count;
    size_t stride, width;
} column;

static int64_t number_at(const column *c, int i) {
    const void *at = c->at + (size_t)i * c->stride;
    if (c->width == sizeof(int64_t)) return *(const int64_t *)at;
    return *(const int *)at;
}

static int64_t delta_at(const column *c, int i) {
    return number_at(c, i) - (i ? number_at(c, i - 1) : 0);
}

/* Characters of a number and the comma after it. */
static int64_t characters(int64_t n) {
    int64_t count = n < 0 ? 3 : 2;
    for (; n >= 10 || n <= -10; n /= 10) count++;
    return count;
}

/* The number of equal ones from i on. */
static int run_at(const column *c, int i) {
    int end = i + 1;
    while (end < c->count && number_at(c, end) == number_at(c, i)) end++;
    return end - i;
}

static void add_number(json_t *list, int64_t n) {
    json_array_append_new(list, json_integer((json_int_t)n));
}

json_t *view_column(const void *at, int count, size_t stride, size_t width) {
    enum { KEY = 10 /* characters of {"runs":} */ };
    const column c = {at, count, stride, width};
    int64_t plain = 0, runs = KEY, deltas = KEY;
    for (int i = 0; i < count; i++) {
        plain += characters(number_at(&c, i));
        deltas += characters(delta_at(&c, i));
    }
    for (int i = 0, n; i < count; i += n) {
        n = run_at(&c, i);
        runs += characters(number_at(&c, i)) + characters(n);
    }
    json_t *list = json_array();
    if (runs < plain && runs <= deltas) {
        for (int i = 0, n; i < count; i += n) {
            n = run_at(&c, i);
            add_number(list, number_at(&c, i));
            add_number(list, n);
        }
        return json_pack("{s:o}", "runs", list);
    }
    bool is_delta = deltas < plain;
    for (int i = 0; i < count; i++) add_number(list, is_delta ? delta_at(&c, i) : number_at(&c, i));
    return is_delta ? json_pack("{s:o}", "delta", list) : list;
}
