/* compare.h - what functions for qsort are made of. */
#ifndef WEFT_GRAPH_CORE_COMPARE_H
#define WEFT_GRAPH_CORE_COMPARE_H

#include <stdint.h>

/* The smaller one first. */
static inline int by_number(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* The same; of equal ones that of the smaller second number. */
static inline int by_numbers(int64_t a, int64_t b, int64_t second_a, int64_t second_b) {
    return a == b ? by_number(second_a, second_b) : by_number(a, b);
}

#endif
