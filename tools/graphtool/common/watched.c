/* watched.c - see watched.h. */
#include "tools/graphtool/common/watched.h"

#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/output.h"

#include "graph/core/graph.h"

#include <stdlib.h>
#include <string.h>

typedef enum direction { UNKNOWN, GROWS, FALLS } direction;

static bool has_one(const char *metric, const char *const *words) {
    bool has = false;
    for (int i = 0; words[i]; i++) has |= strstr(metric, words[i]) != NULL;
    return has;
}

static direction direction_of(const char *metric) {
    static const char *const growing[] = {"accuracy", "psnr", "precision", "recall", "f1", "iou", NULL},
                             *const falling[] = {"loss", "error", "perplexity", "mse", "mae", NULL};
    bool grows = has_one(metric, growing);
    if (grows == has_one(metric, falling)) return UNKNOWN;
    return grows ? GROWS : FALLS;
}

char *watched_metric(const char *said, bool *max) {
    const char *end = strrchr(said, ':');
    *max = end ? strcmp(end, ":max") == 0 : direction_of(said) == GROWS;
    return strndup(said, end ? (size_t)(end - said) : strlen(said));
}

/* Outputs of graph val are all metrics that there are, where no --metric adds some; whether one is a single
 * number the batch may decide, so the trainer tells. */
static int check_name(const options *o, const weft_model *m, const char *option, const char *metric) {
    const weft_graph *val = graph_find(m, "val");
    names known = names_for(metric);
    bool is_there = !val || o->metric.n;
    for (const graph_output *p = val ? val->outputs : NULL; p && !is_there; p = p->next) {
        is_there = strcmp(p->name, metric) == 0;
        if (type_elements(&p->value->type) == 1) names_add(&known, p->name);
    }
    if (!is_there)
        return names_refuse(&known, "train: --%s=%s: graph val gives no metric '%s'", option, SHOW(metric),
                            SHOW(metric));
    names_end(&known);
    return -1;
}

static int check_one(const options *o, const weft_model *m, const char *option, const char *said) {
    bool max;
    const char *end = said ? strrchr(said, ':') : NULL;
    if (!said) return -1;
    if (end && (end == said || (strcmp(end, ":max") && strcmp(end, ":min"))))
        return tool_fail("train: --%s=%s: METRIC:max or METRIC:min is needed", option, SHOW(said));
    char *metric = watched_metric(said, &max);
    if (!metric) return tool_fail("out of memory");
    int status = check_name(o, m, option, metric);
    free(metric);
    if (status < 0 && !end && direction_of(said) == UNKNOWN)
        status =
            tool_fail("train: --%s=%s: whether it shall grow or fall is not known: write %s:max or %s:min",
                      option, SHOW(said), SHOW(said), SHOW(said));
    return status;
}

int watched_check(const options *o, const weft_model *m) {
    int status = check_one(o, m, "best", o->best);
    if (status < 0) status = check_one(o, m, "early-stop", o->early_stop);
    return status < 0 ? check_one(o, m, "keep-best", o->keep_best) : status;
}
