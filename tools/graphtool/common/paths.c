/* paths.c - a command must not overwrite what it reads, whatever spelling or link names the file, and no two
 * of its outputs are one file. The table of options says which of them name files, and how. */
#include "tools/graphtool/common/paths.h"

#include "tools/graphtool/common/option_table.h"
#include "tools/graphtool/common/output.h"

#include "graph/core/mem.h"
#include "graph/file/io_posix.h"
#include "runtime/data/form.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file or a folder that a command line names. */
typedef struct place {
    const char *option; /* NULL: the model, or DIR of an action */
    option_file file;
    bool is_note; /* config.json of --work-dir: --config may read it, as it gets the same options */
    bool is_list; /* the option may name several */
    char *path;
} place;

enum { PLACES = OPTIONS_MOST + 4 * OPTIONS_MAX_DATA };
typedef struct places {
    int n;
    bool lacks_memory;
    place v[PLACES];
} places;

/* ---- one file by two names ---- */

/* Appends a path that is not there yet, without what says nothing: "a//./b" is "a/b". */
static void append_names(text *whole, const char *names) {
    for (size_t n; *names; names += n) {
        names += strspn(names, "/");
        n = strcspn(names, "/");
        if (n && !(n == 1 && *names == '.')) text_add(whole, "/%.*s", (int)n, names);
    }
}

/* The file as one name: the real folder as far as it is there, and what follows it; free() it. NULL: it is no
 * file. */
static char *whole_path(const char *path) {
    file_place place;
    text whole = {0};
    if (posix_place(path, &place) || place.is_stream) return NULL;
    size_t n = strlen(place.path);
    char *folder = NULL, *real = NULL;
    while (!real && n) {
        while (n && place.path[n - 1] != '/') n--; /* the name goes, then the last folder */
        folder = n ? strndup(place.path, n) : strdup(".");
        real = folder ? realpath(folder, NULL) : NULL;
        free(folder);
        if (!real && n) n--;
    }
    if (!real) return NULL;
    if (strcmp(real, "/") != 0) text_add(&whole, "%s", real);
    append_names(&whole, place.path + n);
    free(real);
    return text_detach(&whole);
}

/* Are these two names of one regular file? Devices may be named twice. */
static bool is_same(const char *a, const char *b) {
    struct stat sa, sb;
    bool has_a = stat(a, &sa) == 0, has_b = stat(b, &sb) == 0;
    if (has_a && has_b) return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    if (has_a != has_b) return false;
    char *whole_a = whole_path(a), *whole_b = whole_path(b);
    bool same = whole_a && whole_b && strcmp(whole_a, whole_b) == 0;
    free(whole_a);
    free(whole_b);
    return same;
}

/* Is it a picture of the series? "photo-500.png" is one of "photo.png". */
static bool is_numbered(const char *path, const char *series) {
    const char *dot = strrchr(series, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - series) : strlen(series);
    size_t digits =
        strncmp(path, series, stem) == 0 && path[stem] == '-' ? strspn(path + stem + 1, "0123456789") : 0;
    return digits && strcmp(path + stem + 1 + digits, series + stem) == 0;
}

/* What lies in a folder of checkpoints, but outside each of them, is read by nobody. */
static bool is_of_step(const char *folder, const char *rest) {
    char manifest[PATHS_ROOM];
    int n = snprintf(manifest, sizeof manifest, "%s/manifest.json", folder);
    bool is_step = n < (int)sizeof manifest && access(manifest, F_OK) == 0;
    return is_step || (strncmp(rest, "step-", 5) == 0 && strchr(rest, '/'));
}

/* Is the file that is written there already, in a folder that is read? */
static bool is_inside(const char *path, const place *folder) {
    struct stat is;
    if (!path_is_folder(folder->path) || stat(path, &is) || !S_ISREG(is.st_mode)) return false;
    char *real = realpath(folder->path, NULL), *whole = whole_path(path);
    size_t n = real ? strlen(real) : 0;
    n -= n == 1; /* the root folder */
    bool inside = real && whole && strncmp(whole, real, n) == 0 && whole[n] == '/';
    if (inside && folder->file == READS_STEPS) inside = is_of_step(real, whole + n + 1);
    free(real);
    free(whole);
    return inside;
}

/* ---- the files of a command line ---- */

static void add_place(places *all, place p, const char *path, size_t bytes) {
    p.path = all->n < PLACES ? strndup(path, bytes) : NULL;
    if (p.path) all->v[all->n++] = p;
    all->lacks_memory |= !p.path;
}

/* Of an option's value the part that is opened: no NAME before it, no options and fields behind it. */
static void add_value(places *all, const option_row *row, const char *value) {
    const char *from = strstr(row->argument, "=FILE") ? strchr(value, '=') + 1 : value, *rest;
    size_t fields = row->file == WRITES_PICTURES ? option_name_before(from, &rest) : 0;
    size_t bytes = row->file == READS_DATA ? source_path_bytes(from) : fields ? fields : strlen(from);
    place p = {.option = row->field.name, .file = row->file, .is_list = row->form == OPTION_LIST};
    add_place(all, p, from, bytes);
}

