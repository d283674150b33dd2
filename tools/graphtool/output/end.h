/* end.h - what is reported to a person, and how a command ends: an error ends it wherever it is met. What the
 * command has opened by then is kept, and closed in order; so functions that can fail return what they make.
 * Everything told is one line, safe for a terminal, whatever names and files contain. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OUTPUT_END_H
#define WEFT_TOOLS_GRAPHTOOL_OUTPUT_END_H

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "weft/comm.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- the end ---- */

enum {
    EXIT_FINE = 0,
    EXIT_WRONG = 1,
    EXIT_MISUSED = 2,
    EXIT_PEER = 7,
    EXIT_NUMBERS = 8, /* all ranks have met a bad step, or a loss or weight that is not finite */
    EXIT_INTERRUPTED = 130
};

/* Closes what is kept and ends the process. */
_Noreturn void tool_end(int status);
/* How it does that: exit(), unless a test has a way back. */
extern void (*tool_exit)(int status) __attribute__((noreturn));
/* Keeps a thing that `close` is called with at the end, the newest first. Returns it. */
void *tool_keep(void *thing, void (*close)(void *thing));
/* What the library was asked to make; NULL: it was not, as tool_why says, and that is the end. */
void *tool_got(void *thing);
/* The exit status, which `close` may change. */
extern int tool_status;
/* Closes what is kept; for tests that begin again. */
void tool_close(void);

/* Memory until the end, zeroed; tool_need: what it is given. Where there is none, that is the end. */
void *tool_new(size_t count, size_t width);
void *tool_need(void *memory);
/* A text until the end. tool_take: of what was gathered, which it empties. */
char *tool_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *tool_vtext(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
char *tool_take(text *t);
/* The same of what is from `begin` to before `end`. */
char *tool_cut(const char *begin, const char *end);

/* ---- errors ---- */

/* Prints "graphtool: <message>" on stderr and ends with EXIT_MISUSED. */
_Noreturn void tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Where the library says why it could not do what a command cannot continue without; tool_must ends the
 * command with that, unless the status is WEFT_OK. */
extern weft_error tool_why;
void tool_must(weft_status status);
/* The same for a weft_error: ends with EXIT_WRONG for values met at run time, else EXIT_MISUSED. */
_Noreturn void tool_error(const weft_error *error);
/* That of tool_why, for the contents of a file, whose name is put in front. */
_Noreturn void tool_error_in(const char *file);
/* Prints an error, and the command continues; the second returns the status that it would end with. */
void tool_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
int tool_tell_error(const weft_error *error);

/* Prints a warning at once, also when errors are held; the command continues. */
void tool_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for what is no reason to worry. */
void tool_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An error at once, from any thread, also when errors are held; what comes after it is not reported. `rings`:
 * the folder that has more; NULL: there is none. `text` NULL: nothing is reported from here on. */
void tool_report(const char *text, const char *rings);
/* "schema" of all JSON that graphtool prints: it grows when a key is gone or means something else. */
enum { OUT_SCHEMA = 1 };
/* From here on errors, warnings and notes are lines of JSON: {"error": "...", "rank": 0, "schema": 1}. */
void tool_speak_json(void);

/* For one rank of several: from here on the first error is held, and tool_tell_held prints it with the rank.
 * Ranks that are not the first to print wait for the job's end before they do: only one error is shown. */
void tool_speak_as(int rank);
void tool_tell_held(weft_comm *comm); /* comm may be NULL */
/* For an error that all ranks have met together: rank 0 prints it. */
void tool_tell_once(void);

/* Whether colours may be written there: it is a terminal, and NO_COLOR is not set. */
bool out_is_coloured(FILE *f);

/* A path that is safe for a terminal, see show_line. */
typedef struct shown_path {
    char text[600];
} shown_path;
shown_path show_path(const char *path);
#define SHOW_PATH(path) (show_path(path).text)

#endif
