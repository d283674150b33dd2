/* log_lines.c - what logs of lines do, whatever their form: a file at the first call, a line when one is due,
 * and all of it on the disk at the end. */
#include "runtime/hooks/event_file.h"

static weft_status open_file(log_lines *l, const weft_trainer *t, weft_error *error) {
    if (l->file.is_open) return WEFT_OK;
    weft_status status = l->form->is_events ? event_file_open(&l->file, t->env, error)
                                            : log_file_open(&l->file, t->env, error);
    const char *head = l->form->head;
    if (!status && head && l->file.bytes == 0) log_file_write(&l->file, log_step(t), head, strlen(head));
    return status;
}

static weft_status lines_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    log_lines *l = self;
    const char *phase;
    if (t->progress.rank) return WEFT_OK;
    if (open_file(l, t, error)) return error->status;
    if (interval_line(&l->interval, t, point, &phase, &l->values)) l->form->write(l, t, phase);
    if (point == WEFT_AFTER_RUN || point == WEFT_AFTER_TEST) log_file_sync(&l->file, log_step(t));
    return WEFT_OK;
}

static weft_status lines_check(void *self, weft_error *error) {
    return log_file_check(&((const log_lines *)self)->file, error);
}

static void lines_free(void *self) {
    log_lines *l = self;
    log_file_close(&l->file);
    kit_free(l);
}

weft_hook log_lines_hook(const log_form *form, const char *path, int64_t every) {
    if (!path) return hook_refused(form->without);
    log_lines *l = kit_object(NULL, sizeof *l);
    if (!l) return hook_refused(NULL);
    l->form = form;
    l->interval.every = every;
    interval_open(&l->interval, &l->memory, l->kept);
    log_file_new(&l->file, &l->memory, form->is_events ? NULL : path, form->is_events ? path : NULL);
    l->kept[INTERVAL_KEPT] =
        (weft_hook_number){l->file.path, &l->file.bytes}; /* of this file: another one is new */
    return hook_made((weft_hook){.name = form->name,
                                 .at = lines_at,
                                 .free = lines_free,
                                 .check = lines_check,
                                 .self = l,
                                 /* a resumed run has an event file of its own */
                                 .n_kept = INTERVAL_KEPT + !form->is_events,
                                 .kept = l->kept});
}
