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
    return kit_fail(error, status, "%s", own.text[0] ? own.text : "a hook failed");
}

weft_status hooks_call(weft_trainer *t, weft_point point, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < t->options.n_hooks; i++)
        status = call(&t->options.hooks[i], t, point, error);
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
