/* hooks.c - calls the hooks of a trainer at a point. */
#include "runtime/train/trainer.h"

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

/* A hook may fail without a text of its own. */
static weft_status call(const weft_hook *hook, weft_trainer *t, weft_point point, weft_error *error) {
    weft_error own = {0};
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

weft_status trainer_check_outside(const weft_trainer *t, const char *call, weft_error *error) {
    if (!t->hook_depth && !t->is_in_step) return WEFT_OK;
    return kit_fail(error, WEFT_ORDER, "%s: it must not be called from a hook or options.train_step", call);
}

/* WEFT_PEER has come from another rank. */
weft_status trainer_tell(weft_trainer *t, weft_status status, const weft_error *error) {
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
