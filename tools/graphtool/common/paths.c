/* paths.c - a command must not overwrite what it reads, whatever spelling or link names the file. */
#include "tools/graphtool/common/paths.h"

#include "tools/graphtool/common/output.h"

#include "graph/file/io_posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The real folder and the name of a file that need not exist; free() it. NULL: there is no such folder. */
static char *whole_path(const char *path) {
    file_place place;
    if (posix_place(path, &place) || place.is_stream) return NULL;
    char *slash = strrchr(place.path, '/'), *whole = NULL;
    const char *name = slash ? slash + 1 : place.path;
    char *folder = slash == place.path ? strdup("/")
                   : slash             ? strndup(place.path, (size_t)(slash - place.path))
                                       : strdup(".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    size_t room = real ? strlen(real) + strlen(name) + 2 : 0;
    if (real && (whole = malloc(room))) snprintf(whole, room, "%s/%s", real, name);
    free(real);
    free(folder);
    return whole;
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

/* -1 unless `path` is the same file as `other`, which `what` describes. */
static int check_pair(const char *option, const char *path, const char *what, const char *other) {
    if (!path || !other || !is_same(path, other)) return -1;
    return tool_fail("%s %s: it is %s too, which would be overwritten", option, path, what);
}

static int check_lists(const char *option, const char *path, const char *what, const text_list *list) {
    int status = -1;
    for (int i = 0; i < list->n && status < 0; i++)
        status = check_pair(option, path, what, strchr(list->v[i], '=') + 1);
    return status;
}

static int check_output(const options *o, const char *option, const char *path) {
    int status = check_pair(option, path, "the model", o->model);
    if (status < 0) status = check_pair(option, path, "the file of --weights", o->weights);
    if (status < 0) status = check_pair(option, path, "the file of --calibration", o->calibration);
    if (status < 0) status = check_pair(option, path, "the file of --config", o->config);
    if (status < 0) status = check_lists(option, path, "a file of data", &o->data);
    if (status < 0) status = check_lists(option, path, "a file of data", &o->val_data);
    return status < 0 ? check_lists(option, path, "a file of --picture", &o->picture) : status;
}

bool paths_best(const char *output, char path[PATHS_ROOM]) {
    const char *dot = strrchr(output, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - output) : strlen(output);
    int length = snprintf(path, PATHS_ROOM, "%.*s.best%s", (int)stem, output, output + stem);
    return length < PATHS_ROOM;
}

/* The file of --best beside that of --output. */
static int check_best(const options *o) {
    char path[PATHS_ROOM];
    if (!o->best || !o->output || !paths_best(o->output, path)) return -1;
    int status = check_output(o, "--best", path);
    if (status < 0) status = check_pair("--best", path, "the file of --log", o->log);
    return status < 0 ? check_pair("--best", path, "the file of --csv", o->csv) : status;
}

int paths_check(const options *o) {
    int status = check_output(o, "--output", o->output);
    if (status < 0) status = check_best(o);
    if (status < 0) status = check_output(o, "--log", o->log);
    if (status < 0) status = check_output(o, "--csv", o->csv);
    if (status < 0) status = check_output(o, "--curves", o->curves);
    return status < 0 ? check_pair("--log", o->log, "the file of --output", o->output) : status;
}

bool path_is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}
