/* fits.c - whether a plan fits into memory, and what would: each way is compiled, so its bytes are true. */
#include "runtime/store/room.h"
#include "weft/memory.h"

#include "runtime/plan/program.h"

#include <stdio.h>
#include <string.h>

/* What is tried: the options of the plan with one thing changed. */
typedef struct attempt {
    const weft_plan *plan;
    const weft_fit_options *of;
    weft_fit_words words;
    uint64_t room;
    char ways[400]; /* those that fit: "batch=32 (5.1 GiB), bf16 (6.0 GiB)" */
    uint64_t least; /* bytes of the smallest batch that was tried; 0: none */
    int64_t batch;  /* which that was */
} attempt;

/* With all words. */
static weft_fit_words words_of(const weft_fit_words *given) {
    weft_fit_words w = given ? *given : (weft_fit_words){0};
    if (!w.batch) w.batch = "batch=";
    if (!w.accumulate) w.accumulate = "accumulate=";
    if (!w.zero) w.zero = "zero=";
    if (!w.bf16) w.bf16 = "bf16";
    if (!w.no_memory_check) w.no_memory_check = "no_memory_check";
    return w;
}

/* What is needed beside a plan's total. */
static uint64_t bytes_more(const weft_plan *plan, const weft_fit_options *of) {
    uint64_t samples = (uint64_t)(plan->options.batch > 0 ? plan->options.batch : 0);
    return of->more + of->more_per_sample * samples + (of->checkpoints ? plan->memory.checkpoint : 0);
}

/* The bytes of another plan; 0: there is none such. */
static uint64_t bytes_of(const attempt *a, const weft_compile_options *how) {
    weft_error none = {0};
    weft_plan *plan = weft_compile(a->of->model, how, &none);
    uint64_t bytes = plan ? plan->memory.total + bytes_more(plan, a->of) : 0;
    weft_plan_free(plan);
    return bytes;
}

/* With 1/32 to spare, since another plan leaves other free blocks when it is compiled; an allocator of
 * the program knows its room. */
static bool try_way(attempt *a, const weft_compile_options *how, const char *name, uint64_t *bytes) {
    size_t n = strlen(a->ways);
    uint64_t spare = a->plan->env.allocator ? 0 : a->room / 32;
    *bytes = bytes_of(a, how);
    if (!*bytes || *bytes > a->room - spare) return false;
    snprintf(a->ways + n, sizeof a->ways - n, "%s%s (%s)", n ? ", " : "", name, BYTES(*bytes));
    return true;
}

/* The largest of the halves, quarters ... that fits; with `accumulates`, in as many more micro-batches that a
 * step has as many samples. */
static void try_batches(attempt *a, const weft_compile_options *how, bool accumulates) {
    const weft_fit_words *w = &a->words;
    char name[160], more[80] = "";
    uint64_t bytes;
    int64_t batch = a->plan->options.batch, times = 1;
    for (bool fits = false; !fits && batch > 1 && (!accumulates || batch % 2 == 0);) {
        weft_compile_options other = *how;
        other.batch = batch /= 2;
        times *= 2;
        if (accumulates) other.accumulate = (int)((how->accumulate > 1 ? how->accumulate : 1) * times);
        if (accumulates) snprintf(more, sizeof more, " %.60s%d", w->accumulate, other.accumulate);
        snprintf(name, sizeof name, "%.50s%jd%s", w->batch, batch, more);
        fits = try_way(a, &other, name, &bytes);
        if (!accumulates && bytes) a->least = bytes, a->batch = batch;
    }
}

static void try_all(attempt *a) {
    char name[80];
    uint64_t bytes;
    weft_compile_options how = *a->of->compile;
    how.verify = false;
    try_batches(a, &how, false);
    if (plan_trains(a->plan)) try_batches(a, &how, true);
    for (int stage = how.zero + 1; how.world > 1 && stage <= 2; stage++) {
        weft_compile_options other = how;
        other.zero = stage;
        snprintf(name, sizeof name, "%.60s%d", a->words.zero, stage);
        if (try_way(a, &other, name, &bytes)) break;
    }
    how.precision = WEFT_BF16;
    if (!a->of->compile->precision) try_way(a, &how, a->words.bf16, &bytes);
}

weft_status weft_plan_fits(const weft_plan *plan, const weft_fit_options *options, weft_error *error) {
    weft_error why = {0};
    weft_fit_options none = {0};
    room free = {0};
    if (!plan || (options && options->model && !options->compile))
        return error_set(error, WEFT_ARGUMENT,
                         "weft_plan_fits: a plan is needed, and with a model its options");
    if (!options) options = &none;
    if (reserved_check(options->reserved, sizeof options->reserved, "weft_fit_options", error))
        return WEFT_ARGUMENT;
    const weft_fit_words *words = options->words;
    if (words && reserved_check(words->reserved, sizeof words->reserved, "weft_fit_words", error))
        return WEFT_ARGUMENT;
    attempt a = {.plan = plan, .of = options, .words = words_of(options->words)};
    char what[120];
    snprintf(what, sizeof what, "model %.80s", weft_model_name(plan->model));
    weft_status status = room_check(plan, what, plan->memory.total, bytes_more(plan, options),
                                    options->more_name, options->local_world, &free, &why);
    if (!status) return WEFT_OK;
    a.room = free.bytes;
    if (options->model) try_all(&a);
    char least[120] = "";
    if (a.least)
        snprintf(least, sizeof least, " (%.40s%jd needs %s)", a.words.batch, a.batch, BYTES(a.least));
    bool found = *a.ways != 0;
    return error_set(error, status, "%s%s%s%s; %s runs all the same", why.text,
                     found            ? "; it would fit with "
                     : options->model ? "; no smaller batch, ZeRO stage or bf16 alone makes it fit"
                                      : "",
                     a.ways, found ? "" : least, a.words.no_memory_check);
}
