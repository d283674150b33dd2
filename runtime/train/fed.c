/* fed.c - numbers for inputs without a batch axis (options.set): their text, their values at an iteration,
 * the elements of an input. A value follows from the iteration, or the epoch, alone. */
#include "runtime/data/convert.h"
#include "runtime/train/trainer.h"

#include <float.h>
#include <math.h>

/* ---- the text ---- */

static const struct curve {
    const char *name;
    weft_schedule_kind kind;
} curves[] = {{"linear", WEFT_SCHEDULE_LINEAR},
              {"cosine", WEFT_SCHEDULE_COSINE},
              {"exponential", WEFT_SCHEDULE_EXPONENTIAL}};
enum { CURVES = sizeof curves / sizeof *curves };

static const weft_field fields[] = {
    WEFT_FIELD(fed_number, from, NUMBER, -FLT_MAX, FLT_MAX, NULL, NULL),
    WEFT_FIELD(fed_number, to, NUMBER, -FLT_MAX, FLT_MAX, NULL, NULL),
    WEFT_FIELD(fed_number, length, COUNT, 1, WEFT_COUNT_MOST, NULL, NULL),
    {.offset = sizeof(fed_number)},
};

static weft_status refuse_number(const fed_number *f, const char *near, weft_error *error) {
    return kit_fail(error, WEFT_ARGUMENT,
                    "trainer: set: %.80s=%.80s: it must be a number, a curve over N iterations or epochs "
                    "(linear:FROM:TO:N, cosine:FROM:TO:N or exponential:FROM:TO:Nepochs), or rows:FILE%s",
                    f->input, f->said, NEAR(near));
}

/* The text of a field, up to the next ':' or the end; moves *at past it. */
static void add_part(kit_line *to, const char *field, const char **at) {
    size_t n = strcspn(*at, ":");
    kit_add(to, "%s%s=%.*s", to->length ? " " : "", field, (int)n, *at);
    *at += n + ((*at)[n] == ':');
}

/* Drops "epochs" at the end of a curve. */
static bool take_epochs(kit_line *text) {
    static const char word[] = "epochs";
    size_t n = sizeof word - 1;
    if (text->length < n || strcmp(text->text + text->length - n, word)) return false;
    text->text[text->length -= n] = 0;
    return true;
}

/* Of a text in which WEFT_ZERO is 0. An exponential curve has no place where its sign changes. */
static bool numbers_hold(fed_number *f) {
    if (f->from == WEFT_ZERO) f->from = 0;
    if (f->to == WEFT_ZERO) f->to = 0;
    return f->curve != WEFT_SCHEDULE_EXPONENTIAL ||
           (f->from != 0 && f->to != 0 && (f->from > 0) == (f->to > 0));
}

static weft_status read_number(fed_number *f, weft_error *error) {
    kit_line text = {0};
    weft_error ignored;
    const char *at = f->said, *near = NULL, *colon = strchr(at, ':');
    f->curve = WEFT_SCHEDULE_CONSTANT;
    if (colon) {
        int k = 0;
        size_t n = (size_t)(colon - at);
        while (k < CURVES && (strlen(curves[k].name) != n || strncmp(curves[k].name, at, n))) k++;
        kit_shown name = kit_show(at, n);
        for (int i = 0; i < CURVES; i++) near = weft_nearest(name.text, near, curves[i].name);
        if (k == CURVES) return refuse_number(f, near, error);
        f->curve = curves[k].kind;
        at = colon + 1;
        add_part(&text, "from", &at);
    }
    add_part(&text, "to", &at);
    if (colon) add_part(&text, "length", &at);
    f->by_epoch = colon && take_epochs(&text);
    bool is_good = !*at && !weft_fields_read(fields, text.text, f, "set", &ignored) && numbers_hold(f);
    return is_good ? WEFT_OK : refuse_number(f, NULL, error);
}

/* ---- rows of a file ---- */

static weft_status row_of(const fed_number *f, const weft_source *s, int64_t i, weft_error *error) {
    uint64_t element; /* of any type */
    weft_status status = s->read(s->context, i, (void *[]){&element}, error);
    if (status) return status;
    bool is_held = convert_numbers(s->arrays[0].dtype, &element, WEFT_F64, &f->rows[i], 1, false) == 1;
    if (is_held && isfinite(f->rows[i])) return WEFT_OK;
    return kit_fail(error, WEFT_DATA, "trainer: set: %.80s=%.80s: row %jd is not a finite number", f->input,
                    f->said, i);
}

