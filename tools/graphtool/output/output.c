/* output.c - files through graph/file/io.c, JSON. */
#include "tools/graphtool/output/output.h"

#include "graph/file/io.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

/* ---- files ---- */

void out_write(const char *path, const void *data, size_t bytes) {
    fflush(stdout); /* path may be /dev/stdout */
    if (path) tool_must(file_write_atomic(NULL, path, data, bytes, &tool_why));
    if (!path && fwrite(data, 1, bytes, stdout) != bytes)
        tool_fail("standard output: writing failed: %s", strerror(errno));
}

void out_text(const char *path, text *t) {
    const char *all = tool_take(t);
    out_write(path, all, strlen(all));
}

void out_check(const char *path) {
    tool_must(file_try(NULL, path, &tool_why));
}

void out_make_folders(char *path) {
    for (char *at = path + 1;; at++) {
        char was = *at;
        if (was && was != '/') continue;
        *at = 0;
        mkdir(path, 0777); /* it may be there; the writer sees */
        if (!was) return;
        *at = was;
    }
}

/* A folder that is there may be full, read-only, or another user's. */
void out_folder(const char *path) {
    struct stat made;
    out_make_folders(tool_text("%s", path));
    if (stat(path, &made)) tool_fail("%s: the folder cannot be made: %s", path, strerror(errno));
    if (!S_ISDIR(made.st_mode)) tool_fail("%s: the folder cannot be made: %s", path, strerror(ENOTDIR));
    out_check(tool_text("%s/.weft", path));
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

void out_json(const char *path, json_t *json) {
    out_json_digits(path, json, 9);
}

void out_json_digits(const char *path, json_t *json, int digits) {
    text t = {0};
    json_object_set_new(json, "schema", json_integer(OUT_SCHEMA));
    char *all = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION((size_t)digits));
    json_decref(json);
    if (!all || !out_json_is_whole()) tool_fail("out of memory");
    text_add(&t, "%s\n", all);
    free(all);
    out_text(path, &t);
}

const char *path_leaf(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool text_ends(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

double json_at(const json_t *of, const char *key) {
    return json_number_value(json_object_get(of, key));
}

static void release_json(void *json) {
    json_decref(json);
}

json_t *json_keep(json_t *json) {
    return tool_keep(json, release_json);
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
