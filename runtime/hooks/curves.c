/* curves.c - metrics over the steps as a picture, when a run ends: a panel for each name, in it what the
 * training and the validations gave. */
#include "runtime/hooks/canvas.h"
#include "runtime/hooks/hook.h"
#include "runtime/hooks/log.h"

#include <math.h>

enum { PHASES = 2 /* train, val */, PANELS = 24, WIDTH = 460, HEIGHT = 280, MARKED = 60, TICKS = 12 };
enum { LEFT = 64, RIGHT = 18, TOP = 34, BOTTOM = 34 }; /* around the axes of a panel */
enum { FOOT = 28 };                                    /* below all panels, where some are missing */
enum { LETTER = 8 };                                   /* of a name: no wider in a PNG, and in most fonts */
enum { INK = 0x333333, FAINT = 0xe4e4e4, FRAME = 0x9a9a9a };

static const int colors[PHASES] = {0x1f6fb4, 0xd9541e};
static const char *const phases[PHASES] = {"train", "val"};

/* Steps and values. */
typedef struct series {
    int n;
    point *points;
} series;

typedef struct panel {
    char name[LOG_NAME];
    series of[PHASES];
    double left, right, low, high; /* the range that is shown */
    point corner;                  /* of the panel */
} panel;

typedef struct curves {
    kit_arena memory;
    char *path;
    bool is_png;
    interval interval;
    log_values values;
    int n, left_out; /* names with a panel, and without one */
    panel panels[PANELS];
    weft_error lost; /* the picture that could not be written */
    weft_hook_number kept[INTERVAL_KEPT];
} curves;

/* ---- what is shown ---- */

/* A number that is not finite, or for which there is no memory, is left out. */
static void add_point(curves *c, series *s, double step, double value) {
    if (!isfinite(value)) return;
    point *points = kit_grow(&c->memory, s->points, s->n + 1, sizeof *points);
    if (!points) return;
    s->points = points;
    s->points[s->n++] = (point){step, value};
}

static panel *panel_of(curves *c, const char *name) {
    int i = 0;
    while (i < c->n && strcmp(c->panels[i].name, name)) i++;
    if (i == PANELS) return NULL;
    if (i == c->n) snprintf(c->panels[c->n++].name, LOG_NAME, "%s", name);
    return &c->panels[i];
}

static void note_line(curves *c, const char *phase, int64_t step) {
    int k = strcmp(phase, "train") == 0 ? 0 : strcmp(phase, "val") == 0 ? 1 : PHASES;
    int left_out = 0;
    for (int i = 0; k < PHASES && i < c->values.n; i++) {
        const log_value *v = &c->values.list[i];
        if (v->kind == LOG_MACHINE) continue;
        panel *p = panel_of(c, v->name);
        left_out += !p;
        if (p) add_point(c, &p->of[k], (double)step, v->value);
    }
    if (left_out > c->left_out) c->left_out = left_out;
}

/* ---- a panel ---- */

/* From all points, with a little air above and below. */
static void find_range(panel *p) {
    bool is_first = true;
    for (int k = 0; k < PHASES; k++)
        for (int i = 0; i < p->of[k].n; i++, is_first = false) {
            point at = p->of[k].points[i];
            p->right = is_first ? at.x : fmax(p->right, at.x);
            p->low = is_first ? at.y : fmin(p->low, at.y);
            p->high = is_first ? at.y : fmax(p->high, at.y);
        }
    double size = fmax(fabs(p->low), fabs(p->high)), range = p->high - p->low;
    double air = range > size * 1e-9 ? range * 0.06 : size * 0.1 + 1e-9; /* a constant's means differ, too */
    p->left = 0;
    p->right = fmax(p->right, 1);
    p->low = p->low >= 0 ? fmax(p->low - air, 0) : p->low - air;
    p->high += air;
}

static point place(const panel *p, point at) {
    double x = (at.x - p->left) / (p->right - p->left), y = (at.y - p->low) / (p->high - p->low);
    return (point){p->corner.x + LEFT + x * (WIDTH - LEFT - RIGHT),
                   p->corner.y + HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)};
}