static weft_status read_rows(fed_number *f, const weft_source *s, kit_arena *memory, weft_error *error) {
    tensor row = tensor_of(s->arrays[0].dtype, s->arrays[0].ndim, s->arrays[0].shape);
    if (s->n != 1 || tensor_elements(&row) != 1)
        return kit_fail(error, WEFT_SHAPE, "trainer: set: %.80s=%.80s: a row must be one number, and is %s",
                        f->input, f->said, s->n == 1 ? TENSOR(&row) : "of several arrays");
    f->n_rows = s->count;
    if (!(f->rows = kit_take(memory, (size_t)s->count, sizeof *f->rows)))
        return kit_no_memory(error, "trainer");
    for (int64_t i = 0; i < s->count; i++)
        if (row_of(f, s, i, error)) return error->status;
    return WEFT_OK;
}

static const char rows_of[] = "rows:";

static weft_status open_rows(fed_number *f, kit_arena *memory, weft_error *error) {
    weft_source *s = weft_source_open_text(f->said + strlen(rows_of), &memory->env, error);
    weft_status status = s ? read_rows(f, s, memory, error) : error->status;
    weft_source_free(s);
    return status;
}

static weft_status read_value(weft_trainer *t, fed_number *f, weft_error *error) {
    bool has_rows = strncmp(f->said, rows_of, strlen(rows_of)) == 0;
    return has_rows ? open_rows(f, &t->memory, error) : read_number(f, error);
}

/* ---- the list ---- */

const fed_number *fed_find(const fed_list *all, const char *input) {
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->list[i].input, input) == 0) return &all->list[i];
    return NULL;
}

/* Whether a graph that may run has the input: where the trainer is for one alone, that one. */
static weft_status check_name(const weft_trainer *t, const fed_number *f, weft_error *error) {
    weft_port p;
    const weft_graph *g;
    const char *near = NULL, *only = t->options.compile.graph;
    for (int i = 0; (g = weft_model_graph(t->model, i)); i++)
        for (int k = 0;
             (!only || strcmp(only, weft_graph_name(t->model, i)) == 0) && weft_graph_input(g, k, &p); k++) {
            if (strcmp(p.name, f->input) == 0) return WEFT_OK;
            near = weft_nearest(f->input, near, p.name);
        }
    return kit_fail(error, WEFT_NAME, "trainer: set: %s %.80s has %s input '%.80s'%s",
                    only ? "graph" : "no graph of model", only ? only : weft_model_name(t->model),
                    only ? "no" : "an", f->input, NEAR(near));
}

/* A name and its value, which end at `end`. */
static weft_status add(weft_trainer *t, const char *at, const char *end, weft_error *error) {
    char *name = kit_take(&t->memory, (size_t)(end - at) + 1, 1);
    fed_number *list = kit_grow(&t->memory, t->fed.list, (size_t)t->fed.n + 1, sizeof *list);
    if (!name || !list) return kit_no_memory(error, "trainer");
    t->fed.list = list;
    memcpy(name, at, (size_t)(end - at));
    char *value = strchr(name, '=');
    if (!value || value == name)
        return kit_fail(error, WEFT_ARGUMENT, "trainer: set: '%.80s': it must be NAME=NUMBER", name);
    *value++ = 0;
    if (fed_find(&t->fed, name))
        return kit_fail(error, WEFT_ARGUMENT, "trainer: set: %.80s is given twice", name);
    fed_number *f = &list[t->fed.n++];
    *f = (fed_number){.input = name, .said = value, .saved = NAN};
    if (check_name(t, f, error) || read_value(t, f, error)) return error->status;
    if (!t->options.compile.graph || f->curve == WEFT_SCHEDULE_CONSTANT) return WEFT_OK;
    return kit_fail(error, WEFT_ARGUMENT,
                    "trainer: set: %.80s=%.80s: graph %.80s alone has no iterations to count: give a number",
                    f->input, f->said, t->options.compile.graph);
}

weft_status fed_open(weft_trainer *t, weft_error *error) {
    static const char between[] = " ,\t\n";
    for (const char *at = t->options.set ? t->options.set : ""; *(at += strspn(at, between));) {
        const char *end = at + strcspn(at, between);
        if (add(t, at, end, error)) return error->status;
        at = end;
    }
    return WEFT_OK;
}

weft_status fed_agree(const weft_trainer *t, weft_error *error) {
    char hash[24];
    uint64_t rows = 0;
    weft_comm *comm = t->options.comm;
    for (int i = 0; i < t->fed.n; i++)
        rows = kit_hash(t->fed.list[i].rows, (size_t)t->fed.list[i].n_rows * sizeof(double), rows);
    snprintf(hash, sizeof hash, "%016jx", rows);
    weft_setting set[] = {{"set", t->options.set ? t->options.set : "not given"},
                          {"hash of the rows of set", hash}};
    return comm && comm->world > 1 ? weft_comm_compare(comm, set, 2, error) : WEFT_OK;
}

