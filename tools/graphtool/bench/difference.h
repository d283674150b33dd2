/* difference.h - how far numbers are from others that are better. */
#ifndef WEFT_TOOLS_GRAPHTOOL_BENCH_DIFFERENCE_H
#define WEFT_TOOLS_GRAPHTOOL_BENCH_DIFFERENCE_H

#include <jansson.h>

/* Of pairs so far; begins as {0}. */
typedef struct difference {
    double squares, of_squares; /* sums of the squares of the differences, and of the better numbers */
    double largest, of_largest; /* the largest difference; the largest better number */
} difference;

/* Adds a pair. Two NaN, and two infinities of one sign, do not differ. */
void difference_add(difference *d, double is, double should_be);
/* The root of the squares' ratio, and the ratio of the largest; infinite where the better numbers are 0. */
double difference_rms(const difference *d);
double difference_most(const difference *d);
/* {"rms", "most"}; null for an infinite one. */
json_t *difference_json(const difference *d);

#endif
