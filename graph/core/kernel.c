/* kernel.c - the error of a kernel that meets a bad value in its data. The text names the graph and the
 * node. */
#include "graph/core/kernel.h"

#include <stdarg.h>
#include <stdio.h>

static weft_status fail(const kernel_call *c, int64_t number, const char *format, va_list args) {
    char message[600], node[200];
    vsnprintf(message, sizeof message, format, args);
    if (c->broken) *c->broken = number;
    return error_set(c->error, WEFT_DATA, "graph %s: %s: %s", c->node->graph->name, node_show(c->node, node),
                     message);
}

weft_status kernel_fail(const kernel_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = fail(c, -1, format, args);
    va_end(args);
    return status;
}

weft_status kernel_fail_at(const kernel_call *c, int64_t number, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = fail(c, number, format, args);
    va_end(args);
    return status;
}
