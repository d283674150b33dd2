/* ckpt.c - finds checkpoints, and tells of all of a folder which are whole. */
#include "tools/graphtool/checkpoints/ckpt.h"

#include "tools/graphtool/options/checkpoints.h"
#include "tools/graphtool/output/table.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static void close_checkpoint(void *c) {
    weft_checkpoint_close(c);
}

weft_checkpoint *ckpt_find(const options *o, int word) {
    return tool_keep(tool_got(weft_checkpoint_find(o->words[word], NULL, NULL, &checkpoints_env, &tool_why)),
                     close_checkpoint);
}

/* The manifest is the last file that is written. */
const char *ckpt_written(const char *path) {
    enum { ROOM = 40 };
    char *time = tool_new(ROOM, 1);
    struct stat s;
    struct tm parts;
    if (stat(tool_text("%s/manifest.json", path), &s) == 0 && gmtime_r(&s.st_mtime, &parts))
        strftime(time, ROOM, "%Y-%m-%d %H:%M:%S", &parts);
    return time;
}

uint64_t ckpt_bytes(const weft_checkpoint *c) {
    uint64_t all = 0, bytes;
    for (int i = 0; weft_checkpoint_file_at(c, i, NULL, &bytes); i++) all += bytes;
    return all;
}

int ckpt_world(const weft_checkpoint *c) {
    int n = 0;
    while (weft_checkpoint_file_at(c, n, NULL, NULL)) n++;
    return n;
}

/* ---- list and verify: each checkpoint of a folder ---- */

/* One of them; what is not whole has `why`, and may have no more than its path. */
typedef struct row {
    const char *path;
    weft_checkpoint *c; /* NULL: its manifest cannot be read */
    weft_error why;     /* of status WEFT_OK: it is whole */
} row;

static row row_open(const char *path, int64_t step) {
    row r = {.path = path};
    r.c = weft_checkpoint_open(path, NULL, &r.why);
    if (r.c) tool_keep(r.c, close_checkpoint);
    if (r.c && !weft_checkpoint_verify(r.c, &r.why) && step >= 0 && weft_checkpoint_step(r.c) != step)
        error_set(&r.why, WEFT_FILE, "its manifest is of step %lld", (long long)weft_checkpoint_step(r.c));
    return r;
}

/* Errors begin with the path, which the table has already. */
static const char *reason(const row *r) {
    size_t n = strlen(r->path);
    const char *text = r->why.text;
    if (strncmp(text, r->path, n) == 0 && text[n] == '/') return text + n + 1;
    return strncmp(text, r->path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

/* "step-00000100" */
static const char *folder_of(const row *r) {
    const char *slash = strrchr(r->path, '/');
    return slash ? slash + 1 : r->path;
}

/* The best one as the newest whole one knows it; 0: none. */
static int64_t best_step(const row *rows, int n) {
    for (int i = n; i-- > 0;) {
        double best = rows[i].why.status ? NAN : weft_checkpoint_note_value(rows[i].c, "trainer/best_step");
        if (best > 0 && best <= 0x1p53) return (int64_t)best;
    }
    return 0;
}

static bool is_best(const row *r, int64_t best) {
    return r->c && best && weft_checkpoint_step(r->c) == best;
}

static int is_left(const struct dirent *e) {
    const char *end = strstr(e->d_name, ".tmp");
    return strncmp(e->d_name, "step-", 5) == 0 && end && !end[4];
}

/* Those that are not complete. */
static void add_left(json_t *list, const char *folder) {
    struct dirent **names;
    int n = scandir(folder, &names, is_left, alphasort);
    for (int i = 0; i < n; free(names[i++]))
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", SHOW(names[i]->d_name), "state",
                                              "not complete: under way, or left by a process that ended"));
    if (n >= 0) free(names);
}

static json_t *row_json(const row *r, int64_t best) {
    const char *why = r->why.status ? reason(r) : NULL;
    const char *state = why                ? tool_text("not whole: %.150s", why)
                        : is_best(r, best) ? "whole, the best"
                                           : "whole";
    json_t *j = json_pack("{s:s, s:s, s:b, s:s, s:s, s:s*}", "path", r->path, "name", folder_of(r), "whole",
                          !why, "state", state, "written", ckpt_written(r->path), "why", why);
    if (r->c)
        json_object_update_new(j, json_pack("{s:I, s:i, s:I, s:b}", "step",
                                            (json_int_t)weft_checkpoint_step(r->c), "world", ckpt_world(r->c),
                                            "bytes", (json_int_t)ckpt_bytes(r->c), "best", is_best(r, best)));
    return j;
}

/* As text with those that are not complete. */
static void rows_print(const options *o, const row *rows, int n) {
    static const table_column columns[] = {{"checkpoint", "name"},
                                           {"ranks", "world", 1},
                                           {"bytes", "bytes", 0x1p-20, 1, " MiB"},
                                           {"written (UTC)", "written"},
                                           {"state", "state"}};
    json_t *list = json_array();
    int64_t best = best_step(rows, n);
    text t = {0};
    for (int i = 0; i < n; i++) json_array_append_new(list, row_json(&rows[i], best));
    if (o->json) {
        out_json(NULL, json_pack("{s:o}", "checkpoints", list));
        return;
    }
    add_left(list, o->words[0]);
    table_json(&t, list, 5, columns);
    json_decref(list);
    out_text(NULL, &t);
}

/* All of a folder, or the one that is named. */
static row *rows_open(const char *folder, int *n) {
    int64_t *steps = NULL;
    struct stat s;
    bool is_one = stat(tool_text("%s/manifest.json", folder), &s) == 0;
    *n = is_one;
    if (!is_one) tool_must(weft_checkpoint_steps(folder, NULL, &steps, n, &tool_why));
    if (!*n && stat(folder, &s)) tool_fail("%s: there is no such folder", folder);
    if (!*n) tool_fail("%s: it has no checkpoint, a folder step-N", folder);
    row *rows = tool_new((size_t)*n, sizeof *rows);
    for (int i = 0; i < *n; i++)
        rows[i] = is_one ? row_open(folder, -1)
                         : row_open(tool_text("%s/step-%08lld", folder, (long long)steps[i]), steps[i]);
    weft_checkpoint_steps_free(steps);
    return rows;
}

static int tell_all(const options *o, bool fails) {
    int n, status = EXIT_FINE;
    row *rows = rows_open(o->words[0], &n);
    rows_print(o, rows, n);
    for (int i = 0; fails && i < n; i++) {
        if (!rows[i].why.status) continue;
        tool_tell("%s", rows[i].why.text);
        status = EXIT_WRONG;
    }
    return status;
}

int ckpt_list(const options *o) {
    return tell_all(o, false);
}

int ckpt_verify(const options *o) {
    return tell_all(o, true);
}
