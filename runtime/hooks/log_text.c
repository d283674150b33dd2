/* log_text.c - progress as lines of text, or as a bar on a terminal. */
#include "runtime/hooks/log.h"

#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Seconds between two states of the bar. */
static const double bar_seconds = 0.2;

typedef struct text_log {
    kit_arena memory;
    FILE *file;
    bool is_bar;
    bool has_begun;   /* an iteration of this run has ended: a run that resumes may have none left */
    int64_t every;    /* as the caller said it; 0: a bar where a terminal is */
    double shown;     /* when the last line was */
    log_values rates; /* learning rates as the last line has them */
    interval interval;
    log_values values;
    weft_hook_number kept[INTERVAL_KEPT];
} text_log;

/* Never "-nan": the sign has no meaning. */
static void add_metric(kit_line *l, const char *name, double value) {
    double size = fabs(value);
    bool is_plain = value == 0 || (size >= 1e-3 && size < 1e6);
    if (isnan(value))
        kit_add(l, "  %.60s nan", name);
    else
        kit_add(l, is_plain ? "  %.60s %.4f" : "  %.60s %.4g", name, value);
}

static void add_left(kit_line *l, double seconds) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600)
        kit_add(l, "  %ld:%02ld:%02ld left", s / 3600, s / 60 % 60, s % 60);
    else
        kit_add(l, "  %ld:%02ld left", s / 60, s % 60);
}

/* ---- a terminal ---- */

