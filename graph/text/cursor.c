/* cursor.c - the place in a text that is read back: words, numbers, names, and errors that name the line. */
#include "graph/text/read.h"

#include "graph/core/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reader_place(reader *r) {
    r->m->file = r->where;
    r->m->line = r->line;
}

bool reader_fail(reader *r, const char *format, ...) {
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    reader_place(r);
    model_fail(r->m, NULL, WEFT_FILE, "%s", message);
    return false;
}

bool reader_accept(reader *r, const char *word) {
    return text_accept(&r->at, word);
}

bool reader_want(reader *r, const char *word) {
    if (reader_accept(r, word)) return true;
    size_t n = strcspn(r->at, "\n");
    return reader_fail(r, "'%s' is expected, but there is '%s'",
                       strcmp(word, "\n") ? word : "the end of the line",
                       show_name(r->at, n < 30 ? n : 30).text);
}

/* strtoll would skip spaces and line ends, so the first character is checked; an overflow gives a limit of
 * int64_t, which [least, most] rejects. */
bool reader_int(reader *r, int64_t least, int64_t most, int64_t *v) {
    char *end;
    bool is_number = *r->at == '-' || (*r->at >= '0' && *r->at <= '9');
    bool is_hex = r->at[0] == '0' && r->at[1] == 'x';
    *v = is_number ? strtoll(r->at, &end, is_hex ? 16 : 10) : 0;
    if (!is_number || end == r->at || *v < least || *v > most)
        return reader_fail(r, "a number from %jd to %jd is expected at '%s'", least, most,
                           show_name(r->at, strcspn(r->at, " \n")).text);
    r->at = end;
    return true;
}

/* 1000 characters is the longest path. */
char *reader_name(reader *r, const char *ends) {
    char stop[24];
    snprintf(stop, sizeof stop, "\n%s", ends);
    size_t n = strcspn(r->at, stop);
    if (n == 0 || n > 1000) return reader_fail(r, "a name of 1 to 1000 characters is expected"), NULL;
    char *name = arena_printf(&r->m->arena, "%.*s", (int)n, r->at);
    if (!name) reader_fail(r, "out of memory");
    r->at += n;
    return name;
}

size_t reader_items(const reader *r, const char *ends) {
    size_t items = 1, n = strcspn(r->at, ends);
    for (size_t i = 0; i < n; i++) items += r->at[i] == ',';
    return items;
}
