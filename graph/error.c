/* error.c - see error.h; also the texts of weft_status and the version. */
#include "graph/error.h"

#include <stdarg.h>
#include <stdio.h>

const char *weft_status_text(weft_status status) {
    switch (status) {
#define X(name, number, text)                                                                                \
    case WEFT_##name:                                                                                        \
        return text;
        WEFT_STATUS_LIST(X)
#undef X
    }
    return "not a status of this version";
}

const char *weft_version(void) {
    return "0.1.0";
}

weft_status error_set(weft_error *error, weft_status status, const char *format, ...) {
    if (!error) return status;
    error->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}

weft_status error_memory(weft_error *error, const char *what) {
    return error_set(error, WEFT_MEMORY, "%s: memory could not be had", what);
}

shown show_name(const char *name, size_t length) {
    enum { LONGEST = 80 };
    shown s = {{0}};
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        bool plain = c >= 0x20 && c < 0x7f;
        if (used + (plain ? 1 : 4) > LONGEST) {
            snprintf(s.text + used, sizeof s.text - used, "...");
            break;
        }
        used += (size_t)snprintf(s.text + used, sizeof s.text - used, plain ? "%c" : "\\x%02x", c);
    }
    return s;
}