static size_t columns(FILE *file) {
    struct winsize size;
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* Metrics and then `end`. On a terminal metrics that have no room are left out, those at the end first. */
static void add_metrics(const text_log *l, kit_line *of, const kit_line *end) {
    size_t width = l->is_bar ? columns(l->file) - 1 : sizeof of->text;
    for (int k = 0; k < l->values.n; k++) {
        size_t length = of->length;
        add_metric(of, l->values.list[k].name, l->values.list[k].value);
        if (of->length + end->length <= width) continue;
        of->length = length;
        of->text[length] = 0;
        break;
    }
    kit_add(of, "%s", end->text);
}

/* The text, after a bar where there is room for one; the last column stays free, so that nothing wraps. */
static void put_bar(const text_log *l, const kit_line *of, const weft_progress *p) {
    static const char marks[] = "########################";
    size_t width = columns(l->file) - 1, most = sizeof marks - 1,
           room = width > of->length ? width - of->length : 0;
    size_t bar = room < 8 || !p->iterations ? 0 : room - 3 < most ? room - 3 : most;
    int done = bar ? (int)((int64_t)bar * p->iteration / p->iterations) : 0;
    fprintf(l->file, "\r");
    if (bar) fprintf(l->file, "[%.*s%*s] ", done, marks, (int)bar - done, "");
    fprintf(l->file, "%.*s\033[K", (int)width, of->text);
}

/* ---- lines ---- */

/* The least of 10, 20, 50, 100, 200, ... that is `least` or more. */
static int64_t round_number(int64_t least) {
    int64_t power = LOG_EVERY;
    while (power * 5 < least) power *= 10;
    return power >= least ? power : power * 2 >= least ? power * 2 : power * 5;
}

/* Iterations from a line to the next: a round number that makes about twenty lines of the run. At its begin
 * lines are at 10, 20, 50, 100 and so on, so that a long run tells soon how it goes. A run of an unknown
 * number of iterations (0) is taken to end now. */
static int64_t lines_every(int64_t iterations, int64_t now) {
    int64_t every = round_number(((iterations ? iterations : now) + 19) / 20);
    return now < every ? round_number(now + 1) - now : every - now % every;
}

/* Whether a number differs from what was shown last, or was not shown yet; notes it. */
static bool has_changed(text_log *l, const log_value *now) {
    log_values *shown = &l->rates;
    for (int k = 0; k < shown->n; k++)
        if (strcmp(shown->list[k].name, now->name) == 0) {
            bool is_other = shown->list[k].value != now->value;
            shown->list[k].value = now->value;
            return is_other;
        }
    log_value *list = kit_grow(&l->memory, shown->list, shown->n + 1, sizeof *list);
    if (!list) return true;
    shown->list = list;
    shown->list[shown->n++] = *now;
    return true;
}

/* Steps per second since the last line. */
static void add_pace(const text_log *l, kit_line *of, const weft_trainer *t) {
    double steps = (double)t->progress.iteration - l->interval.iteration,
           seconds = trainer_seconds(t) - l->interval.seconds;
    double pace = seconds > 0 ? steps / seconds : 0;
    if (pace > 0) kit_add(of, pace < 100 ? "  %.3g steps/s" : "  %.0f steps/s", pace);
}

/* Learning rates that have changed, in lines alone: a bar has little room. Each is noted by its own name;
 * where all are equal, one stands for all. */
static void add_rates(text_log *l, kit_line *of, const weft_trainer *t) {
    l->values.n = 0;
    if (!l->is_bar) interval_rates(&l->interval, t, &l->values);
    int n = 0, changed = 0;
    bool are_equal = true;
    log_value *list = l->values.list;
    for (int k = 0; k < l->values.n; k++)
        if (list[k].kind == LOG_RATE) list[n++] = list[k];
    for (int k = 1; k < n; k++) are_equal = are_equal && list[k].value == list[0].value;
    for (int k = 0; k < n; k++)
        if (has_changed(l, &list[k])) list[changed++] = list[k];
    if (changed && are_equal) kit_add(of, "  lr %.4g", list[0].value);
    for (int k = 0; k < changed && !are_equal; k++) kit_add(of, "  %.60s %.4g", list[k].name, list[k].value);
}

/* What is left: at the pace so far, validations with it. */
static void show(text_log *l, const weft_trainer *t, const weft_progress *p) {
    kit_line of = {.length = 0}, end = {.length = 0};
    kit_add(&of, "epoch %jd  step %jd", log_epoch(t), log_step(t));
    if (p->iterations) kit_add(&of, "/%jd", (t->options.first_iteration + p->iterations));
    add_pace(l, &end, t);
    add_rates(l, &end, t);
    if (p->iterations > p->iteration && p->iteration)
        add_left(&end, p->seconds / (double)p->iteration * (double)(p->iterations - p->iteration));
    l->values.n = 0;
    interval_means(&l->interval, &l->values);
    add_metrics(l, &of, &end);
    if (l->is_bar)
        put_bar(l, &of, p);
    else
        fprintf(l->file, "%s\n", of.text);
    fflush(l->file); /* errors are ignored: a lost terminal must not stop a training run */
    interval_restart(&l->interval, t);
    if (!l->every) l->interval.every = lines_every(p->iterations, p->iteration);
    l->shown = trainer_clock();
}

static void show_metrics(text_log *l, const weft_trainer *t, const char *what, const weft_metrics *m) {
    kit_line of = {.length = 0};
    kit_add(&of, "epoch %jd  %s", log_epoch(t), what);
    for (int i = 0; i < m->n; i++) add_metric(&of, m->list[i].name, m->list[i].value);
    fprintf(l->file, "%s%s\n", l->is_bar ? "\r\033[K" : "", of.text);
    fflush(l->file);
}

/* ---- the hook ---- */

static bool is_due(const text_log *l, const weft_progress *p) {
    if (!l->is_bar || (p->iterations && p->iteration == p->iterations))
        return interval_is_due(&l->interval, p);
    return trainer_clock() - l->shown >= bar_seconds;
}

/* Output collected by mpirun is not a terminal. */
static void begin(text_log *l, const weft_progress *p) {
    extern char **environ;
    l->has_begun = false;
    weft_launch launch;
    weft_error ignored;
    bool is_alone = p->world == 1 && !weft_launch_read(NULL, environ, &launch, &ignored) &&
                    strcmp(launch.launcher, "none") == 0;
    l->is_bar = !l->every && is_alone && isatty(fileno(l->file));
    l->interval.every = l->every ? l->every : lines_every(p->iterations, (int64_t)l->interval.iteration);
    l->rates.n = 0;
}

static weft_status at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    text_log *l = self;
    const weft_progress *p = weft_trainer_progress(t);
    if (p->rank) return WEFT_OK;
    if (point == WEFT_BEFORE_RUN) begin(l, p);
    if (point == WEFT_AFTER_ITERATION) {
        l->has_begun = true;
        interval_note(&l->interval, p);
        if (is_due(l, p)) show(l, t, p);
    }
    if (point == WEFT_AFTER_RUN && l->has_begun) {
        if ((double)p->iteration > l->interval.iteration) show(l, t, p);
        if (l->is_bar) fprintf(l->file, "\n");
    }
    if (point == WEFT_AFTER_VAL) show_metrics(l, t, "validation", &p->val);
    if (point == WEFT_AFTER_TEST) show_metrics(l, t, "test", &p->test);
    return WEFT_OK;
}

weft_hook weft_hook_text(FILE *file, int64_t every) {
    if (!file) return hook_refused("text: a file is needed");
    text_log *l = kit_object(NULL, sizeof *l);
    if (!l) return hook_refused(NULL);
    l->file = file;
    l->every = every > 0 ? every : 0;
    l->shown = -bar_seconds; /* so that the first step shows at once */
    interval_open(&l->interval, &l->memory, l->kept);
    return (weft_hook){
        .name = "text", .at = at, .free = kit_free, .self = l, .n_kept = INTERVAL_KEPT, .kept = l->kept};
}
