/* diff_settings.c - what two plans are compiled with, setting by setting. */
#include "tools/graphtool/diff/diff.h"

#include "tools/graphtool/output/end.h"

#include "graph/settings/ddp.h"
#include "graph/settings/field.h"
#include "graph/settings/flow.h"
#include "graph/settings/precision.h"

#include <stdlib.h>
#include <string.h>

/* Values by name; a setting that is not there is as one that is "". */
typedef struct setting_list {
    int n;
    size_t room;
    weft_setting *v;
} setting_list;

static void add_setting(setting_list *l, const char *name, const char *value) {
    l->v = tool_need(mem_grow(NULL, l->v, &l->room, (size_t)l->n + 1, sizeof *l->v));
    l->v[l->n++] = (weft_setting){name, *value ? value : "default"};
}

/* What is compared as graphs, or changes no plan. */
static bool is_apart(const weft_field *f) {
    static const char *const apart[] = {"graph", "flow", "stop_after", "verify", "no_memory_check"};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (strcmp(f->name, apart[i]) == 0) return true;
    return false;
}

static void add_fields(setting_list *l, const weft_plan *plan) {
    for (const weft_field *f = weft_compile_fields(); f->name; f++) {
        text t = {0};
        if (is_apart(f) || !weft_field_is_set(f, &plan->options)) continue;
        field_write(&t, f, &plan->options);
        add_setting(l, f->name, tool_take(&t));
    }
}

/* What the model says of scopes, and the flow. */
static void add_model(setting_list *l, const weft_plan *plan) {
    const weft_model *m = plan->model;
    text t = {0};
    add_setting(l, "model", m->name);
    flow_steps_write(&t, plan->n_flow, plan->flow);
    add_setting(l, "flow", tool_take(&t));
    for (const ddp_entry *e = m->ddps; e; e = e->next) {
        attrs_write(&t, &ddp_fields, &e->attrs);
        const char *words = tool_take(&t);
        add_setting(l, tool_text("ddp of %s", path_full(e->path)), words + (*words == ' '));
    }
    for (const precision_entry *e = m->precisions; e; e = e->next)
        add_setting(l, tool_text("precision of %s", path_full(e->path)), dtype_name(e->dtype));
}

static const char *value_in(const setting_list *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->v[i].name, name) == 0) return l->v[i].value;
    return "";
}

static void add_differing(difference *d, const char *name, const char *a, const char *b) {
    diff_kind kind = !*a ? DIFF_ADDED : !*b ? DIFF_REMOVED : DIFF_CHANGED;
    if (strcmp(a, b) == 0) return;
    diff_add(d, (diff_change){.kind = kind,
                              .what = DIFF_SETTING,
                              .graph = -1,
                              .path = name,
                              .op = "",
                              .text = kind != DIFF_CHANGED ? tool_text("%s%s", a, b)
                                                           : tool_text("%s -> %s", a, b)});
}

void diff_settings(difference *d, const weft_plan *const plans[2]) {
    setting_list l[2] = {0};
    for (int i = 0; i < 2; i++) {
        add_model(&l[i], plans[i]);
        add_fields(&l[i], plans[i]);
        tool_keep(l[i].v, free);
    }
    for (int i = 0; i < l[0].n; i++)
        add_differing(d, l[0].v[i].name, l[0].v[i].value, value_in(&l[1], l[0].v[i].name));
    for (int i = 0; i < l[1].n; i++)
        if (!*value_in(&l[0], l[1].v[i].name)) add_differing(d, l[1].v[i].name, "", l[1].v[i].value);
}
