/* schedule.c - parts of schedules: their rules, defaults and text.
 *
 *     schedule = part { " " part }
 *     part     = kind [ ":" begin "-" [ end ] ] { "," field }
 *     field    = number "=" value | flag | "of=" number | "milestones=" milestone { "+" milestone }
 *
 * One table has the fields with the kinds that read them; the rest follows from it. */
#include "graph/settings/schedule.h"

#include "graph/core/nearest.h"
#include "graph/core/words.h"
#include "graph/settings/field.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const schedule_kinds[] = {"none",       "constant",   "linear", "exponential",     "step",
                                      "multi_step", "polynomial", "cosine", "cosine_restarts", "one_cycle",
                                      NULL};
const char *const schedule_numbers[] = {"lr", "momentum", "weight_decay", NULL};

/* ---- fields ---- */

#define BIT(kind) (1u << WEFT_SCHEDULE_##kind)
enum {
    ALL = 0x3fe,
    CYCLE = BIT(ONE_CYCLE),
    /* curves from one factor to another over a length */
    CURVES = BIT(LINEAR) | BIT(EXPONENTIAL) | BIT(POLYNOMIAL) | BIT(COSINE) | CYCLE,
};

#define ROW(kind, name, readers, most)                                                                       \
    { #name, WEFT_FIELD_##kind, offsetof(weft_schedule, name), kind##_LEAST, most, NULL, readers, NULL, NULL }
enum { COUNT_LEAST = 1, NUMBER_LEAST = 0, FLAG_LEAST = 0 };
/* `uses` is the kinds that read a field. The first have places of their own in the text of a part. */
enum { APART = 4 };
static const weft_field fields[] = {
    {"kind", WEFT_FIELD_WORD, offsetof(weft_schedule, kind), .words = schedule_kinds, .uses = ALL},
    {"of", WEFT_FIELD_WORD, offsetof(weft_schedule, of), .words = schedule_numbers, .uses = ALL},
    ROW(COUNT, begin, ALL, WEFT_COUNT_MOST),
    ROW(COUNT, end, ALL, WEFT_COUNT_MOST),
    ROW(FLAG, by_epoch, ALL, 1),
    ROW(FLAG, replaces, ALL, 1),
    ROW(COUNT, warmup, ALL, WEFT_COUNT_MOST),
    ROW(COUNT, length, CURVES | BIT(CONSTANT), WEFT_COUNT_MOST),
    ROW(COUNT, period, BIT(STEP) | BIT(COSINE_RESTARTS), WEFT_COUNT_MOST),
    ROW(COUNT, period_mult, BIT(COSINE_RESTARTS), WEFT_COUNT_MOST),
    ROW(NUMBER, gamma, BIT(STEP) | BIT(MULTI_STEP) | BIT(EXPONENTIAL), FLT_MAX),
    ROW(NUMBER, from, CURVES | BIT(CONSTANT) | BIT(COSINE_RESTARTS), FLT_MAX),
    ROW(NUMBER, middle, CYCLE, FLT_MAX),
    ROW(NUMBER, to, CURVES | BIT(COSINE_RESTARTS), FLT_MAX),
    ROW(NUMBER, power, BIT(POLYNOMIAL), FLT_MAX),
    ROW(NUMBER, share, CYCLE, FLT_MAX),
    ROW(FLAG, linear, CYCLE, 1),
    ROW(FLAG, three_phase, CYCLE, 1),
    WEFT_FIELD_END(weft_schedule),
};
#undef ROW

const weft_field *weft_schedule_fields(void) {
    return fields;
}

static double *real_at(const weft_schedule *s, const weft_field *f) {
    return (double *)((char *)s + f->offset);
}

double schedule_real(double v) {
    return v == WEFT_ZERO ? 0 : v;
}

/* ---- rules and defaults ---- */

/* Exponential curves have gamma, or go from one factor to another. */
static bool has_curve(const weft_schedule *s) {
    return 1u << s->kind & CURVES && !(s->kind == WEFT_SCHEDULE_EXPONENTIAL && s->gamma != 0);
}

bool schedule_needs_end(const weft_schedule *s) {
    return has_curve(s) && !s->end && !s->length;
}

static void set_default(double *v, double otherwise) {
    if (*v == 0) *v = otherwise == 0 ? WEFT_ZERO : otherwise;
}

/* The defaults of PyTorch's classes. */
static void fill_numbers(weft_schedule *s) {
    unsigned kind = 1u << s->kind;
    bool is_momentum = s->of == WEFT_SCHEDULED_MOMENTUM;
    if (kind & (BIT(STEP) | BIT(MULTI_STEP))) set_default(&s->gamma, 0.1);
    if (kind & (BIT(CONSTANT) | BIT(LINEAR))) set_default(&s->from, 1.0 / 3);
    if (kind & (BIT(POLYNOMIAL) | BIT(COSINE) | BIT(COSINE_RESTARTS))) {
        set_default(&s->from, 1);
        set_default(&s->to, 0);
    }
    if (kind & BIT(POLYNOMIAL)) set_default(&s->power, 1);
    if (kind & BIT(LINEAR) || (kind & BIT(EXPONENTIAL) && has_curve(s))) set_default(&s->to, 1);
    if (kind & BIT(COSINE_RESTARTS) && !s->period_mult) s->period_mult = 1;
    if (!(kind & CYCLE)) return;
    set_default(&s->from, is_momentum ? 1 : 1.0 / 25);
    set_default(&s->middle, is_momentum ? 0.85 / 0.95 : 1);
    set_default(&s->to, is_momentum ? 1 : schedule_real(s->from) / 1e4);
    set_default(&s->share, 0.3);
}

/* The range, and the length that it leaves to a curve. */
static const char *fill_length(weft_schedule *s) {
    if (s->begin < 0 || s->warmup < 0 || s->length < 0 || s->period < 0 || s->period_mult < 0)
        return "a count must not be negative";
    if (s->end && s->end <= s->begin) return "end must be above begin (0: no end)";
    if (s->end && s->warmup >= s->end - s->begin && s->warmup)
        return "the warm-up fills its range: end must be above begin + warmup";
    if (s->end && !s->length && (has_curve(s) || s->kind == WEFT_SCHEDULE_CONSTANT))
        s->length = s->end - s->begin - s->warmup;
    if (schedule_needs_end(s)) return "it needs an end, or a length";
    if ((1u << s->kind & (BIT(STEP) | BIT(COSINE_RESTARTS))) && !s->period)
        return "it needs a period of at least 1";
    return NULL;
}

static const char *milestones_broken(const weft_schedule *s) {
    int n = 0;
    while (n < WEFT_MAX_MILESTONES && s->milestones[n]) n++;
    if (s->kind == WEFT_SCHEDULE_MULTI_STEP && !n) return "it needs milestones";
    if (s->kind != WEFT_SCHEDULE_MULTI_STEP && n) return "milestones are set, but only multi_step has them";
    for (int i = 0; i < n; i++)
        if (s->milestones[i] <= (i ? s->milestones[i - 1] : 0)) return "milestones must increase, from 1 on";
    while (n < WEFT_MAX_MILESTONES && !s->milestones[n]) n++;
    return n == WEFT_MAX_MILESTONES ? NULL : "milestones end with the first 0";
}

/* Numbers that the kind reads are factors and the like, finite and not negative; others must be 0. */
static bool numbers_hold(const weft_schedule *s, char why[SCHEDULE_WHY]) {
    for (const weft_field *f = fields + APART; f->name; f++) {
        bool is_read = f->uses >> s->kind & 1;
        if (weft_field_is_set(f, s) && !is_read) {
            snprintf(why, SCHEDULE_WHY, "%s is set, but a schedule of this kind has none: leave it 0",
                     f->name);
            return false;
        }
        double v = f->kind == WEFT_FIELD_NUMBER ? schedule_real(*real_at(s, f)) : 0;
        if (v >= 0 && v <= FLT_MAX) continue;
        snprintf(why, SCHEDULE_WHY, "%s=%g: it must be a finite number from 0 on (a true 0 is WEFT_ZERO)",
                 f->name, v);
        return false;
    }
    return true;
}

static const char *kind_broken(const weft_schedule *s) {
    if (s->kind == WEFT_SCHEDULE_ONE_CYCLE && !(schedule_real(s->share) > 0 && s->share < 1))
        return "share must be above 0 and below 1";
    if (s->kind != WEFT_SCHEDULE_EXPONENTIAL) return NULL;
    if (s->gamma != 0) {
        if (schedule_real(s->gamma) == 0) return "gamma must be above 0";
        return s->from != 0 || s->to != 0 || s->length
                   ? "gamma is set, and from, to or length too: one or the other"
                   : NULL;
    }
    if (!(schedule_real(s->from) > 0) || !(schedule_real(s->to) > 0))
        return "it needs gamma, or from (and to) above 0";
    return NULL;
}

static bool part_fill(weft_schedule *s, char why[SCHEDULE_WHY]) {
    if ((unsigned)s->of > WEFT_SCHEDULED_WEIGHT_DECAY) {
        snprintf(why, SCHEDULE_WHY, "of=%d: there is no such number", (int)s->of);
        return false;
    }
    if (!numbers_hold(s, why)) return false;
    const char *broken = milestones_broken(s);
    fill_numbers(s);
    if (!broken) broken = fill_length(s);
    if (!broken) broken = kind_broken(s);
    if (broken) snprintf(why, SCHEDULE_WHY, "%s", broken);
    return !broken;
}

int schedule_count(const weft_schedule *parts) {
    int n = 0;
    while (n < WEFT_MAX_SCHEDULES && parts[n].kind) n++;
    return n;
}

/* Whether fields of a part without a kind are set. */
static bool is_empty(const weft_schedule *s) {
    bool empty = !s->milestones[0];
    for (const weft_field *f = fields; f->name; f++) empty = empty && !weft_field_is_set(f, s);
    return empty;
}

bool schedules_fill(weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]) {
    char rule[SCHEDULE_WHY];
    int n = schedule_count(parts);
    for (int i = 0; i < WEFT_MAX_SCHEDULES; i++) {
        if (i >= n && is_empty(&parts[i])) continue;
        if (i >= n) {
            snprintf(why, SCHEDULE_WHY, "schedule part %d: it has no kind, or follows a part without one",
                     i + 1);
            return false;
        }
        if ((unsigned)parts[i].kind > WEFT_SCHEDULE_ONE_CYCLE) {
            snprintf(why, SCHEDULE_WHY, "schedule part %d: there is no kind number %d", i + 1,
                     (int)parts[i].kind);
            return false;
        }
        if (part_fill(&parts[i], rule)) continue;
        snprintf(why, SCHEDULE_WHY, "schedule part %d, %s: %.180s", i + 1, schedule_kinds[parts[i].kind],
                 rule);
        return false;
    }
    return true;
}

