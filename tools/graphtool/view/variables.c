/* variables.c - the parameters and states of a plan, and its buckets. */
#include "tools/graphtool/view/view.h"

static void add_variable(view_plan *v, const weft_variable *of, view_variable_row *list, int *n) {
    int *number = view_new(&v->memory, 1, sizeof *number);
    *number = (*n)++;
    list[*number] = (view_variable_row){.path = view_text(v->texts, of->path),
                                        .kind = view_text(v->texts, variable_kind_name(of->kind)),
                                        .type = view_text(v->texts, TYPE(&of->type)),
                                        .subgraph = of->subgraph,
                                        .bucket = -1,
                                        .bytes = (int64_t)type_bytes(&of->type)};
    if (of->kind == VARIABLE_PARAMETER && of->bucket)
        list[*number].bucket = view_variable(v, of->bucket->path);
    if (!table_add(&v->by_path, &v->memory, of->path, number)) tool_fail("out of memory");
}

/* Buckets first, as parameters name them. */
void view_variables(view_plan *v) {
    const weft_model *m = v->plan->model;
    v->parameters = view_new(&v->memory, m->n_variables, sizeof *v->parameters);
    v->buckets = view_new(&v->memory, m->n_variables, sizeof *v->buckets);
    for (const weft_variable *of = m->variables; of; of = of->next)
        if (of->kind == VARIABLE_BUCKET) add_variable(v, of, v->buckets, &v->n_buckets);
    for (const weft_variable *of = m->variables; of; of = of->next)
        if (of->kind == VARIABLE_PARAMETER || of->kind == VARIABLE_STATE)
            add_variable(v, of, v->parameters, &v->n_parameters);
}

int view_variable(const view_plan *v, const char *path) {
    const int *found = table_find(&v->by_path, path);
    return found ? *found : -1;
}
