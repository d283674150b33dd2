/** @file
 * status.h - how calls fail: one list of statuses, one error type.
 *
 * A function that can fail returns a weft_status (or NULL) and fills the weft_error that it was given, which
 * may be NULL. The text is one line: where, what, the rule, and the way out if there is one.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include "weft/api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Structures that a later version may give fields end with so many words `reserved`. A new field takes the
 * place of one, so sizes and offsets stay: a program that was compiled with older headers runs with a newer
 * library, and finds zeros in what it does not know. A caller leaves them 0, as all that it does not set; a
 * call that finds another value is WEFT_ARGUMENT, since the program wants what this library does not have.
 * They are not looked at in what the library itself fills, and in tables of functions (weft_io,
 * weft_allocator, weft_comm_calls, struct weft_comm), of which it calls those that it knows. */
#define WEFT_RESERVED 8

/** Each status once, with the sentence that a user reads. The numbers are stable. */
#define WEFT_STATUS_LIST(X)                                                                                  \
    X(OK, 0, "fine")                                                                                         \
    X(ARGUMENT, 1, "an argument is outside what the call accepts")                                           \
    X(SHAPE, 2, "shapes do not fit")                                                                         \
    X(TYPE, 3, "element types do not fit")                                                                   \
    X(NAME, 4, "no such name, or a name that is taken")                                                      \
    X(MEMORY, 5, "out of memory")                                                                            \
    X(FILE, 6, "the file breaks a rule of its format")                                                       \
    X(IO, 7, "reading or writing failed")                                                                    \
    X(UNSUPPORTED, 8, "no kernel or backend can do this")                                                    \
    X(DATA, 9, "a value at run time breaks a rule")                                                          \
    X(ORDER, 10, "calls came in the wrong order")                                                            \
    X(INTERNAL, 11, "an internal error of Weft: please report it")                                           \
    X(PEER, 12, "ranks disagree, or one is missing")                                                         \
    X(DEVICE, 13, "a GPU or its driver failed, or is missing")

/** What a call came to. WEFT_OK is 0. */
typedef enum weft_status {
#define X(name, number, text) WEFT_##name = number,
    WEFT_STATUS_LIST(X)
#undef X
} weft_status;

/** Why a call failed. The caller owns it; a call that succeeds leaves it as it was, or clears it. */
typedef struct weft_error {
    weft_status status; /**< What kind of failure. */
    /** One line: "gan.c:31: in generator/fc: add: f32[128,64] and f32[10] do not broadcast: ..." */
    char text[1020];
} weft_error;

/** The sentence of a status. Never NULL, also for numbers outside the list; the text is static. */
WEFT_API const char *weft_status_text(weft_status status);

#ifdef __cplusplus
}
#endif
#endif