bool schedules_fill_zeros(weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]) {
    for (int i = 0; i < schedule_count(parts); i++)
        for (const weft_field *f = fields + APART; f->name; f++) {
            bool is_read = (unsigned)parts[i].kind <= WEFT_SCHEDULE_ONE_CYCLE && f->uses >> parts[i].kind & 1;
            bool has_gamma = parts[i].kind == WEFT_SCHEDULE_EXPONENTIAL;
            if (f->kind == WEFT_FIELD_NUMBER && is_read && !has_gamma && !weft_field_is_set(f, &parts[i]))
                *real_at(&parts[i], f) = WEFT_ZERO;
        }
    return schedules_fill(parts, why);
}

/* ---- text ---- */

typedef struct reader {
    const char *at;
    int part; /* from 1 */
    char *why;
} reader;

static bool refuse(const reader *r, const char *rule) {
    snprintf(r->why, SCHEDULE_WHY, "schedule part %d: at '%.40s': %s", r->part, SHOW(r->at), rule);
    return false;
}

/* The same with the nearest of the names that could stand here. */
static bool refuse_name(const reader *r, const nearest *near, const char *rule) {
    char whole[SCHEDULE_WHY];
    snprintf(whole, sizeof whole, near->name ? "did you mean '%s'? %s" : "%s%s", near->name ? near->name : "",
             rule);
    return refuse(r, whole);
}

