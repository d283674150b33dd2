/* utf8.h - whether bytes are UTF-8, as texts in JSON must be. */
#ifndef WEFT_GRAPH_CORE_UTF8_H
#define WEFT_GRAPH_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* As RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool utf8_is_valid(const char *text, size_t bytes);

#endif
