/* bytes.c - see byte_count.h. */
#include "graph/core/byte_count.h"

#include <stdio.h>

bytes_text bytes_show(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    bytes_text t;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(t.text, sizeof t.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return t;
}