static bool accept(reader *r, const char *word) {
    return text_accept(&r->at, word);
}

/* A name up to the next mark; its index in `names`, or -1. */
static int read_name(reader *r, const char *const *names) {
    size_t n = strcspn(r->at, " \t:,=");
    int i = word_find(names, r->at, n);
    if (i >= 0) r->at += n;
    return i;
}

static bool read_count(reader *r, int64_t *v) {
    return count_parse(&r->at, v) || refuse(r, "a number of 1 to 18 digits is needed");
}

static bool read_milestones(reader *r, weft_schedule *s) {
    int n = 0;
    do {
        if (n == WEFT_MAX_MILESTONES) return refuse(r, "a part has at most 8 milestones");
        if (!read_count(r, &s->milestones[n])) return false;
        if (!s->milestones[n++]) return refuse(r, "milestones are 1 or more");
    } while (accept(r, "+"));
    return true;
}

/* A true 0 in the text is WEFT_ZERO in the part. */
static bool read_value(reader *r, weft_schedule *s, const weft_field *f) {
    if (f->kind == WEFT_FIELD_COUNT) return read_count(r, (int64_t *)((char *)s + f->offset));
    if (!real_parse(&r->at, real_at(s, f))) return refuse(r, "a number is needed");
    if (*real_at(s, f) == 0) *real_at(s, f) = WEFT_ZERO;
    return true;
}

