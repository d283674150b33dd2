/* settings.c - what a resumed training does differently from the one that was saved: from there on its
 * numbers differ from those of one that was not stopped. The file may say anything of its settings. */
#include "runtime/data/kit.h"
#include "runtime/train/trainer.h"
#include "weft/checkpoint.h"

static kit_shown setting_show(const char *text) {
    if (!text) text = "not set";
    return kit_show(text, strlen(text));
}

static void tell_change(const weft_trainer *t, const char *name, const char *was, const char *is) {
    trainer_log(t, "%s was %s, and is %s from iteration %jd on", setting_show(name).text,
                setting_show(was).text, setting_show(is).text, t->progress.iteration);
}

/* NULL: the training that was saved had no such setting. */
static const char *saved(const weft_checkpoint *c, const char *wanted) {
    const char *name, *value;
    for (int i = 0; weft_checkpoint_setting_at(c, i, &name, &value); i++)
        if (strcmp(name, wanted) == 0) return value;
    return NULL;
}

static const char *planned(const weft_plan *plan, const char *wanted) {
    const char *name, *value;
    for (int i = 0; weft_plan_setting_at(plan, i, &name, &value); i++)
        if (strcmp(name, wanted) == 0) return value;
    return NULL;
}

void settings_tell(const weft_trainer *t, const weft_checkpoint *c) {
    const char *name, *value, *other;
    if (!weft_checkpoint_setting_at(c, 0, NULL, NULL)) return; /* it kept none */
    for (int i = 0; weft_checkpoint_setting_at(c, i, &name, &value); i++)
        if (!(other = planned(t->plan, name)) || strcmp(value, other)) tell_change(t, name, value, other);
    for (int i = 0; weft_plan_setting_at(t->plan, i, &name, &value); i++)
        if (!saved(c, name)) tell_change(t, name, NULL, value);
}
