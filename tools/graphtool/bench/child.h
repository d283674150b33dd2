/* child.h - programs that a command starts, one at a time, and what they print. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_CHILD_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_CHILD_H

/* What a program left: its exit status, 128 and more where a signal ended it, and its output. */
typedef struct child {
    int status;
    char *out, *err;
} child;

/* Runs argv (NULL ends it) with `file` as program, and waits for its end. It ends with this process. */
child child_run(const char *file, char *const argv[]);
/* This program itself; the program `name` beside it, or that of the PATH. */
const char *child_self(void);
const char *child_beside(const char *name);

#endif
