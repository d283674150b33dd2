/* samples.c - see samples.h. */
#include "tools/graphtool/training/samples.h"

#include "tools/graphtool/options/paths.h"

#include "graph/core/graph.h"

#include <string.h>

enum { SIDE = 8 /* rows and columns that are not said, as those of weft_hook_samples() */ };

samples *samples_read(const options *o) {
    samples *s = tool_new(1, sizeof *s);
    const char *fields;
    if (!o->samples) return s;
    s->how.path = option_name_before(o->samples, &fields);
    bool has_fields = *s->how.path;
    if (!has_fields) s->how.path = o->samples;
    if (has_fields)
        tool_must(weft_fields_read(weft_samples_fields(), tool_text("%s", fields), &s->how,
                                   tool_text("--samples=%s", SHOW(o->samples)), &tool_why));
    if (o->tensorboard) /* which shows a folder of its own best */
        s->how.tensorboard = tool_text("%s/samples", o->tensorboard);
    return s;
}

/* By the longest name that a training of less than 10^9 steps will give one. */
void samples_place(const samples *s) {
    const char *path = s->how.path;
    if (!path) return;
    int stem = (int)path_stem(path);
    out_check(s->how.strip ? path : tool_text("%.*s-100000000%s", stem, path, path + stem));
}

static bool has_input(const weft_graph *g, const char *name) {
    for (const weft_node *n = g->first; name && n; n = n->next)
        if (n->op == &weft_op_input && strcmp(input_name(n), name) == 0) return true;
    return false;
}

void samples_feed(samples *s, const weft_model *m, const dataset *val, const dataset *data) {
    const dataset *of = val->of.n ? val : data;
    const weft_graph *g = graph_find(m, s->how.graph ? s->how.graph : "predict");
    int64_t columns = s->how.columns ? s->how.columns : SIDE;
    int64_t rows = s->how.strip ? 1 : s->how.rows ? s->how.rows : SIDE, most = rows * columns;
    bool is_fed = false;
    for (int i = 0; g && i < of->n_names; i++) {
        s->names[i] = has_input(g, of->names[i]) ? of->names[i] : NULL; /* others would feed nothing */
        is_fed |= s->names[i] != NULL;
    }
    for (int i = 0; is_fed && i < of->of.n; i++) {
        s->cut[i] = *of->of.sources[i];
        if (s->cut[i].count > most) s->cut[i].count = most;
        s->sources[i] = &s->cut[i];
    }
    if (is_fed) s->how.data = (weft_dataset){of->of.n, s->sources, s->names};
}
