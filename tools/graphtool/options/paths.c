/* paths.c - a command must not overwrite what it reads, whatever spelling or link names the file, and no two
 * of its outputs are one file. The table of options says which of them name files, and how. */
#include "tools/graphtool/options/paths.h"

#include "tools/graphtool/options/option_table.h"
#include "tools/graphtool/output/output.h"

#include "graph/file/io_posix.h"
#include "runtime/data/form.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

/* A file or a folder that a command line names. */
typedef struct place {
    const char *option; /* NULL: the model, or DIR of an action */
    option_file file;
    bool is_note; /* config.json of --work-dir: --config may read it, as it gets the same options */
    bool is_list; /* the option may name several */
    const char *path;
} place;

enum { PLACES = OPTIONS_MOST + 4 * OPTIONS_MAX_DATA };
typedef struct places {
    int n;
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

/* The file as one name: the real folder as far as it is there, and what follows it. NULL: it is not a
 * file. */
static char *whole_path(const char *path) {
    file_place place;
    text whole = {0};
    if (posix_place(path, &place) || place.is_stream) return NULL;
    size_t n = strlen(place.path);
    char real[PATH_MAX] = "";
    while (!*real && n) {
        while (n && place.path[n - 1] != '/') n--; /* the name goes, then the last folder */
        if (!realpath(n ? tool_cut(place.path, place.path + n) : ".", real)) *real = 0;
        if (!*real && n) n--;
    }
    if (!*real) return NULL;
    if (strcmp(real, "/") != 0) text_add(&whole, "%s", real);
    append_names(&whole, place.path + n);
    return tool_take(&whole);
}

/* Are these two names of one regular file? Devices may be named twice. */
static bool is_same(const char *a, const char *b) {
    struct stat sa, sb;
    bool has_a = stat(a, &sa) == 0, has_b = stat(b, &sb) == 0;
    if (has_a && has_b) return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    const char *whole_a = has_a == has_b ? whole_path(a) : NULL, *whole_b = whole_path(b);
    return whole_a && whole_b && strcmp(whole_a, whole_b) == 0;
}

/* Is it a picture of the series? "photo-500.png" is one of "photo.png". */
static bool is_numbered(const char *path, const char *series) {
    size_t stem = path_stem(series);
    size_t digits =
        strncmp(path, series, stem) == 0 && path[stem] == '-' ? strspn(path + stem + 1, "0123456789") : 0;
    return digits && strcmp(path + stem + 1 + digits, series + stem) == 0;
}

/* What lies in a folder of checkpoints, but outside each of them, is read by nobody. */
static bool is_of_step(const char *folder, const char *rest) {
    return access(tool_text("%s/manifest.json", folder), F_OK) == 0 ||
           (strncmp(rest, "step-", 5) == 0 && strchr(rest, '/'));
}

/* Does the file lie in a folder of models, or is it one of them by another name? */
static bool is_of_models(const char *path, const char *folder) {
    const char *whole = whole_path(path), *inside = whole_path(tool_text("%s/x", folder));
    size_t n = inside ? (size_t)(strrchr(inside, '/') + 1 - inside) : 0;
    bool is = whole && inside && strncmp(whole, inside, n) == 0;
    DIR *d = is ? NULL : opendir(folder);
    for (struct dirent *e; !is && d && (e = readdir(d));)
        is = is_same(path, tool_text("%s/%s", folder, e->d_name));
    if (d) closedir(d);
    return is;
}

/* Is the file that is written there already, in a folder that is read? */
static bool is_inside(const char *path, const place *folder) {
    char real[PATH_MAX];
    if (!path_is_folder(folder->path) || !path_is_file(path) || !realpath(folder->path, real)) return false;
    const char *whole = whole_path(path);
    size_t n = strlen(real);
    n -= n == 1; /* the root folder */
    bool is_inside = whole && strncmp(whole, real, n) == 0 && whole[n] == '/';
    return is_inside && (folder->file != READS_STEPS || is_of_step(real, whole + n + 1));
}

/* ---- the files of a command line ---- */

static void add_place(places *all, place p) {
    if (p.path) all->v[all->n++] = p;
}

/* The part of an option's value that is opened: no NAME before it, no options and fields after it. */
static void add_value(places *all, const option_row *row, const char *value) {
    static const char rows[] = "rows:";
    bool has_name = strstr(row->argument, "=FILE") || row->file == READS_ROWS;
    const char *from = has_name ? strchr(value, '=') + 1 : value, *rest;
    bool has_rows = row->file == READS_ROWS && strncmp(from, rows, strlen(rows)) == 0;
    if (row->file == READS_ROWS && !has_rows) return;
    if (has_rows) from += strlen(rows);
    const char *before = row->file == WRITES_PICTURES ? option_name_before(from, &rest) : "";
    if (row->file == READS_DATA || has_rows) before = tool_cut(from, from + source_path_bytes(from));
    add_place(all, (place){.option = row->field.name,
                           .file = has_rows ? READS_DATA : row->file,
                           .is_list = row->form == OPTION_LIST,
                           .path = *before ? before : from});
}

static void add_option(places *all, const option_row *row, const options *o) {
    const void *at = (const char *)o + row->field.offset;
    const text_list *list = at;
    if (row->form == OPTION_LIST) {
        for (int i = 0; i < list->n; i++) add_value(all, row, list->v[i]);
        return;
    }
    const char *value = *(const char *const *)at;
    if (row->file == READS_MODELS && value && strcmp(value, "zoo") == 0) return;
    if (row->file == READS_STEPS && value && strcmp(value, "auto") == 0) value = o->checkpoint_dir;
    if (value) add_value(all, row, value);
}

size_t path_stem(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
}

const char *paths_best(const char *output) {
    size_t stem = path_stem(output);
    return tool_text("%.*s.best%s", (int)stem, output, output + stem);
}

/* The model, DIR of an action, and what options name; the file of --best, and the settings in --work-dir. */
static void collect(places *all, const options *o) {
    add_place(all, (place){.file = READS, .path = o->model});
    add_place(all, (place){.file = READS, .path = o->other});
    for (int i = 0; o->action && i < o->action->n_words; i++)
        add_place(all, (place){.file = READS_STEPS, .path = o->words[i]});
    if (o->best && o->output)
        add_place(all, (place){.option = "best", .file = WRITES, .path = paths_best(o->output)});
    for (const option_row *row = NULL; (row = option_next(o->command, row));)
        if (row->file) add_option(all, row, o);
    if (o->work_dir)
        add_place(all, (place){.option = "work-dir",
                               .file = WRITES,
                               .is_note = true,
                               .path = tool_text("%s/config.json", o->work_dir)});
}

/* ---- comparing ---- */

static bool is_read(const place *p) {
    return p->file == READS || p->file == READS_DATA || p->file == READS_STEPS || p->file == READS_MODELS;
}

/* Would writing this file change what `other` is? */
static bool is_part_of(const char *path, const place *other) {
    if (other->file == READS_MODELS) return is_of_models(path, other->path);
    return is_same(path, other->path) || (is_read(other) && is_inside(path, other));
}

/* Would a picture of the series, or the one of all moments? */
static bool is_pictured(const char *series, const place *other) {
    const char *whole = whole_path(series), *path = whole_path(other->path);
    bool is = is_part_of(series, other) || (whole && path && is_numbered(path, whole));
    if (is || !whole) return is;
    const char *folder = tool_cut(whole, strrchr(whole, '/') + 1);
    DIR *d = opendir(folder);
    for (struct dirent *e; !is && d && (e = readdir(d));) {
        const char *one = tool_text("%s%s", folder, e->d_name);
        is = is_numbered(one, whole) && is_part_of(one, other);
    }
    if (d) closedir(d);
    return is;
}

/* Would writing `out` change what `other` is? */
static bool spoils(const place *out, const place *other) {
    /* what is written into a folder has new names */
    if (out->file == FILLS && !path_is_file(out->path)) return false;
    if (out->is_note && other->option && strcmp(other->option, "config") == 0) return false;
    if (out->file == WRITES_PICTURES) return is_pictured(out->path, other);
    return other->file == WRITES_PICTURES ? is_pictured(other->path, out) : is_part_of(out->path, other);
}

static _Noreturn void refuse_output(const place *out, const place *other) {
    const char *what = !other->option && other->file == READS         ? "the model"
                       : !other->option                               ? "a file of the checkpoint"
                       : other->is_list || other->file == READS_STEPS ? "a file of --"
                                                                      : "the file of --";
    if (other->file == READS_MODELS)
        tool_fail("--%s %s: it lies in the folder of --%s, which is read: write it elsewhere", out->option,
                  out->path, other->option);
    tool_fail("--%s %s: it is %s%s too, which would be overwritten", out->option, out->path, what,
              other->option ? other->option : "");
}

/* Each output beside all that is read and the outputs after it in the list. */
void paths_check(const options *o) {
    places *all = tool_new(1, sizeof *all);
    collect(all, o);
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->n && !is_read(&all->v[i]); k++) {
            const place *out = &all->v[i], *other = &all->v[k];
            bool is_pair = is_read(other) || (k > i && out->file != FILLS && other->file != FILLS);
            if (is_pair && spoils(out, other)) refuse_output(out, other);
        }
}

bool path_is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

bool path_is_file(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISREG(at.st_mode);
}
