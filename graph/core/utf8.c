/* utf8.c - see utf8.h. */
#include "graph/core/utf8.h"

bool utf8_is_valid(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        unsigned c = s[i++], more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : 3;
        if (more == 3 && !(c >= 0xf0 && c <= 0xf4)) return false;
        if (n - i < more) return false;
        if ((c == 0xe0 && s[i] < 0xa0) || (c == 0xed && s[i] > 0x9f)) return false;
        if ((c == 0xf0 && s[i] < 0x90) || (c == 0xf4 && s[i] > 0x8f)) return false;
        for (; more; more--)
            if ((s[i++] & 0xc0) != 0x80) return false;
    }
    return true;
}
