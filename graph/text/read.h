/* read.h - shared by the files that read dumps: a cursor over the text, and tables from names and numbers to
 * variables and values. */
#ifndef WEFT_GRAPH_TEXT_READ_H
#define WEFT_GRAPH_TEXT_READ_H

#include "graph/core/graph.h"
#include "graph/text/text.h"
#include "graph/core/limits.h"

enum {
    /* A graph's numbers must be below this plus the length of its text, which bounds the tables. */
    TEXT_ID_SLACK = 4096,
    /* elements: a bucket's next member starts at a multiple, unless the text gives its offset */
    TEXT_MEMBER_ALIGN = 16,
};

typedef struct reader {
    const char *at;    /* the next character; NUL ends the text */
    int line;          /* from 1 */
    const char *where; /* names the text in errors */
    weft_model *m;
    weft_graph *g;
    int n_nodes, n_inputs, n_graphs, n_ddps, n_precisions, n_flows;
    bool has_users_variables; /* all parameters and state have been read */
    weft_value **parameter; /* of the user's variables by index: the `parameter` node in the present graph */
    /* The values of the present graph by number. `parameter` nodes have no line: they get the numbers that
     * the text does not use, in the order in which they are made. */
    int n_values, free_id;
    weft_value **values;
    bool *is_used;
    struct own_optimizer *own; /* whose update the present graph is; NULL: it is not an update */
    name_table bytes;          /* attr_bytes of `data` lines, by "0123456789abcdef" */
    bool has_kernels;          /* a node of the graph names a kernel, so every value has a layout */
} reader;

/* text/cursor.c */
/* Errors of builders then name the line of the text. */
void reader_place(reader *r);
/* Records "where:line: what" as the model's error; always returns false. */
bool reader_fail(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether `word` comes next; if so, moves past it. */
bool reader_accept(reader *r, const char *word);
/* The same, but an error if it does not. */
bool reader_want(reader *r, const char *word);
/* Reads a decimal or 0x number in [least, most]; an error otherwise. */
bool reader_int(reader *r, int64_t least, int64_t most, int64_t *v);
/* Reads the characters up to one of `ends` or the line's end, 1 to 1000, into a copy; NULL after an error. */
char *reader_name(reader *r, const char *ends);

/* How many items a list with ',' between them has at most, up to one of `ends`. */
size_t reader_items(const reader *r, const char *ends);

/* text/node.c */
/* Reads "f32[8,3,12,12]:nhwc"; *has_layout: the text gives strides, otherwise they are row-major. */
bool layout_read(reader *r, tensor_type *type, bool *has_layout, int64_t stride[WEFT_MAX_NDIM]);
/* Reads "%7", "-" (*v is NULL) or a parameter's path; `ends`: characters that may follow a path. */
bool value_read(reader *r, const char *ends, weft_value **v);
bool op_read(reader *r, const weft_op **op);                 /* "conv2d(" */
bool attrs_read(reader *r, const weft_op *op, void **attrs); /* " stride=2,2 pad=1,1" */
bool node_read(reader *r);                                   /* one line of a graph */

/* text/plan.c */
bool notes_read(reader *r, weft_node *n); /* what follows the attributes in a line */
/* After a graph's last line: turns numbers of bases into pointers and fills in layouts. */
bool graph_resolve(reader *r);

/* text/write.c */
void value_type_write(text *t, const weft_value *v); /* "f32[8,3,12,12]:nhwc" */

#endif
