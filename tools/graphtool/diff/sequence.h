/* sequence.h - which elements of one sequence are those of another: a common subsequence of their keys. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_SEQUENCE_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_SEQUENCE_H

#include <stdint.h>

/* pair[i] becomes the place in b[m] of element i of a[n], or -1: places increase, and keys are equal. The
 * subsequence is a longest one, unless more than a thousand elements of the two are not in it. */
void sequence_match(const uint64_t *a, int n, const uint64_t *b, int m, int *pair);

#endif
