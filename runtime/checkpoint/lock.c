/* lock.c - a folder of checkpoints belongs to one training at a time. The lock is flock's, on the folder
 * itself, so it ends with the process. */
#include "runtime/checkpoint/checkpoint.h"

#include "graph/file/io_posix.h"

#include <unistd.h>

struct weft_checkpoint_lock {
    weft_env env;
    int descriptor; /* -1: nobody has the folder */
};

weft_checkpoint_lock *weft_checkpoint_lock_take(const char *folder, const weft_env *env, weft_error *error) {
    if (error) *error = (weft_error){0};
    weft_checkpoint_lock *l = folder ? mem_new(env, sizeof *l) : NULL;
    if (!folder) error_set(error, WEFT_ARGUMENT, "weft_checkpoint_lock_take: a folder is needed");
    if (folder && !l) error_memory(error, folder);
    if (!l) return NULL;
    *l = (weft_checkpoint_lock){.env = env ? *env : (weft_env){0}, .descriptor = -1};
    if (io_of(env) != &posix_io || !posix_lock_folder(folder, &l->descriptor)) return l;
    error_set(error, WEFT_ORDER, "%.600s: another training writes its checkpoints there", folder);
    weft_checkpoint_lock_release(l);
    return NULL;
}

void weft_checkpoint_lock_release(weft_checkpoint_lock *l) {
    if (!l) return;
    weft_env env = l->env;
    if (l->descriptor >= 0) close(l->descriptor);
    mem_free(&env, l, sizeof *l);
}

bool lock_is_held(const weft_checkpoint_lock *l) {
    return l && l->descriptor >= 0;
}
