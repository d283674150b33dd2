/* error.c - see error.h; also the texts of weft_status and the version. Every message passes through
 * show_line once, so that a hostile file name cannot send escape sequences to a terminal or forge a second
 * log line. */
#include "graph/core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *weft_status_text(weft_status status) {
    switch (status) {
/* From the list of include/weft/status.h: one case per status. */
#define X(name, number, text)                                                                                \
    case WEFT_##name:                                                                                        \
        return text;
        WEFT_STATUS_LIST(X)
#undef X
    }
    return "not a status of this version";
}

const char *weft_version(void) {
#define TEXT_OF(major, minor, patch)      #major "." #minor "." #patch
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major, minor, patch)
    return VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
}

weft_status reserved_check(const uint64_t *reserved, size_t bytes, const char *what, weft_error *error) {
    for (size_t i = 0; i < bytes / sizeof *reserved; i++)
        if (reserved[i])
            return error_set(
                error, WEFT_ARGUMENT,
                "%s: words of `reserved` are not 0: set the structure to zeros first, or link the "
                "later version of Weft that the program was compiled for (this is %s)",
                what, weft_version());
    return WEFT_OK;
}

weft_status error_set(weft_error *error, weft_status status, const char *format, ...) {
    if (!error) return status;
    /* formatted apart, because an argument may be error->text itself */
    char text[sizeof error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error->status = status;
    show_line(error->text, sizeof error->text, text);
    return status;
}

weft_error *error_here(weft_error *error, weft_error *own) {
    if (!error) error = own;
    *error = (weft_error){0};
    return error;
}

weft_status error_memory(weft_error *error, const char *what) {
    return error_set(error, WEFT_MEMORY, "%s: out of memory", what);
}

void env_log(const weft_env *env, const char *format, ...) {
    char line[5000]; /* a path, and what is said of it */
    va_list args;
    if (!env || !env->log) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    env->log(env->log_context, line);
}

/* Length in bytes of the printable UTF-8 character at p, 0: none is there. Not printable are control
 * characters (C0, DEL, C1, line and paragraph separators, changes of writing direction), overlong forms,
 * surrogates and truncated characters. RFC 3629. */
static size_t printable_bytes(const unsigned char *p) {
    /* least[n]: the smallest code point that needs n bytes */
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (*p < 0x80) return *p >= 0x20 && *p != 0x7f;
    size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    unsigned code = *p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    /* U+2028 and U+2029 separate lines, the others change the writing direction. */
    bool turns = (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x200e ||
                 code == 0x200f;
    if (!n || code < least[n] || code < 0xa0 || code > 0x10ffff || (code >> 11) == 0x1b || turns) return 0;
    return n;
}

void show_line(char *into, size_t room, const char *from) {
    const unsigned char *p = (const unsigned char *)from;
    size_t at = 0;
    while (*p) {
        /* An escaped byte takes 4 characters. */
        size_t n = printable_bytes(p), more = n ? n : 4;
        if (at + more >= room) break;
        if (n)
            memcpy(into + at, p, n);
        else
            snprintf(into + at, room - at, "\\x%02x", *p);
        at += more;
        p += n ? n : 1;
    }
    into[at] = 0;
}

/* A struct by value, so that several names can be shown in one message without buffers of the caller's. */
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

shown errno_show(int code) {
    shown s;
    if (strerror_r(code, s.text, sizeof s.text)) snprintf(s.text, sizeof s.text, "error %d", code);
    return s;
}