/* 1, 2 or 5 times a power of ten, so that there are about five steps. */
static double tick_of(double range) {
    double rough = range / 5, power = pow(10, floor(log10(rough))), part = rough / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

/* "0.25", "12000", "1e-05": as many digits as the ticks differ in. */
static kit_number show_tick(double value, double tick) {
    char format[16] = "%.3g";
    int digits = tick < 1 ? (int)ceil(-log10(tick) - 1e-9) : 0;
    if (fmax(fabs(value), tick) < 1e6 && tick >= 1e-4) snprintf(format, sizeof format, "%%.%df", digits);
    return kit_show_number(format, fabs(value) < tick / 2 ? 0 : value);
}

/* Lines across at the ticks of an axis. Ticks are counted: a sum may stay where it is. */
static void draw_ticks(canvas *c, const panel *p, bool is_x, double first, double tick) {
    double at = first, last = is_x ? p->right : p->high;
    for (int k = 0; k < TICKS && at <= last; at = first + ++k * tick) {
        point ends[] = {place(p, is_x ? (point){at, p->low} : (point){p->left, at}),
                        place(p, is_x ? (point){at, p->high} : (point){p->right, at})};
        point text = is_x ? (point){ends[0].x, ends[0].y + 17} : (point){ends[0].x - 8, ends[0].y + 4};
        canvas_line(c, ends, 2, 1, FAINT);
        canvas_text(c, text, is_x ? MIDDLE : TO, 11, INK, show_tick(at, tick).text);
    }
}

static void draw_axes(canvas *c, const panel *p) {
    double x = fmax(tick_of(p->right - p->left), 1), y = tick_of(p->high - p->low);
    draw_ticks(c, p, false, ceil(p->low / y) * y, y);
    draw_ticks(c, p, true, p->left, x);
    point frame[] = {place(p, (point){p->left, p->high}), place(p, (point){p->left, p->low}),
                     place(p, (point){p->right, p->low})};
    canvas_line(c, frame, 3, 1.2, FRAME);
}

/* A line; few points are marked, too. */
static void draw_series(canvas *c, const panel *p, int k) {
    const series *s = &p->of[k];
    point *points = kit_take(&c->memory, s->n, sizeof *points);
    if (!points) return;
    for (int i = 0; i < s->n; i++) points[i] = place(p, s->points[i]);
    canvas_line(c, points, s->n, 1.8, colors[k]);
    for (int i = 0; (k || s->n == 1) && s->n <= MARKED && i < s->n; i++)
        canvas_line(c, &points[i], 1, 6, colors[k]);
    kit_drop(&c->memory, points);
}

/* A name of at most n letters: of a longer one the middle is left out, as ends tell names apart. */
static void shorten(const char *name, int n, char into[LOG_NAME + 4]) {
    int length = (int)strlen(name), end = (n - 3) / 2;
    bool is_long = length > n;
    snprintf(into, LOG_NAME + 4, "%.*s%s%s", is_long ? n - 3 - end : n, name, is_long ? "..." : "",
             is_long ? name + length - end : "");
}

/* What the lines are, at the right, and the name above, as far as it goes. */
static void draw_head(canvas *c, const panel *p) {
    double left = p->corner.x + LEFT, right = p->corner.x + WIDTH - RIGHT, y = p->corner.y + 20;
    for (int k = PHASES - 1; k >= 0; k--) {
        if (!p->of[k].n) continue;
        double width = 7 * (double)strlen(phases[k]);
        canvas_text(c, (point){right, y}, TO, 12, INK, phases[k]);
        point ends[] = {{right - width - 28, y - 4}, {right - width - 8, y - 4}};
        canvas_line(c, ends, 2, 2.4, colors[k]);
        right -= width + 44;
    }
    char name[LOG_NAME + 4];
    shorten(p->name, (int)((right - left) / LETTER), name);
    canvas_text(c, (point){left, y}, FROM, 14, INK, name);
}

/* ---- the picture ---- */

static void draw_curves(const curves *of, canvas *c, const weft_env *env) {
    int columns = of->n < 2 ? 1 : of->n < 9 ? 2 : of->n < 16 ? 3 : 4; /* no long strip */
    int rows = (of->n + columns - 1) / columns;
    int height = (rows > 0 ? rows : 1) * HEIGHT;
    canvas_open(c, of->is_png, columns * WIDTH, height + (of->left_out ? FOOT : 0), env);
    for (int i = 0; i < of->n; i++) {
        panel p = of->panels[i];
        if (p.of[0].n + p.of[1].n == 0) continue;
        p.corner = (point){i % columns * WIDTH, i / columns * HEIGHT};
        find_range(&p);
        draw_axes(c, &p);
        for (int k = 0; k < PHASES; k++) draw_series(c, &p, k);
        draw_head(c, &p);
    }
    char more[40];
    snprintf(more, sizeof more, "and %d more", of->left_out);
    if (of->left_out) canvas_text(c, (point){LEFT, height + FOOT / 2}, FROM, 14, INK, more);
}

static weft_status write_picture(const curves *of, const weft_env *env, weft_error *error) {
    canvas c;
    const void *bytes;
    size_t n;
    draw_curves(of, &c, env);
    weft_status status = canvas_file(&c, &bytes, &n, error);
    if (!status) status = file_write_whole(of->path, bytes, n, env, error);
    kit_release(c.memory);
    return status;
}

/* Without, as when a run fails before its first step, the picture of an earlier one stays. */
static bool has_points(const curves *c) {
    bool has = false;
    for (int i = 0; i < c->n; i++) has = has || c->panels[i].of[0].n || c->panels[i].of[1].n;
    return has;
}

static weft_status curves_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    curves *c = self;
    const char *phase;
    if (t->progress.rank) return WEFT_OK;
    if (interval_line(&c->interval, t, point, &phase, &c->values)) note_line(c, phase, log_step(t));
    if (point != WEFT_AFTER_RUN || !has_points(c)) return WEFT_OK;
    c->lost = (weft_error){0};
    write_picture(c, t->env, &c->lost);
    return WEFT_OK;
}

static weft_status curves_open(void *self, weft_trainer *t, weft_error *error) {
    return hook_check_folder(t, "curves", ((const curves *)self)->path, error);
}

static weft_status curves_check(void *self, weft_error *error) {
    return kit_pass(error, &((const curves *)self)->lost);
}

static bool ends_with(const char *path, const char *end) {
    size_t n = path ? strlen(path) : 0;
    return n > strlen(end) && strcmp(path + n - strlen(end), end) == 0;
}

weft_hook weft_hook_curves(const char *path, int64_t every) {
    bool is_png = ends_with(path, ".png");
    if (!is_png && !ends_with(path, ".svg"))
        return hook_refused("curves: a path is needed that ends with .svg or .png");
    curves *c = kit_object(NULL, sizeof *c);
    if (!c) return hook_refused(NULL);
    c->path = kit_copy(&c->memory, path);
    c->is_png = is_png;
    c->interval.every = every;
    interval_open(&c->interval, &c->memory, c->kept);
    return hook_made((weft_hook){.name = "curves",
                                 .open = curves_open,
                                 .at = curves_at,
                                 .free = kit_free,
                                 .check = curves_check,
                                 .self = c,
                                 .n_kept = INTERVAL_KEPT,
                                 .kept = c->kept});
}
