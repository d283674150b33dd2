/* table.h - tables for a terminal: columns that are as wide as their widest cell. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_TABLE_H

#include "graph/core/mem.h"

enum { TABLE_COLUMNS = 10 };

/* Cells are added row by row; table_write ends it. Begin with {.columns = n}. */
typedef struct table {
    text cells; /* one after another, each ending with 0 */
    int n, columns;
    int width[TABLE_COLUMNS];
    bool is_right[TABLE_COLUMNS]; /* numbers are right-aligned */
    int limit;                    /* columns of the terminal, below which rows are folded; 0: any */
} table;

/* Adds a cell with the text of `t`, and empties `t`. */
void table_cell(table *into, text *t);
/* Adds a cell; the second one formats as printf does. */
void table_word(table *into, const char *word);
void table_print(table *into, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the table, indented by two columns, and frees it. */
void table_write(text *t, table *from);

/* Adds words to a line of `at` columns, with a blank before the first where at is not 0. A word that would
 * end after `limit` columns (0: no limit) begins a new line, after `indent` blanks. Returns the columns of
 * the last line. */
int text_wrap(text *t, const char *words, int at, int indent, int limit);

/* Columns on a terminal: the bytes that begin a UTF-8 character. */
int text_columns(const char *s);
/* Adds so many blanks. Ends a line, without blanks at its end. */
void text_pad(text *t, int columns);
void text_end_line(text *t);

#endif
