/* words.c - see words.h. */
#include "graph/core/words.h"

#include <stdlib.h>
#include <string.h>

bool word_is(const char *word, const char *at, size_t n) {
    return strlen(word) == n && memcmp(word, at, n) == 0;
}

int word_find(const char *const *words, const char *at, size_t n) {
    for (int i = 0; words[i]; i++)
        if (word_is(words[i], at, n)) return i;
    return -1;
}

bool text_is_plain(const char *text, const char *others) {
    while (*text > ' ' && *text <= '~' && !strchr(others, *text)) text++;
    return !*text;
}

bool text_accept(const char **at, const char *text) {
    size_t n = strlen(text);
    if (strncmp(*at, text, n)) return false;
    *at += n;
    return true;
}

bool integer_parse(const char **at, int64_t *v) {
    char *end;
    if (**at != '-' && !(**at >= '0' && **at <= '9')) return false; /* strtoll would skip spaces and lines */
    *v = strtoll(*at, &end, 10);
    bool is_number = end != *at;
    *at = end;
    return is_number;
}

bool count_parse(const char **at, int64_t *count) {
    size_t digits = strspn(*at, "0123456789");
    if (!digits || digits > 18) return false;
    for (*count = 0; digits; digits--) *count = *count * 10 + (*(*at)++ - '0');
    return true;
}
