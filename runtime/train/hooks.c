/* hooks.c - calls the hooks of a trainer at a point; what Weft's own look at before. */
#include "runtime/train/hooks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *weft_point_name(weft_point point) {
    switch (point) {
#define X(name, number, text)                                                                                \
    case WEFT_##name:                                                                                        \
        return text;
        WEFT_POINT_LIST(X)
#undef X
    }
    return "?";
}

/* What the other ranks say of this one if it does not come. */
static void tell_place(const weft_trainer *t, const weft_hook *hook) {
    char place[64];
    snprintf(place, sizeof place, "the hook %.40s", hook->name ? hook->name : "without a name");
    weft_comm_place(t->options.comm, place);
}

/* A hook may fail without a text of its own. */
static weft_status call(const weft_hook *hook, weft_trainer *t, weft_point point, weft_error *error) {
    weft_error own = {0};
    if (t->progress.world > 1 && hook->at) tell_place(t, hook);
    weft_status status = hook->at ? hook->at(hook->self, t, point, &own) : WEFT_OK;
    if (!status) return WEFT_OK;
    if (own.text[0]) return kit_fail(error, status, "%s", own.text);
    return kit_fail(error, status, "a hook failed: %s", hook->name ? hook->name : "it has no name");
}

weft_status hooks_call(weft_trainer *t, weft_point point, weft_error *error) {
    weft_status status = WEFT_OK;
    if (t->hook_depth == 8) /* say, one that validates before each validation */
        return kit_fail(error, WEFT_ORDER, "hooks call hooks without end, at %s", weft_point_name(point));
    t->hook_depth++;
    for (int i = 0; !status && i < t->options.n_hooks; i++)
        status = call(&t->options.hooks[i], t, point, error);
    t->hook_depth--;
    return status;
}

/* ---- what Weft's own hooks look at when a trainer is made ---- */

static const struct {
    weft_status (*at)(void *self, weft_trainer *t, weft_point point, weft_error *error);
    weft_status (*open)(void *self, const weft_trainer *t, weft_error *error);
} openers[] = {{early_stop_at, early_stop_open},
               {best_at, best_open},
               {plateau_at, plateau_open},
               {curves_at, curves_open},
               {samples_at, samples_open}};

weft_status hooks_open(const weft_trainer *t, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; i < t->options.n_hooks; i++)
        for (size_t k = 0; !status && k < sizeof openers / sizeof *openers; k++)
            if (t->options.hooks[i].at == openers[k].at)
                status = openers[k].open(t->options.hooks[i].self, t, error);
    return status;
}

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

bool hook_copy(char **into, const char *text) {
    if (!text) return true;
    if (!(*into = weft_memory_new(NULL, strlen(text) + 1))) return false;
    strcpy(*into, text);
    return true;
}

void hook_free_copy(char *text) {
    if (text) weft_memory_free(NULL, text, strlen(text) + 1);
}

/* ---- errors ---- */

weft_status trainer_check_outside(const weft_trainer *t, const char *call, weft_error *error) {
    if (!t->hook_depth && !t->is_in_step) return WEFT_OK;
    return kit_fail(error, WEFT_ORDER, "%s: it must not be called from a hook or options.train_step", call);
}

/* WEFT_PEER has come from another rank. */
weft_status trainer_tell(const weft_trainer *t, weft_status status, const weft_error *error) {
    if (!status || status == WEFT_PEER || t->is_common || t->progress.world == 1) return status;
    weft_comm_fail(t->options.comm, error->text); /* they say which rank it was */
    return status;
}

weft_status hooks_check(const weft_trainer *t, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < t->options.n_hooks; i++) {
        const weft_hook *h = &t->options.hooks[i];
        if (h->check) status = h->check(h->self, error);
    }
    return status;
}
