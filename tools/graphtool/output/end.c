/* end.c - see end.h. */
#include "tools/graphtool/output/end.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1400 };

/* How this process reports errors; one per process, as stderr is. */
static struct speaker {
    bool holds, is_from_peer; /* holds: errors are held; is_from_peer: another rank caused the held one */
    bool is_json;             /* errors are JSON, too */
    atomic_bool is_over;      /* a lost rank was reported: what follows from it is not reported */
    int rank;
    char line[LINE_BYTES]; /* the held error; empty: none */
} speaker;

/* What is closed at the end. */
static struct ending {
    size_t n, room;
    struct kept {
        void *thing;
        void (*close)(void *thing);
    } * v;
    arena memory;
} ending;

void (*tool_exit)(int status) __attribute__((noreturn)) = exit;
int tool_status;
weft_error tool_why;

/* ---- one line ---- */

bool out_is_coloured(FILE *f) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(none && *none) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(f));
}

/* One line on stderr: {"error": ...} with --json, else the program's name in colour before it. */
static void speak(const char *kind, int rank, const char *line) {
    char from[32] = "";
    if (speaker.is_json) {
        json_t *json =
            json_pack("{s:s%, s:i, s:i}", kind, line, strlen(line), "rank", rank, "schema", OUT_SCHEMA);
        if (json) json_dumpf(json, stderr, JSON_COMPACT | JSON_SORT_KEYS);
        fprintf(stderr, "\n");
        json_decref(json);
        return;
    }
    bool is_coloured = out_is_coloured(stderr);
    if (rank) snprintf(from, sizeof from, "rank %d: ", rank);
    fprintf(stderr, "%sgraphtool:%s %s%s\n",
            !is_coloured                 ? ""
            : strcmp(kind, "error") == 0 ? "\033[1;31m"
                                         : "\033[1;33m",
            is_coloured ? "\033[0m" : "", from, line);
}

/* Formats a message as one line that is safe for a terminal. */
static void format_line(char line[LINE_BYTES], const char *format, va_list args) {
    char text[LINE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    show_line(line, LINE_BYTES, text);
}

void tool_speak_json(void) {
    speaker.is_json = true;
}

void tool_speak_as(int rank) {
    speaker.holds = true;
    speaker.rank = rank;
}

shown_path show_path(const char *path) {
    shown_path s;
    show_line(s.text, sizeof s.text, path);
    return s;
}

/* ---- errors, warnings, notes ---- */

/* Only the first error is held: later ones follow from it. */
static void tell_line(const char *line) {
    if (!speaker.holds)
        speak("error", 0, line);
    else if (!*speaker.line)
        memcpy(speaker.line, line, LINE_BYTES);
}

#define TELL(tell)                                                                                           \
    char line[LINE_BYTES];                                                                                   \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    format_line(line, format, args);                                                                         \
    va_end(args);                                                                                            \
    tell

void tool_fail(const char *format, ...) {
    TELL(tell_line(line));
    tool_end(EXIT_MISUSED);
}

void tool_tell(const char *format, ...) {
    TELL(tell_line(line));
}

void tool_note(const char *format, ...) {
    TELL(speak("note", speaker.rank, line));
}

void tool_warn(const char *format, ...) {
    TELL(speak("warning", speaker.rank, line));
}

int tool_tell_error(const weft_error *error) {
    if (!*speaker.line) speaker.is_from_peer = error->status == WEFT_PEER;
    tool_tell("%s", *error->text ? error->text : weft_status_text(error->status));
    return error->status == WEFT_DATA ? EXIT_WRONG : EXIT_MISUSED;
}

void tool_error(const weft_error *error) {
    tool_end(tool_tell_error(error));
}

void tool_must(weft_status status) {
    if (status) tool_error(&tool_why);
}

void tool_error_in(const char *file) {
    weft_error named = {0};
    error_set(&named, tool_why.status, "%.300s: %s", file, tool_why.text);
    tool_error(&named);
}

void tool_report(const char *text, const char *rings) {
    char line[LINE_BYTES], all[LINE_BYTES];
    atomic_store(&speaker.is_over, true);
    if (!text) return;
    snprintf(all, sizeof all, "%s%s%.200s%s", text, rings ? "; graphtool blame " : "", rings ? rings : "",
             rings ? " shows where each rank was" : "");
    show_line(line, sizeof line, all);
    speak("error", speaker.rank, line);
}

/* The waits order the ranks: rank 0 prints before the others, an error's origin before ranks that only
 * learned of it. The rank that prints ends the job while the others wait; on a busy machine that takes
 * seconds. */
void tool_tell_held(weft_comm *comm) {
    enum { JOB_ENDS_SECONDS = 10 };
    if (!*speaker.line || atomic_load(&speaker.is_over)) return;
    sleep(speaker.rank > 0);
    bool has_ended = !speaker.is_from_peer && comm && weft_comm_poll(comm, NULL);
    if (has_ended || (speaker.is_from_peer && speaker.rank)) sleep(JOB_ENDS_SECONDS);
    if (speaker.is_from_peer && !speaker.rank) sleep(1);
    speak("error", speaker.rank, speaker.line);
    *speaker.line = 0;
}

void tool_tell_once(void) {
    if (*speaker.line && !speaker.rank) speak("error", 0, speaker.line);
    *speaker.line = 0;
}

/* ---- what is kept ---- */

void *tool_need(void *memory) {
    if (!memory) tool_fail("out of memory");
    return memory;
}

void *tool_keep(void *thing, void (*close)(void *thing)) {
    ending.v = tool_need(mem_grow(NULL, ending.v, &ending.room, ending.n + 1, sizeof *ending.v));
    ending.v[ending.n++] = (struct kept){thing, close};
    return thing;
}

void *tool_got(void *thing) {
    if (!thing) tool_error(&tool_why);
    return thing;
}

void *tool_new(size_t count, size_t width) {
    return tool_need(arena_new_array(&ending.memory, count, width));
}

char *tool_vtext(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    size_t room = (size_t)vsnprintf(NULL, 0, format, again) + 1;
    va_end(again);
    char *made = tool_new(room, 1);
    vsnprintf(made, room, format, args);
    return made;
}

char *tool_text(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *made = tool_vtext(format, args);
    va_end(args);
    return made;
}

char *tool_cut(const char *begin, const char *end) {
    return tool_text("%.*s", (int)(end - begin), begin);
}

char *tool_take(text *t) {
    return tool_keep(tool_need(text_detach(t)), free);
}

/* ---- the end ---- */

void tool_close(void) {
    while (ending.n) {
        const struct kept last = ending.v[--ending.n];
        last.close(last.thing);
    }
    mem_free(NULL, ending.v, ending.room * sizeof *ending.v);
    arena_free(&ending.memory);
    ending = (struct ending){0};
    tool_why = (weft_error){0};
}

/* An error where any write to standard output failed. A training that was interrupted keeps its status, by
 * which schedulers start it again. */
static void end_output(void) {
    bool failed = fflush(stdout) != 0;
    int why = failed ? errno : EIO;
    if ((!failed && !ferror(stdout)) || tool_status == EXIT_MISUSED) return;
    tool_tell("standard output: writing failed: %s", strerror(why));
    if (tool_status != EXIT_INTERRUPTED && tool_status != EXIT_NUMBERS) tool_status = EXIT_MISUSED;
}

void tool_end(int status) {
    tool_status = status;
    tool_close();
    end_output();
    tool_exit(tool_status);
}
