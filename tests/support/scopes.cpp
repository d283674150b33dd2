/* scopes.cpp - scopes as C++ leaves them: by destructors, also after an exception. */
#pragma GCC diagnostic error "-Wshadow" /* a scope within another */
#include "support/scopes.h"

weft_value *scopes_return_cpp(weft_value *x) {
    WEFT_SCOPE(x, "outer") {
        WEFT_SCOPE(x, "inner") return weft_linear(x, 3, "fc", NULL);
    }
    return nullptr;
}

weft_value *scopes_break_cpp(weft_value *x) {
    WEFT_GRAPH_SCOPE(weft_value_graph(x), "outer") {
        WEFT_SCOPE(x, "inner") {
            for (int i = 0; i < 2; i++) break;
            x = weft_linear(x, 3, "fc", NULL);
            break;
        }
    }
    return x;
}

struct thrown {
    weft_value *value;
};

weft_value *scopes_throw_cpp(weft_value *x) {
    try {
        WEFT_SCOPE(x, "outer") {
            WEFT_SCOPE(x, "inner") throw thrown{weft_linear(x, 3, "fc", NULL)};
        }
    } catch (const thrown &y) {
        return y.value;
    }
    return nullptr;
}
