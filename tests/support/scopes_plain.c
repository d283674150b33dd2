/* scopes_plain.c - a compiler that is not GNU C's, as far as Weft's headers can tell. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#undef __GNUC__
#pragma GCC diagnostic error "-Wshadow" /* a scope within another */
#include "support/scopes.h"

weft_value *scopes_return_plain(weft_value *x) {
    WEFT_SCOPE(x, "outer") {
        WEFT_SCOPE(x, "inner") return weft_linear(x, 3, "fc", NULL);
    }
    return NULL;
}

weft_value *scopes_stay_plain(weft_value *x) {
    WEFT_SCOPE(x, "outer") {
        WEFT_SCOPE(x, "inner") x = weft_linear(x, 3, "fc", NULL);
    }
    return x;
}
