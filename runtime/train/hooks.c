/* hooks.c - calls the hooks of a trainer: when it is made, at each point, and when it is checked. */
#include "runtime/train/trainer.h"

const char *weft_hook_point_name(weft_hook_point point) {
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
static weft_status call(const weft_hook *hook, weft_trainer *t, weft_hook_point point, weft_error *error) {
    weft_error own = {0};
    if (t->progress.world > 1) tell_place(t, hook);
    weft_status status = hook->at(hook->self, t, point, &own);
    if (!status) return WEFT_OK;
    if (own.text[0]) return kit_fail(error, status, "%s", own.text);
    return kit_fail(error, status, "a hook failed: %s", hook->name ? hook->name : "it has no name");
}

weft_status hooks_call(weft_trainer *t, weft_hook_point point, weft_error *error) {
    weft_status status = WEFT_OK;
    if (t->hook_depth == 8) /* say, one that validates before each validation */
        return kit_fail(error, WEFT_ORDER, "hooks call hooks without end, at %s",
                        weft_hook_point_name(point));
    t->hook_depth++;
    for (int i = 0; !status && i < t->options.n_hooks; i++)
        status = call(&t->options.hooks[i], t, point, error);
    t->hook_depth--;
    return status;
}

weft_status hooks_open(weft_trainer *t, weft_error *error) {
    for (int i = 0; i < t->options.n_hooks; i++) {
        const weft_hook *h = &t->options.hooks[i];
        weft_status status = h->open ? h->open(h->self, t, error) : WEFT_OK;
        if (status) return status;
    }
    return WEFT_OK;
}

weft_status hooks_check(const weft_trainer *t, weft_error *error) {
    for (int i = 0; i < t->options.n_hooks; i++) {
        const weft_hook *h = &t->options.hooks[i];
        weft_status status = h->check ? h->check(h->self, error) : WEFT_OK;
        if (status) return status;
    }
    return WEFT_OK;
}
