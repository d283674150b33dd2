/* text.h - graphs and models as text (graph/text/write.c says what it looks like), and back. */
#ifndef WEFT_GRAPH_TEXT_TEXT_H
#define WEFT_GRAPH_TEXT_TEXT_H

#include "graph/core/graph.h"

void graph_write(text *t, const weft_graph *g);
/* The bytes whose lines a dump has already. */
typedef struct bytes_written {
    arena arena;
    name_table by_name;
} bytes_written;
/* Writes "data @NAME HEX" for the bytes of g's tensors that graph_write gives by name alone, once for each.
 */
void graph_bytes_write(text *t, const weft_graph *g, bytes_written *done);
/* The first line: "model NAME batch=N". */
void header_write(text *t, const weft_model *m);
void variable_write(text *t, const weft_variable *v);
/* A number for what the model computes as it trains: its variables, and the nodes of each graph that changes
 * any. What a training that continues may change is left out: the batch, settings of optimizers, subgraphs,
 * precision, flows, and graphs that only look. False when memory is out. */
bool model_form(const weft_model *m, uint64_t *fingerprint);
/* "conv2d(f32[8,3,12,12]:nhwc, f32[8,3,3,3]) stride=1,1 pad=1,1": op, operand types and layouts,
 * attributes. */
void node_signature(text *t, const weft_node *n);
/* Makes a model with one node of that signature, whose operands are inputs named "0", "1", ... The caller
 * frees the node's model. NULL after setting *error. */
weft_node *node_from_signature(const char *signature, const weft_env *env, const op_catalog *catalog,
                               weft_error *error);
/* weft_model_parse with a catalog. */
weft_model *model_parse(const char *string, const char *where, const weft_env *env, const op_catalog *catalog,
                        weft_error *error);
/* Writes "define signum slot momentum_buffer=0 number momentum=0.9" and each update. */
void own_optimizers_write(text *t, const weft_model *m);

#endif
