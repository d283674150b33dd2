/* table.c - see table.h. */
#include "tools/graphtool/common/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int text_columns(const char *s) {
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void text_pad(text *t, int columns) {
    while (columns-- > 0) text_add(t, " ");
}

void text_end_line(text *t) {
    while (t->length && t->data[t->length - 1] == ' ') t->data[--t->length] = 0;
    text_add(t, "\n");
}

void table_cell(table *into, text *t) {
    const char *s = t->data ? t->data : "";
    int column = into->n++ % into->columns, width = text_columns(s);
    if (width > into->width[column]) into->width[column] = width;
    text_bytes(&into->cells, s, strlen(s) + 1);
    into->cells.failed |= t->failed;
    free(t->data);
    *t = (text){0};
}

void table_word(table *into, const char *word) {
    text t = {0};
    text_add(&t, "%s", word);
    table_cell(into, &t);
}

void table_print(table *into, const char *format, ...) {
    char word[200];
    va_list list;
    va_start(list, format);
    vsnprintf(word, sizeof word, format, list);
    va_end(list);
    table_word(into, word);
}

void table_write(text *t, table *from) {
    const char *s = from->cells.data;
    for (int i = 0; i < from->n && !from->cells.failed; i++, s += strlen(s) + 1) {
        int column = i % from->columns, room = from->width[column] - text_columns(s);
        bool is_last = column == from->columns - 1;
        text_add(t, "  ");
        if (from->is_right[column]) text_pad(t, room);
        text_add(t, "%s", s);
        if (!from->is_right[column] && !is_last) text_pad(t, room);
        if (is_last) text_end_line(t);
    }
    t->failed |= from->cells.failed;
    free(from->cells.data);
    *from = (table){0};
}
