/* watched.c - see watched.h. */
#include "tools/graphtool/training/watched.h"

#include "tools/graphtool/output/names.h"
#include "tools/graphtool/output/output.h"

#include "graph/core/graph.h"

#include <string.h>

typedef enum direction { UNKNOWN, GROWS, FALLS } direction;

static bool has_one(const char *metric, const char *words) {
    char word[WORD_ROOM];
    while (next_word(&words, word))
        if (strstr(metric, word)) return true;
    return false;
}

static direction direction_of(const char *metric) {
    bool grows = has_one(metric, "accuracy auc psnr precision recall f1 iou");
    if (grows == has_one(metric, "loss error perplexity mse mae")) return UNKNOWN;
    return grows ? GROWS : FALLS;
}

const char *watched_metric(const char *said, bool *max) {
    const char *end = strrchr(said, ':');
    *max = end ? strcmp(end, ":max") == 0 : direction_of(said) == GROWS;
    return end ? tool_cut(said, end) : said;
}

/* Outputs of graph val are all metrics that there are, where no --metric adds some; whether one is a single
 * number the batch may decide, so the trainer tells. */
static void check_name(const options *o, const weft_model *m, const char *option, const char *metric) {
    const weft_graph *val = graph_find(m, "val");
    names known = names_for(metric);
    if (!val || o->metric.n) return;
    for (const graph_output *p = val->outputs; p; p = p->next) {
        if (strcmp(p->name, metric) == 0) return;
        if (type_elements(&p->value->type) == 1) names_add(&known, p->name);
    }
    names_refuse(&known, "train: --%s=%s: graph val gives no metric '%s'", option, metric, metric);
}

static void check_one(const options *o, const weft_model *m, const char *option, const char *said) {
    bool max;
    const char *end = said ? strrchr(said, ':') : NULL;
    if (!said) return;
    if (end && (end == said || (strcmp(end, ":max") && strcmp(end, ":min"))))
        tool_fail("train: --%s=%s: METRIC:max or METRIC:min is needed", option, said);
    check_name(o, m, option, watched_metric(said, &max));
    if (!end && direction_of(said) == UNKNOWN)
        tool_fail("train: --%s=%s: whether higher or lower is better is not known: write %s:max or %s:min",
                  option, said, said, said);
}

void watched_check(const options *o, const weft_model *m) {
    check_one(o, m, "best", o->best);
    check_one(o, m, "early-stop", o->early_stop);
    check_one(o, m, "keep-best", o->keep_best);
}
