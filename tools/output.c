/* output.c - errors on stderr, atomic files, JSON. */
#include "tools/output.h"

#include "tools/options.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who speaks on stderr: the process. */
static struct speaker {
    bool holds, is_hearsay;
    int rank;
    char line[1400]; /* held; empty: nothing */
} speaker;

void tool_speak_as(int rank) {
    speaker = (struct speaker){.holds = true, .rank = rank};
}

void tool_tell_held(void) {
    if (!*speaker.line) return;
    sleep((unsigned)(speaker.rank > 0) + speaker.is_hearsay);
    char rank[32] = "";
    if (speaker.rank) snprintf(rank, sizeof rank, "rank %d: ", speaker.rank);
    fprintf(stderr, "graphtool: %s%s\n", rank, speaker.line);
    *speaker.line = 0;
}

int tool_fail(const char *format, ...) {
    char line[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' '; /* one line, whatever a file name holds */
    if (!speaker.holds)
        fprintf(stderr, "graphtool: %s\n", line);
    else if (!*speaker.line)
        memcpy(speaker.line, line, sizeof line);
    return EXIT_MISUSED;
}

int tool_error(const weft_error *error) {
    if (!*speaker.line) speaker.is_hearsay = error->status == WEFT_PEER;
    int status = tool_fail("%s", *error->text ? error->text : weft_status_text(error->status));
    return error->status == WEFT_DATA ? EXIT_WRONG : status;
}

/* ---- files ---- */

int out_open(out_file *f, const char *path) {
    *f = (out_file){.stream = stdout, .path = path};
    if (!path) return -1;
    size_t room = strlen(path) + 32;
    if (!(f->beside = malloc(room))) return tool_fail("memory could not be had");
    snprintf(f->beside, room, "%s.%ld.tmp", path, (long)getpid());
    f->stream = fopen(f->beside, "wb");
    if (f->stream) return -1;
    int why = errno;
    free(f->beside);
    return tool_fail("%s: it cannot be written: %s", path, strerror(why));
}

static int failed(out_file *f, int why) {
    int status = tool_fail("%s: writing failed: %s", f->path ? f->path : "standard output", strerror(why));
    out_abandon(f);
    return status;
}

int out_close(out_file *f) {
    errno = EIO;
    if (ferror(f->stream) || fflush(f->stream)) return failed(f, errno);
    if (!f->path) return -1;
    if (fsync(fileno(f->stream)) && errno != EINVAL) return failed(f, errno);
    int closed = fclose(f->stream);
    f->stream = NULL;
    if (closed || rename(f->beside, f->path)) return failed(f, errno);
    free(f->beside);
    return -1;
}

void out_abandon(out_file *f) {
    if (!f->path) return;
    if (f->stream) fclose(f->stream);
    remove(f->beside);
    free(f->beside);
}

int out_write(const char *path, const void *data, size_t bytes) {
    out_file f;
    int status = out_open(&f, path);
    if (status >= 0) return status;
    if (fwrite(data, 1, bytes, f.stream) != bytes) return failed(&f, errno);
    status = out_close(&f);
    return status >= 0 ? status : EXIT_FINE;
}

int out_check(const char *path) {
    struct stat s;
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        return tool_fail("%s: it cannot be written: it is a folder", path);
    char *copy = strdup(path);
    if (!copy) return tool_fail("memory could not be had");
    int closed = access(dirname(copy), W_OK | X_OK) ? errno : 0;
    free(copy);
    return closed ? tool_fail("%s: it cannot be written: %s", path, strerror(closed)) : -1;
}

/* ---- JSON ---- */

int out_json(const char *path, json_t *json) {
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text) return tool_fail("memory could not be had");
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the NUL: the length is known */
    int status = out_write(path, text, length + 1);
    free(text);
    return status;
}

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}
