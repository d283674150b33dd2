/* evaluators.c - see evaluators.h. A graph of a classifier calls its scores "logits" and its labels "label",
 * unless fields say others. */
#include "tools/graphtool/common/evaluators.h"

#include "tools/graphtool/common/fields.h"
#include "tools/graphtool/common/names.h"

#include "graph/core/error.h"

#include <stdlib.h>
#include <string.h>

typedef enum metric_kind { ACCURACY, CONFUSION, PERPLEXITY, MEAN, MSE, PSNR, KINDS } metric_kind;

static const struct {
    const char *name;
    const char *takes, *needs; /* fields, each with a space behind it */
} kinds[KINDS] = {
    [ACCURACY] = {"accuracy", "top scores label ", ""},
    [CONFUSION] = {"confusion", "scores label ", ""},
    [PERPLEXITY] = {"perplexity", "scores label losses ", ""},
    [MEAN] = {"mean", "output name ", "output "},
    [MSE] = {"mse", "output target ", "output target "},
    [PSNR] = {"psnr", "output target range ", "output target "},
};

static int find_kind(metric *m, const char *name, const char *said) {
    names known = names_for(name);
    for (m->kind = 0; m->kind < KINDS; m->kind++) {
        names_add(&known, kinds[m->kind].name);
        if (strcmp(kinds[m->kind].name, name)) continue;
        names_end(&known);
        return -1;
    }
    return names_refuse(&known, "--metric=%s: there is no metric '%s'", SHOW(said), SHOW(name));
}

/* Those that its kind takes. */
static int read_fields(metric *m, char *text, const char *said) {
    const field all[] = {{"top", .whole = &m->top},      {"scores", .text = &m->scores},
                         {"label", .text = &m->label},   {"losses", .text = &m->losses},
                         {"output", .text = &m->output}, {"target", .text = &m->target},
                         {"name", .text = &m->name},     {"range", .real = &m->range}};
    enum { ALL = sizeof all / sizeof *all };
    field own[ALL];
    int n = 0;
    for (int i = 0; i < ALL; i++)
        if (has_word(kinds[m->kind].takes, all[i].name)) own[n++] = all[i];
    int status = fields_read("metric", said, text, n, own);
    for (int i = 0; status < 0 && i < ALL; i++)
        if (has_word(kinds[m->kind].needs, all[i].name) && !*all[i].text)
            status = tool_fail("--metric=%s: %s=NAME is needed: an output or an input of the graph",
                               SHOW(said), all[i].name);
    if (status < 0 && m->losses && (m->scores || m->label))
        status = tool_fail("--metric=%s: losses are in the place of scores and label", SHOW(said));
    return status;
}

static int read_one(metric *m, const char *said) {
    const char *rest;
    size_t n = option_kind_of(said, &rest);
    *m = (metric){.said = strdup(said), .top = 1, .range = 1};
    if (!m->said) return tool_fail("out of memory");
    char *fields = m->said + (rest - said);
    m->said[n] = 0;
    int status = find_kind(m, m->said, said);
    if (status < 0) status = read_fields(m, fields, said);
    if (!m->scores) m->scores = "logits";
    if (!m->label) m->label = "label";
    return status;
}

int evaluators_read(evaluators *e, const options *o) {
    int status = -1;
    *e = (evaluators){0};
    for (int i = 0; status < 0 && i < o->metric.n; i++)
        status = read_one(&e->metrics[e->n++], o->metric.v[i]);
    return status;
}

static weft_evaluator make_one(const metric *m) {
    switch ((metric_kind)m->kind) {
    case ACCURACY:
        return weft_evaluator_accuracy(m->scores, m->label, (int)m->top);
    case CONFUSION:
        return weft_evaluator_confusion(m->scores, m->label, NULL);
    case PERPLEXITY:
        return weft_evaluator_perplexity(m->losses ? m->losses : m->scores, m->losses ? NULL : m->label);
    case MSE:
        return weft_evaluator_mse(m->output, m->target);
    case PSNR:
        return weft_evaluator_psnr(m->output, m->target, m->range);
    default:
        return weft_evaluator_mean(m->name ? m->name : m->output, m->output);
    }
}

void evaluators_make(evaluators *e, weft_trainer_options *into) {
    for (int i = 0; i < e->n; i++) e->list[i] = make_one(&e->metrics[i]);
    into->evaluators = e->list;
    into->n_evaluators = e->n;
}

void evaluators_free(evaluators *e) {
    for (int i = 0; i < e->n; i++) free(e->metrics[i].said);
    *e = (evaluators){0};
}
