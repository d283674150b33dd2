/* bytes.c - attributes that are the bytes of a tensor. A dump has them as hexadecimal digits: few of them in
 * the node's line, more in a line of their own, and the node's line names them by their hash
 * (graph/text/write.c). */
#include "graph/core/mem.h"
#include "graph/core/op.h"
#include "graph/core/table.h"

#include <string.h>

attr_bytes attr_bytes_of(const void *data, size_t n) {
    return (attr_bytes){n, data, n ? hash_bytes(data, n, 0) : 0};
}

bool bytes_equal(const attr_bytes *a, const attr_bytes *b) {
    return a->n == b->n && a->hash == b->hash &&
           (a->data == b->data || !a->n || memcmp(a->data, b->data, a->n) == 0);
}

bool bytes_are_many(const attr_bytes *v) {
    return v->n > 64;
}

/* Two digits a byte, in pieces, since a formatted write a byte would take seconds for a large tensor. */
void bytes_write(text *t, const attr_bytes *v) {
    static const char digits[] = "0123456789abcdef";
    char piece[2 * 256];
    for (size_t i = 0; i < v->n;) {
        size_t used = 0;
        for (; i < v->n && used < sizeof piece; i++) {
            piece[used++] = digits[v->data[i] >> 4];
            piece[used++] = digits[v->data[i] & 15];
        }
        text_bytes(t, piece, used);
    }
}

/* What a hexadecimal digit stands for; -1: it stands for nothing. Dumps have no upper-case ones. */
static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool bytes_parse(const char **at, attr_bytes *v, arena *a) {
    size_t n = strspn(*at, "0123456789abcdef") / 2;
    uint8_t *data = n ? arena_new(a, n) : NULL;
    if (!data) return false;
    for (size_t i = 0; i < n; i++, *at += 2)
        data[i] = (uint8_t)(digit_value((*at)[0]) << 4 | digit_value((*at)[1]));
    *v = attr_bytes_of(data, n);
    return digit_value(**at) < 0;
}

bool bytes_name_parse(const char **at, uint64_t *hash) {
    *hash = 0;
    if (**at != '@' || strspn(*at + 1, "0123456789abcdef") != 16) return false;
    ++*at;
    for (int i = 0; i < 16; i++) *hash = *hash << 4 | (uint64_t)digit_value(*(*at)++);
    return true;
}
