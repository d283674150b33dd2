/* hook.c - see hook.h. */
#include "runtime/hooks/hook.h"

#include <errno.h>
#include <sys/stat.h>

weft_status hook_check_folder(const weft_trainer *t, const char *hook, const char *path, weft_error *error) {
    struct stat is;
    char folder[4096], what[200];
    size_t n = path ? strlen(path) : 0;
    while (n && path[n - 1] == '/') n--;
    while (n && path[n - 1] != '/') n--;
    if (n < 2 || t->progress.rank || (t->env && t->env->io)) return WEFT_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(n - 1), path);
    int code = stat(folder, &is) ? errno : S_ISDIR(is.st_mode) ? 0 : ENOTDIR;
    if (!code) return WEFT_OK;
    snprintf(what, sizeof what, "the hook %.80s cannot write there", hook);
    return weft_error_io(error, path, what, code);
}

weft_hook hook_refused(const char *why) {
    return (weft_hook){.name = why};
}

weft_hook hook_made(weft_hook hook) {
    const kit_arena *memory = hook.self;
    if (!memory->is_out) return hook;
    hook.free(hook.self);
    return hook_refused(NULL);
}
