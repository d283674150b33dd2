/* samples.c - see samples.h. */
#include "tools/graphtool/common/samples.h"

#include "tools/graphtool/common/output.h"

#include "graph/core/error.h"
#include "graph/core/graph.h"
#include "graph/core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8 /* rows and columns that are not said, as those of weft_hook_samples() */ };

/* TensorBoard shows a folder of its own best. */
static int place_events(samples *s, const options *o) {
    text t = {0};
    if (!o->tensorboard) return -1;
    text_add(&t, "%s/samples", o->tensorboard);
    s->how.tensorboard = s->tensorboard = text_detach(&t);
    return s->tensorboard ? -1 : tool_fail("out of memory");
}

int samples_read(samples *s, const options *o) {
    *s = (samples){0};
    if (!o->samples) return -1;
    const char *rest = o->samples;
    char head[200];
    weft_error error = {0};
    size_t n = option_name_before(o->samples, &rest);
    if (!(s->said = strdup(o->samples))) return tool_fail("out of memory");
    char *fields = n ? s->said + (rest - o->samples) : NULL;
    if (n) s->said[n] = 0;
    snprintf(head, sizeof head, "--samples=%s", SHOW(o->samples));
    if (fields && weft_fields_read(weft_samples_fields(), fields, &s->how, head, &error))
        return tool_error(&error);
    s->how.path = s->said;
    return place_events(s, o);
}

/* By the longest name that a training of less than 10^9 steps will give one. */
int samples_place(const samples *s) {
    text t = {0};
    if (!s->how.path) return -1;
    if (s->how.strip) return out_check(s->how.path);
    const char *dot = strrchr(s->how.path, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - s->how.path) : strlen(s->how.path);
    text_add(&t, "%.*s-100000000%s", (int)stem, s->how.path, s->how.path + stem);
    char *longest = text_detach(&t);
    int status = longest ? out_check(longest) : tool_fail("out of memory");
    free(longest);
    return status;
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

void samples_free(samples *s) {
    free(s->said);
    free(s->tensorboard);
    *s = (samples){0};
}
