/* table.c - see table.h. */
#include "tools/graphtool/output/table.h"

#include <string.h>

static int columns_of(const char *s, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

int text_columns(const char *s) {
    return columns_of(s, strlen(s));
}

void text_pad(text *t, int columns) {
    while (columns-- > 0) text_add(t, " ");
}

void text_end_line(text *t) {
    while (t->length && t->data[t->length - 1] == ' ') t->data[--t->length] = 0;
    text_add(t, "\n");
}

void table_cells(table *into, text *row) {
    char *rest = tool_take(row);
    for (int i = 0; i < into->columns; i++) {
        const char *cell = rest ? strsep(&rest, "\t") : "";
        int width = text_columns(cell);
        if (width > into->width[i]) into->width[i] = width;
        text_bytes(&into->cells, cell, strlen(cell) + 1);
    }
    into->rows++;
}

void table_row(table *into, const char *format, ...) {
    text row = {0};
    va_list list;
    va_start(list, format);
    text_add(&row, "%s", tool_vtext(format, list));
    va_end(list);
    table_cells(into, &row);
}

/* ---- rows of JSON ---- */

static void add_value(text *t, const json_t *value, const table_column *c) {
    if (json_is_string(value)) text_add(t, "%s", json_string_value(value));
    if (json_is_number(value))
        text_add(t, c->decimals < 0 ? "%.*g%s" : "%.*f%s", abs(c->decimals),
                 json_number_value(value) * c->scale, c->unit ? c->unit : "");
}

void table_json(text *t, const json_t *rows, int n, const table_column *columns) {
    table all = {.columns = n};
    text cells = {0};
    size_t i;
    const json_t *row;
    for (int c = 0; c < n; c++) {
        all.is_right[c] = columns[c].scale != 0;
        text_add(&cells, c ? "\t%s" : "%s", columns[c].head);
    }
    table_cells(&all, &cells);
    json_array_foreach(rows, i, row) {
        for (int c = 0; c < n; c++) {
            if (c) text_add(&cells, "\t");
            add_value(&cells, json_object_get(row, columns[c].key), &columns[c]);
        }
        table_cells(&all, &cells);
    }
    table_write(t, &all);
}

/* ---- folding ---- */

enum { FOLD = 6 /* indentation of the further lines of a row */ };

/* The first word comes after column `at`, with a blank between, unless a line begins there. */
int text_wrap(text *t, const char *words, int at, int indent, int limit) {
    bool begins = at == 0;
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " \n");
        int width = columns_of(w, n);
        if (n && !begins && limit && at > indent && at + 1 + width > limit) {
            text_end_line(t);
            text_pad(t, indent);
            at = indent, begins = true;
        }
        if (n) text_add(t, begins ? "%.*s" : " %.*s", (int)n, w);
        if (n) at += width + !begins, begins = false;
        w += n;
        if (*w == '\n') text_end_line(t), text_pad(t, indent), at = indent, begins = true;
        w += *w != 0;
    }
    return at;
}

/* The column after the last that fits into a line with `first`, which fits in any case. */
static int fold_at(const table *from, int first) {
    int used = first ? FOLD : 0, c = first;
    for (; c < from->columns; c++) {
        used += 2 + from->width[c];
        if (from->limit && c > first && used > from->limit) break;
    }
    return c;
}

/* Columns first to end - 1 of a row, whose cells begin at *s; nothing where they are all empty. A cell
 * that is wider than the terminal is wrapped: its words, one blank between. */
static void write_line(text *t, const table *from, int first, int end, const char **s) {
    int at = first ? FOLD : 0, filled = 0;
    const char *cell = *s;
    for (int c = first; c < end; c++, cell += strlen(cell) + 1) filled += *cell != 0;
    if (first && filled) text_pad(t, FOLD);
    for (int c = first; c < end; c++, *s += strlen(*s) + 1) {
        int room = from->width[c] - text_columns(*s);
        if (first && !filled) continue;
        int begin = at + 2 + (from->is_right[c] ? room : 0);
        text_pad(t, begin - at - 1);
        if (from->limit && begin + text_columns(*s) > from->limit)
            text_wrap(t, *s, begin - 1, at + 2, from->limit);
        else
            text_add(t, " %s", *s);
        if (!from->is_right[c] && c < end - 1) text_pad(t, room);
        at += 2 + from->width[c];
    }
    if (!first || filled) text_end_line(t);
}

void table_write(text *t, table *from) {
    const char *s = tool_take(&from->cells);
    for (int i = 0; i < from->rows; i++)
        for (int first = 0, end; first < from->columns; first = end)
            write_line(t, from, first, end = fold_at(from, first), &s);
}
