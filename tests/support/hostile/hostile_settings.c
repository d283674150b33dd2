/* hostile_settings.c - settings as texts: schedules, optimizers, options of subgraphs, flows. */
#include "support/example.h"
#include "support/hostile/hostile.h"

#include "graph/settings/schedule.h"
#include "graph/core/error.h"
#include "weft/weft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    const char *good;
    weft_status (*set)(weft_model *m, const char *text);
} setting;

static weft_status set_optimizer(weft_model *m, const char *text) {
    return weft_model_set_optimizer(m, "gen", text);
}

static weft_status set_ddp(weft_model *m, const char *text) {
    return weft_model_set_ddp_text(m, "discriminator", text);
}

static weft_status set_flow(weft_model *m, const char *text) {
    return weft_model_set_flow(m, text);
}

static const setting settings[] = {
    {"lr=1e-4 momentum=0.5 clip_norm=1,nesterov=1 schedule=\"cosine:0-9000,warmup=500,to=0.1 "
     "step,period=30\"",
     set_optimizer},
    {"zero=1,shard=flat,process_group=0-3;4-7,bucket_cap_mb=4 bf16_wire=1", set_ddp},
    {"0-999: d_step; 1000-: d_step{accumulate=4}*5 g_step{batch=same} d_step{batch=next}", set_flow}};

static void make_setting(hostile *h) {
    const char *good = settings[h->format->variant].good;
    hostile_put(h, good, strlen(good));
}

/* What was accepted compiles or is refused, and its model's text reads back. */
static void use_model(subject *s, const weft_model *m) {
    weft_error error = {0};
    char *text = weft_model_text(m);
    weft_model *back = weft_model_parse(text, "back", NULL, &error);
    if (!back) hostile_complain(s, "its text does not read back: %s", error.text);
    weft_plan_free(weft_compile(m, &(weft_compile_options){.threads = 1, .isa = WEFT_ISA_REFERENCE}, &error));
    weft_model_free(back);
    weft_text_free(text);
}

static void try_setting(subject *s) {
    char *text = hostile_text(s);
    weft_model *m = example_model(&s->f->env);
    s->good = settings[s->h->format->variant].set(m, text) == WEFT_OK;
    s->error = *weft_model_error(m);
    if (s->good) use_model(s, m);
    weft_model_free(m);
    free(text);
}

static void make_schedule(hostile *h) {
    static const char good[] = "linear:0-500,from=0.1 cosine:500-10000,replaces,warmup=5,to=0.1 "
                               "multi_step,by_epoch,milestones=8+11,gamma=0.5 one_cycle:0-900,of=momentum";
    hostile_put(h, good, sizeof good - 1);
}

static void try_schedule(subject *s) {
    char *text = hostile_text(s);
    weft_schedule parts[WEFT_MAX_SCHEDULES] = {0};
    char why[SCHEDULE_WHY];
    s->good = weft_schedule_text(text, parts, &s->error) == WEFT_OK;
    if (s->good && !schedules_fill(parts, why)) s->good = !error_set(&s->error, WEFT_ARGUMENT, "%s", why);
    static const int64_t updates[] = {0, 1, 499, 500, 10000, INT64_MAX};
    for (size_t i = 0; s->good && i < sizeof updates / sizeof *updates; i++)
        if (isnan(weft_schedule_factor(parts, WEFT_SCHEDULED_LR, updates[i], updates[i])))
            hostile_complain(s, "'%.300s' was accepted, and its factor after %lld updates is NaN", text,
                             (long long)updates[i]);
    free(text);
}

const hostile_format hostile_settings[] = {{"optimizer's settings", make_setting, try_setting, .variant = 0},
                                           {"subgraph's options", make_setting, try_setting, .variant = 1},
                                           {"flow", make_setting, try_setting, .variant = 2},
                                           {"schedule", make_schedule, try_schedule},
                                           {0}};
