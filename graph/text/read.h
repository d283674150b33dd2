/* read.h - what the files that read dumps share: a cursor over the text and the tables of names. */
#ifndef WEFT_GRAPH_TEXT_READ_H
#define WEFT_GRAPH_TEXT_READ_H

#include "graph/core/graph.h"
#include "graph/core/limits.h"

enum {
    TEXT_ID_SLACK =
        4096, /* a graph's numbers are below this plus the length of its text: tables stay small */
    TEXT_MEMBER_ALIGN = 16, /* elements: where a bucket's next member lies unless the text says otherwise */
};

typedef struct reader {
    const char *at;    /* the next character; NUL ends the text */
    int line;          /* from 1 */
    const char *where; /* names the text in errors */
    weft_model *m;
    weft_graph *g;
    int n_nodes, n_inputs, n_graphs, n_ddps, n_precisions;
    /* Variables sorted by path, and each one's `parameter` node in the present graph (by variable->index). */
    int n_by_path;
    weft_variable **by_path;
    weft_value **parameter;
    /* The values of the present graph by their number. Numbers that the text never uses are those of
     * `parameter` nodes, which have no line, in the order of their making. */
    int n_values, free_id;
    weft_value **values;
    bool *is_used;
    bool has_kernels; /* some node of the graph has one: every value has a layout then */
} reader;

/* Records "where:line: what" as the model's error; always false. */
bool reader_fail(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Moves past `word` if it is next. */
bool reader_accept(reader *r, const char *word);
/* The same, an error if it is not. */
bool reader_want(reader *r, const char *word);
bool reader_int(reader *r, int64_t least, int64_t most, int64_t *v);
/* The characters up to one of `ends` (or the line's end), copied; NULL when there are none. */
char *reader_name(reader *r, const char *ends);

/* text/node.c */
/* "f32[8,3,12,12]:nhwc"; *has_layout says whether strides were given. */
bool layout_read(reader *r, tensor_type *type, bool *has_layout, int64_t stride[WEFT_MAX_NDIM]);
/* "%7", "-" (then *v is NULL) or a parameter's path; `ends`: what may follow a path. */
bool value_read(reader *r, const char *ends, weft_value **v);
bool op_read(reader *r, const weft_op **op);                 /* "conv2d(" */
bool attrs_read(reader *r, const weft_op *op, void **attrs); /* " stride=2,2 pad=1,1" */
bool node_read(reader *r);                                   /* one line of a graph */

/* text/plan.c */
bool notes_read(reader *r, weft_node *n); /* what follows the attributes */
/* After a graph's last line: bases by number become pointers, layouts are filled in. */
bool graph_resolve(reader *r);

/* text/write.c */
void value_type_write(text *t, const weft_value *v); /* "f32[8,3,12,12]:nhwc" */

#endif
