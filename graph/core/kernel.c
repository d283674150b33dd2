/* kernel.c - the error of a kernel that meets a bad value in its data. The text names the graph and the
 * node. */
#include "graph/core/kernel.h"

#include <stdarg.h>
#include <stdio.h>

weft_status kernel_fail(const kernel_call *c, const char *format, ...) {
    char message[600], node[200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return error_set(c->error, WEFT_DATA, "graph %s: %s: %s", c->node->graph->name, node_show(c->node, node),
                     message);
}
