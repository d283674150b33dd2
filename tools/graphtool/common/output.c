/* output.c - errors on stderr, files through graph/file/io.c, JSON. */
#include "tools/graphtool/common/output.h"

#include "tools/graphtool/common/options.h"

#include "graph/file/io.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_BYTES = 1400 };

/* How this process reports errors; one per process, as stderr is. */
static struct speaker {
    bool holds, is_from_peer; /* holds: errors are held; is_from_peer: another rank caused the held one */
    bool is_json;             /* errors are JSON, too */
    atomic_bool is_over;      /* a lost rank was reported: what follows from it is not told */
    int rank;
    char line[LINE_BYTES]; /* the held error; empty: none */
} speaker;

void tool_speak_json(void) {
    speaker.is_json = true;
}

bool out_is_coloured(FILE *f) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(none && *none) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(f));
}

/* COLUMNS goes before what the terminal says, as in other programs. */
int out_columns(FILE *f, int otherwise) {
    enum { LEAST = 20, USUAL = 80 };
    struct winsize size;
    const char *said = getenv("COLUMNS");
    if (!isatty(fileno(f))) return otherwise;
    long columns = said ? strtol(said, NULL, 10) : 0;
    if (columns >= LEAST && columns <= INT16_MAX) return (int)columns;
    if (ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST) return size.ws_col;
    return USUAL;
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

void tool_speak_as(int rank) {
    speaker.holds = true;
    speaker.rank = rank;
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

/* Formats a message as one line that is safe for a terminal. */
static void format_line(char line[LINE_BYTES], const char *format, va_list args) {
    char text[LINE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    show_line(line, LINE_BYTES, text);
}

/* Only the first error is held: later ones follow from it. */
int tool_fail(const char *format, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    if (!speaker.holds)
        speak("error", 0, line);
    else if (!*speaker.line)
        memcpy(speaker.line, line, sizeof line);
    return EXIT_MISUSED;
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

void tool_note(const char *format, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    speak("note", speaker.rank, line);
}

void tool_warn(const char *format, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    speak("warning", speaker.rank, line);
}

int tool_error(const weft_error *error) {
    if (!*speaker.line) speaker.is_from_peer = error->status == WEFT_PEER;
    int status = tool_fail("%s", *error->text ? error->text : weft_status_text(error->status));
    return error->status == WEFT_DATA ? EXIT_WRONG : status;
}

int tool_error_in(const char *file, const weft_error *error) {
    weft_error named = {0};
    error_set(&named, error->status, "%.300s: %s", file, error->text);
    return tool_error(&named);
}

/* ---- files ---- */

static int out_stdout(const void *data, size_t bytes) {
    if (fwrite(data, 1, bytes, stdout) == bytes) return EXIT_FINE;
    return tool_fail("standard output: writing failed: %s", strerror(errno));
}

int out_write(const char *path, const void *data, size_t bytes) {
    weft_error error = {0};
    if (!path) return out_stdout(data, bytes);
    fflush(stdout); /* path may be /dev/stdout */
    return file_write_atomic(NULL, path, data, bytes, &error) ? tool_error(&error) : EXIT_FINE;
}

int out_check(const char *path) {
    weft_error error = {0};
    return file_try(NULL, path, &error) ? tool_error(&error) : -1;
}

/* A folder that is there may be full, read-only, or another user's. */
static int try_in(const char *folder) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/.weft", folder) >= (int)sizeof path)
        return tool_fail("%s: the path is too long", folder);
    return out_check(path);
}

int out_folder(const char *path) {
    char *whole = strdup(path);
    if (!whole) return tool_fail("out of memory");
    int wrong = 0;
    for (char *at = whole + 1; !wrong && whole[0]; at++) {
        char was = *at;
        if (was && was != '/') continue;
        *at = 0;
        if (mkdir(whole, 0777) && errno != EEXIST) wrong = errno;
        if (!was) break;
        *at = was;
    }
    free(whole);
    struct stat made;
    if (!wrong && (stat(path, &made) || !S_ISDIR(made.st_mode))) wrong = ENOTDIR;
    return wrong ? tool_fail("%s: the folder cannot be made: %s", path, strerror(wrong)) : try_in(path);
}

int out_end(int status) {
    bool failed = fflush(stdout) != 0;
    int why = failed ? errno : EIO;
    if ((!failed && !ferror(stdout)) || status == EXIT_MISUSED) return status;
    tool_fail("standard output: writing failed: %s", strerror(why));
    return status == EXIT_INTERRUPTED || status == EXIT_NUMBERS ? status : EXIT_MISUSED;
}

shown_path show_path(const char *path) {
    shown_path s;
    show_line(s.text, sizeof s.text, path);
    return s;
}

/* ---- JSON ---- */

static atomic_bool json_lacks_memory;

static void *json_memory(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) atomic_store(&json_lacks_memory, true);
    return memory;
}

void out_watch_json(void) {
    json_set_alloc_funcs(json_memory, free);
}

bool out_json_is_whole(void) {
    return !atomic_load(&json_lacks_memory);
}

int out_json(const char *path, json_t *json) {
    return out_json_digits(path, json, 9);
}

int out_json_digits(const char *path, json_t *json, int digits) {
    if (json) json_object_set_new(json, "schema", json_integer(OUT_SCHEMA));
    char *text =
        json ? json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION((size_t)digits)) : NULL;
    json_decref(json);
    if (!text || !out_json_is_whole()) {
        free(text);
        return tool_fail("out of memory");
    }
    size_t length = strlen(text);
    text[length] = '\n'; /* replaces the final 0; the length is known */
    int status = out_write(path, text, length + 1);
    free(text);
    return status;
}

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

mean_text show_mean(double value, int digits) {
    mean_text t;
    double size = fabs(value);
    if (isnan(value)) return (mean_text){"nan"}; /* never "-nan": the sign has no meaning */
    bool is_plain = value == 0 || (size >= 1e-3 && size < 1e6);
    snprintf(t.text, sizeof t.text, is_plain ? "%.*f" : "%.*g", digits, value);
    return t;
}
