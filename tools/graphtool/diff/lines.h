/* lines.h - a list of changes for people: what one sentence says is one line. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_LINES_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_LINES_H

#include "tools/graphtool/diff/diff.h"

/* Changes of equal words are one line: those of several graphs, and of layers that differ in numbers of their
 * paths. What is in a scope that one of the two has alone is one line, too. */
typedef struct diff_line {
    diff_kind kind;
    diff_what what;
    const char *where; /* "d_step, g_step"; "" for what is of the whole */
    const char *path;  /* with "*" for numbers, where there are several */
    const char *op, *text;
    int times; /* in the graph that has it first */
    int graph; /* that was met last */
} diff_line;

typedef struct diff_lines {
    int n, follow[DIFF_NODE + 1]; /* follow: changes of each kind that are counted alone */
    size_t room;
    diff_line *v;
} diff_lines;

/* `all`: each change is a line of its own, those that follow from others, too. Without `graphs` those of
 * graphs are left out. */
const diff_lines *diff_lines_of(const difference *d, bool graphs, bool all);

#endif