static bool read_field(reader *r, weft_schedule *s) {
    size_t n = strcspn(r->at, " \t,=");
    if (accept(r, "milestones=")) return read_milestones(r, s);
    if (accept(r, "of=")) {
        int of = read_name(r, schedule_numbers);
        s->of = (weft_scheduled)of;
        return of >= 0 || refuse(r, "there are lr, momentum and weight_decay");
    }
    const weft_field *f = field_find(fields + APART, r->at, n);
    if (f) {
        bool is_flag = f->kind == WEFT_FIELD_FLAG, has_value = r->at[n] == '=';
        if (is_flag == has_value)
            return refuse(r, is_flag ? "this field has no value" : "this field needs a value");
        r->at += n + has_value;
        return is_flag ? *(bool *)((char *)s + f->offset) = true : read_value(r, s, f);
    }
    nearest near = nearest_to(r->at, n);
    for (f = fields + APART; f->name; f++) nearest_try(&near, f->name);
    return refuse_name(r, &near, "no part has such a field");
}

static bool read_part(reader *r, weft_schedule *s) {
    *s = (weft_schedule){0};
    int kind = read_name(r, schedule_kinds);
    s->kind = (weft_schedule_kind)kind;
    nearest near = nearest_to(r->at, strcspn(r->at, " \t:,="));
    for (int i = 1; kind <= 0 && schedule_kinds[i]; i++) nearest_try(&near, schedule_kinds[i]);
    if (kind <= 0)
        return refuse_name(r, &near,
                           "a part begins with a kind: constant, linear, exponential, step, multi_step, "
                           "polynomial, cosine, cosine_restarts or one_cycle");
    if (accept(r, ":")) {
        if (!read_count(r, &s->begin)) return false;
        if (!accept(r, "-")) return refuse(r, "a range is BEGIN-END or BEGIN-");
        bool has_end = *r->at >= '0' && *r->at <= '9';
        if (has_end && !read_count(r, &s->end)) return false;
    }
    while (accept(r, ","))
        if (!read_field(r, s)) return false;
    return !*r->at || *r->at == ' ' || *r->at == '\t' || refuse(r, "',' or a blank must follow");
}

bool schedules_parse(const char *from, weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]) {
    reader r = {from ? from : "", 0, why};
    memset(parts, 0, WEFT_MAX_SCHEDULES * sizeof *parts);
    for (r.at += strspn(r.at, " \t"); *r.at; r.at += strspn(r.at, " \t")) {
        if (r.part++ == WEFT_MAX_SCHEDULES) return refuse(&r, "there are at most 8 parts");
        if (!read_part(&r, &parts[r.part - 1])) return false;
    }
    return true;
}

void schedules_write(text *t, const weft_schedule *parts) {
    int n = schedule_count(parts);
    for (int i = 0; i < n; i++) {
        const weft_schedule *s = &parts[i];
        text_add(t, "%s%s", i ? " " : "", schedule_kinds[s->kind]);
        if (s->begin || s->end) text_add(t, ":%jd-", s->begin);
        if (s->end) text_add(t, "%jd", s->end);
        if (s->of) text_add(t, ",of=%s", schedule_numbers[s->of]);
        for (const weft_field *f = fields + APART; f->name; f++) {
            if (!weft_field_is_set(f, s)) continue;
            text_add(t, f->kind == WEFT_FIELD_FLAG ? ",%s" : ",%s=", f->name);
            if (f->kind != WEFT_FIELD_FLAG) field_write(t, f, s);
        }
        for (int k = 0; k < WEFT_MAX_MILESTONES && s->milestones[k]; k++)
            text_add(t, "%s%jd", k ? "+" : ",milestones=", s->milestones[k]);
    }
}

weft_status weft_schedule_text(const char *from, weft_schedule parts[WEFT_MAX_SCHEDULES], weft_error *error) {
    char why[SCHEDULE_WHY];
    if (!from || !parts)
        return error_set(error, WEFT_ARGUMENT, "schedule: a text and room for its parts are needed");
    if (schedules_parse(from, parts, why)) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT, "%s", why);
}
