/* ckpt.c - finds checkpoints, and tells of all of a folder which are whole. */
#include "tools/graphtool/common/ckpt.h"

#include "graph/core/error.h"
#include "tools/graphtool/common/checkpoints.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/common/tools.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

weft_checkpoint *ckpt_find(const options *o, int word, int *status) {
    weft_error error = {0};
    weft_checkpoint *c = weft_checkpoint_find(o->words[word], NULL, NULL, &checkpoints_env, &error);
    if (!c) *status = tool_error(&error);
    return c;
}

/* The manifest is the last file that is written. */
ckpt_time ckpt_written(const char *path) {
    ckpt_time t = {""};
    struct stat s;
    struct tm parts;
    char manifest[4096];
    int n = snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    if (n < (int)sizeof manifest && stat(manifest, &s) == 0 && gmtime_r(&s.st_mtime, &parts))
        strftime(t.text, sizeof t.text, "%Y-%m-%d %H:%M:%S", &parts);
    return t;
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
    char path[4096];
    weft_checkpoint *c; /* NULL: its manifest cannot be read */
    weft_error why;     /* of status WEFT_OK: it is whole */
} row;

static row row_open(const char *path, int64_t step) {
    row r = {.c = NULL};
    snprintf(r.path, sizeof r.path, "%s", path);
    r.c = weft_checkpoint_open(path, NULL, &r.why);
    if (!r.c || weft_checkpoint_verify(r.c, &r.why)) return r;
    if (step >= 0 && weft_checkpoint_step(r.c) != step) {
        r.why.status = WEFT_FILE;
        snprintf(r.why.text, sizeof r.why.text, "its manifest is of step %lld",
                 (long long)weft_checkpoint_step(r.c));
    }
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
        double best = rows[i].why.status ? NAN : weft_checkpoint_note(rows[i].c, "trainer/best_step");
        if (best > 0 && best <= 0x1p53) return (int64_t)best;
    }
    return 0;
}

static void add_checkpoint(table *t, const row *r, int64_t best) {
    bool is_best = r->c && best && weft_checkpoint_step(r->c) == best;
    table_word(t, folder_of(r));
    if (r->c)
        table_print(t, "%d", ckpt_world(r->c));
    else
        table_word(t, "");
    table_word(t, r->c ? bytes_show(ckpt_bytes(r->c)).text : "");
    table_word(t, ckpt_written(r->path).text);
    table_print(t, "%s%.150s",
                r->why.status ? "not whole: "
                : is_best     ? "whole, the best"
                              : "whole",
                r->why.status ? reason(r) : "");
}

static int is_left(const struct dirent *e) {
    const char *end = strstr(e->d_name, ".tmp");
    return strncmp(e->d_name, "step-", 5) == 0 && end && !end[4];
}

/* Those that are not complete. */
static void add_left(table *t, const char *folder) {
    struct dirent **names;
    int n = scandir(folder, &names, is_left, alphasort);
    for (int i = 0; i < n; i++) {
        table_word(t, SHOW(names[i]->d_name));
        for (int k = 0; k < 3; k++) table_word(t, "");
        table_word(t, "not complete: under way, or left by a process that ended");
        free(names[i]);
    }
    if (n >= 0) free(names);
}

static int rows_text(const char *folder, const row *rows, int n, int64_t best) {
    text all = {0};
    table t = {.columns = 5, .is_right = {false, true, true}};
    static const char *const heads[] = {"checkpoint", "ranks", "bytes", "written (UTC)", "state"};
    for (int i = 0; i < 5; i++) table_word(&t, heads[i]);
    for (int i = 0; i < n; i++) add_checkpoint(&t, &rows[i], best);
    add_left(&t, folder);
    table_write(&all, &t);
    char *text = text_detach(&all);
    int status = text ? out_write(NULL, text, strlen(text)) : tool_fail("out of memory");
    free(text);
    return status;
}

static json_t *row_json(const row *r, int64_t best) {
    json_t *j = json_pack("{s:s, s:b, s:s}", "path", r->path, "whole", !r->why.status, "written",
                          ckpt_written(r->path).text);
    if (r->why.status) json_object_set_new(j, "why", json_string(reason(r)));
    if (!r->c) return j;
    json_object_set_new(j, "step", json_integer(weft_checkpoint_step(r->c)));
    json_object_set_new(j, "world", json_integer(ckpt_world(r->c)));
    json_object_set_new(j, "bytes", json_integer((json_int_t)ckpt_bytes(r->c)));
    json_object_set_new(j, "best", json_boolean(best && weft_checkpoint_step(r->c) == best));
    return j;
}

static int rows_json(const row *rows, int n, int64_t best) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, row_json(&rows[i], best));
    return out_json(NULL, json_pack("{s:o}", "checkpoints", list));
}

/* All of a folder, or the one that is named. NULL with *status set, after printing that there is none. */
static row *rows_open(const char *folder, int *n, int *status) {
    weft_error error = {0};
    int64_t *steps = NULL;
    struct stat s;
    char path[4096];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    bool is_one = stat(path, &s) == 0;
    *n = is_one;
    weft_status listed = is_one ? WEFT_OK : weft_checkpoint_steps(folder, NULL, &steps, n, &error);
    row *rows = listed ? NULL : calloc((size_t)*n + 1, sizeof *rows);
    for (int i = 0; rows && i < *n; i++) {
        snprintf(path, sizeof path, "%s/step-%08lld", folder, is_one ? 0 : (long long)steps[i]);
        rows[i] = is_one ? row_open(folder, -1) : row_open(path, steps[i]);
    }
    free(steps);
    if (rows && *n) return rows;
    if (listed)
        *status = tool_error(&error);
    else if (rows && stat(folder, &s))
        *status = tool_fail("%s: there is no such folder", SHOW_PATH(folder));
    else if (rows)
        *status = tool_fail("%s: it has no checkpoint, a folder step-N", SHOW_PATH(folder));
    else
        *status = tool_fail("out of memory");
    free(rows);
    return NULL;
}

static int tell_all(const options *o, bool fails) {
    int n = 0, status = EXIT_FINE, n_wrong = 0;
    row *rows = rows_open(o->words[0], &n, &status);
    if (!rows) return status;
    status = o->json ? rows_json(rows, n, best_step(rows, n))
                     : rows_text(o->words[0], rows, n, best_step(rows, n));
    for (int i = 0; i < n; i++) {
        n_wrong += rows[i].why.status != WEFT_OK;
        if (fails && rows[i].why.status) tool_fail("%s", rows[i].why.text);
        weft_checkpoint_close(rows[i].c);
    }
    free(rows);
    return fails && n_wrong && !status ? EXIT_WRONG : status;
}

int ckpt_list(const options *o) {
    return tell_all(o, false);
}

int ckpt_verify(const options *o) {
    return tell_all(o, true);
}
