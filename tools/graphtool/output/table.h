/* table.h - tables for a terminal: columns that are as wide as their widest cell. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OUTPUT_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_OUTPUT_TABLE_H

#include "tools/graphtool/output/output.h"

enum { TABLE_COLUMNS = 10 };

/* Rows are added one by one; table_write ends it. Begin with {.columns = n}. */
typedef struct table {
    text cells; /* one after another, each ending with 0 */
    int rows, columns;
    int width[TABLE_COLUMNS];
    bool is_right[TABLE_COLUMNS]; /* numbers are right-aligned */
    int limit;                    /* columns of the terminal, below which rows are folded; 0: any */
} table;

/* Adds a row, its cells with a tab between; those that are left out are empty. */
void table_row(table *into, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of a text, which it empties. */
void table_cells(table *into, text *row);
/* Writes the table, indented by two columns. */
void table_write(text *t, table *from);

/* A column of a table whose rows are objects: a text, or a number times `scale` with so many decimals (below
 * 0: digits) and its unit. What is not there, or null, is an empty cell. */
typedef struct table_column {
    const char *head, *key;
    double scale; /* 0: of texts */
    int decimals;
    const char *unit;
} table_column;
/* An array of objects as a table of n columns, with their heads. */
void table_json(text *t, const json_t *rows, int n, const table_column *columns);

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
