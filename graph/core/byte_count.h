/* byte_count.h - numbers of bytes for people. */
#ifndef WEFT_GRAPH_CORE_BYTE_COUNT_H
#define WEFT_GRAPH_CORE_BYTE_COUNT_H

#include <stdint.h>

/* "2.4 MiB", by value. */
typedef struct bytes_text {
    char text[32];
} bytes_text;
bytes_text bytes_show(uint64_t bytes);
#define BYTES(bytes) (bytes_show(bytes).text)

#endif