static void add_option(places *all, const option_row *row, const options *o) {
    const void *at = (const char *)o + row->field.offset;
    const text_list *list = at;
    if (row->form == OPTION_LIST) {
        for (int i = 0; i < list->n; i++) add_value(all, row, list->v[i]);
        return;
    }
    const char *value = *(const char *const *)at;
    if (row->file == READS_STEPS && value && strcmp(value, "auto") == 0) value = o->checkpoint_dir;
    if (value) add_value(all, row, value);
}

bool paths_best(const char *output, char path[PATHS_ROOM]) {
    const char *dot = strrchr(output, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - output) : strlen(output);
    int length = snprintf(path, PATHS_ROOM, "%.*s.best%s", (int)stem, output, output + stem);
    return length < PATHS_ROOM;
}

/* The file of --best beside that of --output. */
static void add_best(places *all, const options *o) {
    char path[PATHS_ROOM];
    if (o->best && o->output && paths_best(o->output, path))
        add_place(all, (place){.option = "best", .file = WRITES}, path, strlen(path));
}

static void add_note(places *all, const options *o) {
    char path[PATHS_ROOM];
    if (o->work_dir && snprintf(path, sizeof path, "%s/config.json", o->work_dir) < PATHS_ROOM)
        add_place(all, (place){.option = "work-dir", .file = WRITES, .is_note = true}, path, strlen(path));
}

/* The model, DIR of an action, and what options name. */
static void collect(places *all, const options *o) {
    if (o->model) add_place(all, (place){.file = READS}, o->model, strlen(o->model));
    for (int i = 0; o->action && i < o->action->n_words; i++)
        add_place(all, (place){.file = READS_STEPS}, o->words[i], strlen(o->words[i]));
    add_best(all, o);
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (row->file && command_has_option(o->command, row->field.name)) add_option(all, row, o);
    add_note(all, o);
}

/* ---- comparing ---- */

static bool is_read(const place *p) {
    return p->file == READS || p->file == READS_DATA || p->file == READS_STEPS;
}

/* Would writing this file change what `other` is? */
static bool is_part_of(const char *path, const place *other) {
    return is_same(path, other->path) || (is_read(other) && is_inside(path, other));
}

/* Would a picture of the series, or the one of all moments? */
static bool is_pictured(const char *series, const place *other) {
    char *whole = whole_path(series), *path = whole_path(other->path),
         *slash = whole ? strrchr(whole, '/') : NULL;
    char one[2 * PATHS_ROOM];
    bool is = is_part_of(series, other) || (whole && path && is_numbered(path, whole));
    if (slash) *slash = 0;
    DIR *d = slash ? opendir(slash == whole ? "/" : whole) : NULL;
    for (struct dirent *e; !is && d && (e = readdir(d));) {
        int n = snprintf(one, sizeof one, "%s/%s", whole, e->d_name);
        *slash = '/';
        is = n < (int)sizeof one && is_numbered(one, whole) && is_part_of(one, other);
        *slash = 0;
    }
    if (d) closedir(d);
    free(whole);
    free(path);
    return is;
}

/* Would writing `out` change what `other` is? */
static bool spoils(const place *out, const place *other) {
    struct stat is;
    bool is_there = stat(out->path, &is) == 0 && S_ISREG(is.st_mode);
    if (out->file == FILLS && !is_there) return false; /* a folder: what is written there has new names */
    if (out->is_note && other->option && strcmp(other->option, "config") == 0) return false;
    if (out->file == WRITES_PICTURES) return is_pictured(out->path, other);
    return other->file == WRITES_PICTURES ? is_pictured(other->path, out) : is_part_of(out->path, other);
}

static int refuse_output(const place *out, const place *other) {
    const char *what = !other->option && other->file == READS         ? "the model"
                       : !other->option                               ? "a file of the checkpoint"
                       : other->is_list || other->file == READS_STEPS ? "a file of --"
                                                                      : "the file of --";
    return tool_fail("--%s %s: it is %s%s too, which would be overwritten", out->option, SHOW_PATH(out->path),
                     what, other->option ? other->option : "");
}

/* Each output beside all that is read and the outputs after it in the list. */
static int check_all(const places *all) {
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->n && !is_read(&all->v[i]); k++) {
            const place *out = &all->v[i], *other = &all->v[k];
            bool is_pair = is_read(other) || (k > i && out->file != FILLS && other->file != FILLS);
            if (is_pair && spoils(out, other)) return refuse_output(out, other);
        }
    return -1;
}

int paths_check(const options *o) {
    places all = {0};
    collect(&all, o);
    int status = all.lacks_memory ? tool_fail("out of memory") : check_all(&all);
    for (int i = 0; i < all.n; i++) free(all.v[i].path);
    return status;
}

bool path_is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}
