/* evaluators.c - see evaluators.h. A graph of a classifier calls its scores "logits" and its labels "label",
 * unless fields say others. */
#include "tools/graphtool/training/evaluators.h"

#include "tools/graphtool/output/names.h"

#include <float.h>
#include <string.h>

typedef enum metric_kind {
    ACCURACY,
    CONFUSION,
    PERPLEXITY,
    AUC,
    MEAN,
    MSE,
    PSNR,
    RECALL_AT,
    KINDS
} metric_kind;

static const char *const kinds[KINDS + 1] = {"accuracy", "confusion", "perplexity", "auc", "mean",
                                             "mse",      "psnr",      "recall_at",  NULL};

#define BIT(kind) (1u << (kind))
enum {
    OF_CLASSES = BIT(ACCURACY) | BIT(CONFUSION) | BIT(PERPLEXITY) | BIT(AUC),
    OF_TARGETS = BIT(MSE) | BIT(PSNR) | BIT(RECALL_AT),
    NAMED = BIT(AUC) | BIT(MEAN) | BIT(RECALL_AT),
    OF_OUTPUTS = OF_TARGETS | BIT(MEAN),
};
/* `uses` is the kinds that read a field. */
#define TEXT(field, kinds)                                                                                   \
    { #field, WEFT_FIELD_TEXT, offsetof(metric, field), .uses = kinds }
static const weft_field fields[] = {
    {"top", WEFT_FIELD_INT, offsetof(metric, top), 1, 1000000, .uses = BIT(ACCURACY) | BIT(RECALL_AT)},
    TEXT(scores, OF_CLASSES),
    TEXT(label, OF_CLASSES),
    TEXT(losses, BIT(PERPLEXITY)),
    TEXT(output, OF_OUTPUTS),
    TEXT(target, OF_TARGETS),
    TEXT(name, NAMED),
    {"range", WEFT_FIELD_REAL, offsetof(metric, range), 0, FLT_MAX, .uses = BIT(PSNR)},
};
#undef TEXT
enum { FIELDS = sizeof fields / sizeof *fields };

static int find_kind(const char *name, const char *said) {
    int kind = 0;
    while (kinds[kind] && strcmp(kinds[kind], name)) kind++;
    if (kinds[kind]) return kind;
    names known = names_of(name, kinds);
    names_refuse(&known, "--metric=%s: there is no metric '%s'", said, name);
}

static void need_field(const char *value, const char *field, const char *said) {
    if (!value) tool_fail("--metric=%s: %s=NAME is needed: an output or an input of the graph", said, field);
}

/* Those that its kind reads. */
static void read_fields(metric *m, char *text, const char *said) {
    weft_field own[FIELDS + 1] = {{0}};
    int n = 0;
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].uses >> m->kind & 1) own[n++] = fields[i];
    tool_must(weft_fields_read(own, text, m, tool_text("--metric=%s", SHOW(said)), &tool_why));
    if (BIT(m->kind) & OF_OUTPUTS) need_field(m->output, "output", said);
    if (BIT(m->kind) & OF_TARGETS) need_field(m->target, "target", said);
    if (m->losses && (m->scores || m->label))
        tool_fail("--metric=%s: losses are in the place of scores and label", said);
}

static metric read_one(const char *said) {
    const char *rest, *name = option_kind_of(said, &rest);
    metric m = {.kind = find_kind(name, said), .top = 1, .range = 1};
    read_fields(&m, tool_text("%s", rest), said);
    if (!m.scores) m.scores = "logits";
    if (!m.label) m.label = "label";
    return m;
}

evaluators *evaluators_read(const options *o) {
    evaluators *e = tool_new(1, sizeof *e);
    for (; e->n < o->metric.n; e->n++) e->metrics[e->n] = read_one(o->metric.v[e->n]);
    return e;
}

static weft_evaluator make_one(const metric *m) {
    switch ((metric_kind)m->kind) {
    case ACCURACY:
        return weft_evaluator_accuracy(m->scores, m->label, m->top);
    case CONFUSION:
        return weft_evaluator_confusion(m->scores, m->label, NULL);
    case PERPLEXITY:
        return weft_evaluator_perplexity(m->losses ? m->losses : m->scores, m->losses ? NULL : m->label);
    case AUC:
        return weft_evaluator_auc(m->scores, m->label);
    case MSE:
        return weft_evaluator_mse(m->output, m->target);
    case PSNR:
        return weft_evaluator_psnr(m->output, m->target, m->range);
    case RECALL_AT:
        return weft_evaluator_recall_at(m->output, m->target, m->top);
    default:
        return weft_evaluator_mean(m->output, m->output);
    }
}

void evaluators_make(evaluators *e, weft_trainer_options *into) {
    for (int i = 0; i < e->n; i++) {
        e->list[i] = make_one(&e->metrics[i]);
        if (e->list[i].open && e->metrics[i].name) e->list[i].name = e->metrics[i].name;
    }
    into->evaluators = e->list;
    into->n_evaluators = e->n;
}
