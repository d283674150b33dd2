/* compare.h - what functions for qsort are made of. */
#ifndef WEFT_GRAPH_CORE_COMPARE_H
#define WEFT_GRAPH_CORE_COMPARE_H

#include <stdint.h>

/* The smaller one first. */
static inline int by_number(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

#endif