/* ---- values ---- */

/* Curves of schedules are factors from 0 on: here the share of `from` in the number, or its size. */
static double value_at(const fed_number *f, int64_t n) {
    bool grows = f->curve == WEFT_SCHEDULE_EXPONENTIAL;
    if (f->rows) return f->rows[n % f->n_rows];
    if (f->curve == WEFT_SCHEDULE_CONSTANT || n >= f->length) return f->to;
    weft_schedule part[WEFT_MAX_SCHEDULES] = {{.kind = f->curve,
                                               .length = f->length,
                                               .from = grows ? fabs(f->from) : 1,
                                               .to = grows ? fabs(f->to) : WEFT_ZERO}};
    double factor = weft_schedule_factor(part, WEFT_SCHEDULED_LR, n, 0);
    return grows ? copysign(factor, f->from) : factor * f->from + (1 - factor) * f->to;
}

void fed_now(const weft_trainer *t) {
    for (int i = 0; i < t->fed.n; i++) {
        fed_number *f = &t->fed.list[i];
        f->value = value_at(f, f->by_epoch ? t->progress.epoch : t->progress.iteration);
    }
}

void fed_tell(const weft_trainer *t) {
    fed_now(t);
    for (int i = 0; i < t->fed.n; i++) {
        const fed_number *f = &t->fed.list[i];
        if (isnan(f->saved) || f->saved == f->value) continue;
        trainer_log(t, "set: %.80s was %.9g, and is %.9g in iteration %jd", f->input, f->saved, f->value,
                    t->progress.iteration);
    }
}

/* ---- inputs ---- */

bool fed_is_due(const weft_port *input, int64_t rows) {
    return !input->has_batch && (!input->ndim || input->shape[0] != rows);
}

/* The number as one element; false: the type does not hold it. A boolean is 0 or 1. */
static bool element_of(weft_dtype dtype, double value, void *into) {
    bool is_flag = dtype == WEFT_BOOL;
    if (is_flag && value != 0 && value != 1) return false;
    return convert_numbers(WEFT_F64, &value, is_flag ? WEFT_U8 : dtype, into, 1, true) == 1;
}

static weft_status check_type(const fed_number *number, const char *graph, const weft_port *input,
                              weft_error *error) {
    uint64_t element;
    const char *type = weft_dtype_name(input->dtype);
    bool is_float = input->dtype == WEFT_F32 || input->dtype == WEFT_F64;
    if (input->dtype != WEFT_BOOL && !convert_gives(input->dtype))
        return kit_fail(error, WEFT_TYPE,
                        "graph %s: input %s is %s, which no number feeds: declare it f32, and cast it", graph,
                        input->name, type);
    if (!is_float && number->length)
        return kit_fail(error, WEFT_TYPE,
                        "graph %s: input %s is %s, and %.80s has fractions: give a whole number", graph,
                        input->name, type, number->said);
    for (int64_t i = 0; i < number->n_rows; i++)
        if (!element_of(input->dtype, number->rows[i], &element))
            return kit_fail(error, WEFT_TYPE,
                            "graph %s: input %s is %s, which does not hold row %jd of %.80s, %.9g", graph,
                            input->name, type, i, number->said, number->rows[i]);
    if (number->rows || element_of(input->dtype, number->to, &element)) return WEFT_OK;
    return kit_fail(error, WEFT_TYPE, "graph %s: input %s is %s, which does not hold %.80s", graph,
                    input->name, type, number->said);
}

weft_status fed_bind(fed_input *f, const fed_number *number, const char *graph, const weft_port *input,
                     kit_arena *memory, weft_error *error) {
    tensor type = tensor_of(input->dtype, input->ndim, input->shape);
    if (input->has_batch)
        return kit_fail(error, WEFT_SHAPE,
                        "graph %s: input %s %s has a batch axis: data feed it, and no number (options.set, "
                        "graphtool: --set)",
                        graph, input->name, TENSOR(&type));
    if (check_type(number, graph, input, error)) return error->status;
    *f = (fed_input){number, input->dtype, input->bytes, kit_take(memory, input->bytes, 1), NAN};
    return f->data ? WEFT_OK : kit_no_memory(error, "trainer");
}

void fed_fill(fed_input *f) {
    uint64_t element;
    size_t width = weft_dtype_bytes(f->dtype);
    if (f->value == f->number->value) return;
    f->value = f->number->value;
    element_of(f->dtype, f->value, &element);
    for (size_t at = 0; at < f->bytes; at += width) memcpy((char *)f->data + at, &element, width);
}
