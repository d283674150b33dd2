/* difference.c - see difference.h. */
#include "tools/graphtool/bench/difference.h"

#include "tools/graphtool/output/output.h"

#include <math.h>

void difference_add(difference *d, double is, double should_be) {
    double by = fabs(is - should_be);
    if ((isnan(is) && isnan(should_be)) || is == should_be) by = 0;
    if (isnan(by)) by = INFINITY;
    if (isfinite(should_be)) {
        d->of_squares += should_be * should_be;
        d->of_largest = fmax(d->of_largest, fabs(should_be));
    }
    d->squares += by * by;
    d->largest = fmax(d->largest, by);
}

/* 0 where there is no difference, whatever it is of. */
static double ratio(double by, double of) {
    return by > 0 ? by / of : 0;
}

double difference_rms(const difference *d) {
    return sqrt(ratio(d->squares, d->of_squares));
}

double difference_most(const difference *d) {
    return ratio(d->largest, d->of_largest);
}

json_t *difference_json(const difference *d) {
    return json_pack("{s:o, s:o}", "rms", json_number(difference_rms(d)), "most",
                     json_number(difference_most(d)));
}
