/* accuracy.c - see accuracy.h. The plan that is looked at leaves updates to calls (options.manual), so that
 * gradients stay; the graph in f64 is that of a plan that stops after the gradients are made. */
#include "tools/graphtool/bench/accuracy.h"

#include "tools/graphtool/bench/wide.h"
#include "tools/graphtool/model/weights.h"

#include "graph/core/element.h"
#include "graph/settings/minimize.h"
#include "runtime/plan/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS = 128 };

typedef struct checking {
    const options *o;
    const char *set; /* numbers of inputs without a batch axis */
    const dataset *data;
    weft_plan *plan, *wide_plan;
    weft_store *store;
    weft_session *session;
} checking;

/* ---- what both are fed ---- */

/* The number of "NAME=NUMBER NAME=CURVE:FROM:..." for an input, as the first step has it. */
static double number_for(const char *set, const char *name) {
    char *rest = tool_text("%s", set ? set : ""), *word;
    size_t n = strlen(name);
    while ((word = strsep(&rest, " "))) {
        if (strncmp(word, name, n) != 0 || word[n] != '=') continue;
        if (strncmp(word + n + 1, "rows:", 5) == 0)
            tool_fail("bench: --check-accuracy: --set %s: give a number, as a file's are not read here",
                      word);
        char *end, *curve = strchr(word, ':');
        double number = strtod(word + n + 1, &end);
        return end == word + n + 1 && curve ? strtod(curve + 1, NULL) : number;
    }
    tool_fail("bench: --check-accuracy: input %s has neither a batch nor a number", name);
}

/* The first batch, or the number in each element. */
static const void *data_for(const checking *c, const weft_port *p) {
    for (int i = 0; i < c->data->of.n; i++)
        if (strcmp(c->data->names[i], p->name) == 0) return weft_array_mutable_data(c->data->arrays[i]);
    double number = number_for(c->set, p->name);
    int64_t count = (int64_t)(p->bytes / dtype_bytes(p->dtype));
    tensor all = {.data = tool_new(p->bytes + 1, 1), .type = {p->dtype, 1}, .stride = {1}};
    for (int64_t i = 0; i < count; i++) element_set(&all, &i, number);
    return all.data;
}

static const weft_node *input_named(const weft_graph *g, const char *name) {
    const weft_node *n = g->first;
    while (n && (n->op != &weft_op_input || strcmp(input_name(n), name))) n = n->next;
    return n;
}

/* ---- one graph ---- */

/* Gives the values of the store to the graph in f64. */
static void set_variables(const checking *c, wide *w) {
    for (const weft_variable *v = c->wide_plan->model->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER && v->kind != VARIABLE_STATE) continue;
        size_t bytes = type_bytes(&v->type);
        void *values = tool_need(malloc(bytes + 1));
        tool_must(weft_store_get(c->store, v->path, values, bytes, &tool_why));
        wide_set_variable(w, v, values);
        free(values);
    }
}

/* Feeds both; returns how many inputs there are. */
static int feed(const checking *c, const program *p, wide *w, weft_feed feeds[PORTS]) {
    weft_port port;
    int n = 0;
    for (; weft_plan_input(c->plan, p->name, n, &port); n++) {
        if (n == PORTS) tool_fail("bench: --check-accuracy: more than %d inputs", PORTS);
        const weft_node *input = input_named(p->graph, port.name);
        feeds[n] = (weft_feed){port.name, data_for(c, &port), port.bytes};
        if (input) wide_set_input(w, &input->out[0], feeds[n].data);
    }
    return n;
}

static const weft_value *output_named(const weft_graph *g, const char *name) {
    for (const graph_output *out = g->outputs; out; out = out->next)
        if (strcmp(out->name, name) == 0) return out->value;
    return NULL;
}

static json_t *outputs_json(const checking *c, const program *p, const wide *w, const weft_fetch *got) {
    json_t *all = json_array();
    weft_port port;
    for (int i = 0; weft_plan_output(c->plan, p->name, i, &port); i++) {
        const weft_value *v = output_named(p->graph, port.name);
        if (!v) continue;
        difference d = wide_difference(w, v, port.dtype, got[i].data);
        json_t *one = difference_json(&d);
        json_object_set_new(one, "name", json_string(port.name));
        json_array_append_new(all, one);
    }
    return all;
}

/* Of one parameter. */
typedef struct gradient {
    const char *name;
    difference by;
} gradient;

/* The gradients of the parameters that a minimize call trains, which it has as operands after the loss,
 * before their gradients; `all` has room for them. Returns how many. */
static int gradients_of(const checking *c, const program *p, const wide *w, const weft_node *n,
                        gradient *all) {
    int half = (n->n_in - 1) / 2, count = 0;
    for (int i = 1; i <= half; i++) {
        const weft_value *better = n->in[half + i];
        const weft_variable *v = n->in[i] ? n->in[i]->variable : NULL;
        if (!better || !v) continue;
        size_t bytes = type_bytes(&v->type);
        float *got = tool_need(malloc(bytes + 1));
        tool_must(weft_gradient_get(c->session, p->name, v->path, got, bytes, &tool_why));
        all[count++] = (gradient){v->path, wide_difference(w, better, WEFT_F32, got)};
        free(got);
    }
    return count;
}

static difference sum_of(int n, const gradient *list) {
    difference sum = {0};
    for (int i = 0; i < n; i++) {
        sum.squares += list[i].by.squares;
        sum.of_squares += list[i].by.of_squares;
        sum.largest = fmax(sum.largest, list[i].by.largest);
        sum.of_largest = fmax(sum.of_largest, list[i].by.of_largest);
    }
    return sum;
}

/* `of_all`: beside the gradients of all parameters, as that of a bias before a norm should be 0. */
static json_t *gradients_json(const checking *c, const program *p, const wide *w, difference *sum) {
    json_t *all = json_array();
    int room = 1, n = 0;
    for (const weft_node *node = p->graph->first; node; node = node->next) room += node->n_in;
    gradient *list = tool_new((size_t)room, sizeof *list);
    for (const weft_node *node = p->graph->first; node; node = node->next)
        if (node->op == &weft_op_minimize) n += gradients_of(c, p, w, node, list + n);
    *sum = sum_of(n, list);
    for (int i = 0; i < n; i++) {
        const difference of_all = {.squares = list[i].by.squares, .of_squares = sum->of_squares};
        json_t *one = difference_json(&list[i].by);
        json_object_set_new(one, "name", json_string(list[i].name));
        json_object_set_new(one, "of_all", json_number(difference_rms(&of_all)));
        json_array_append_new(all, one);
    }
    return all;
}

static void keep_results(const program *p, wide *w) {
    for (const graph_output *out = p->graph->outputs; out; out = out->next) wide_keep(w, out->value);
    for (const weft_node *n = p->graph->first; n; n = n->next)
        for (int i = 0; n->op == &weft_op_minimize && i < n->n_in; i++)
            if (n->in[i]) wide_keep(w, n->in[i]);
}

static int make_fetches(const checking *c, const program *p, weft_fetch fetches[PORTS]) {
    weft_port port;
    int n = 0;
    for (; weft_plan_output(c->plan, p->name, n, &port); n++) {
        if (n == PORTS) tool_fail("bench: --check-accuracy: more than %d outputs", PORTS);
        fetches[n] = (weft_fetch){port.name, tool_new(port.bytes + 1, 1), port.bytes};
    }
    return n;
}

static json_t *check_graph(const checking *c, const program *p) {
    weft_feed feeds[PORTS];
    weft_fetch fetches[PORTS];
    difference sum = {0};
    wide *w = wide_new(p->graph, c->plan->kernels.threads, (uint64_t)c->o->seed);
    set_variables(c, w);
    keep_results(p, w);
    int n = feed(c, p, w, feeds), n_out = make_fetches(c, p, fetches);
    tool_must(weft_run(c->session, p->name, feeds, n, fetches, n_out, &tool_why));
    tool_must(weft_sync(c->session, &tool_why));
    tool_must(wide_run(w, &tool_why));
    json_t *outputs = outputs_json(c, p, w, fetches), *gradients = gradients_json(c, p, w, &sum);
    wide_free(w);
    return json_pack("{s:s, s:o, s:o, s:o}", "graph", p->name, "outputs", outputs, "gradients", gradients,
                     "all_gradients", json_array_size(gradients) ? difference_json(&sum) : json_null());
}

/* ---- all graphs ---- */

static void close_checking(void *checks) {
    checking *c = checks;
    weft_session_close(c->session);
    weft_store_free(c->store);
    weft_plan_free(c->plan);
    weft_plan_free(c->wide_plan);
}

static checking *open_checking(const weft_model *m, const options *o, const workload *w) {
    checking *c = tool_keep(tool_new(1, sizeof *c), close_checking);
    options *numbers = tool_new(1, sizeof *numbers);
    weft_compile_options how = tool_compile_options(o);
    char *rest = tool_text("%s", w->set ? w->set : ""), *word;
    *c = (checking){.o = o, .set = w->set};
    *numbers = *o; /* with the numbers of all inputs, so that none is made again */
    numbers->set.n = 0;
    while ((word = strsep(&rest, " ")))
        if (*word && numbers->set.n < OPTIONS_MAX_DATA) numbers->set.v[numbers->set.n++] = word;
    c->data = dataset_synthetic(m, w->plan, numbers, &(const char *){NULL});
    how.accumulate = 1;
    how.guard = WEFT_GUARD_OFF;
    how.manual = true;
    c->plan = tool_got(weft_compile(m, &how, &tool_why));
    how.stop_after = "autodiff";
    how.manual = false;
    how.precision = WEFT_F32;
    c->wide_plan = tool_got(weft_compile(m, &how, &tool_why));
    c->store = tool_got(weft_store_new(c->plan, (uint64_t)o->seed, &tool_why));
    weights_load(c->store, o);
    c->session = tool_got(weft_session_open(c->plan, c->store, &tool_why));
    return c;
}

static bool is_in_flow(const weft_plan *plan, const char *graph) {
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++)
        if (strcmp(s.graph, graph) == 0) return true;
    return false;
}

json_t *accuracy_json(const weft_model *m, const options *o, const workload *w) {
    json_t *all = json_array();
    const checking *c = open_checking(m, o, w);
    for (int i = 0; i < c->wide_plan->n_programs; i++)
        if (is_in_flow(w->plan, c->wide_plan->programs[i].name))
            json_array_append_new(all, check_graph(c, &c->wide_plan->programs[i]));
    return all;
}

/* The one that is farthest from f64; NULL: there is none. */
static const json_t *farthest(const json_t *list, const char *key) {
    size_t i;
    const json_t *one, *found = NULL;
    json_array_foreach(list, i, one) if (!found || json_at(one, key) > json_at(found, key)) found = one;
    return found;
}

void accuracy_print(const json_t *accuracy) {
    size_t i;
    const json_t *graph;
    json_array_foreach(accuracy, i, graph) {
        const json_t *output = farthest(json_object_get(graph, "outputs"), "rms");
        const json_t *gradient = farthest(json_object_get(graph, "gradients"), "of_all");
        printf("graph %s beside f64, relative:", json_string_value(json_object_get(graph, "graph")));
        if (output)
            printf(" outputs %.1e (%s)", json_at(output, "rms"),
                   json_string_value(json_object_get(output, "name")));
        if (gradient)
            printf("; gradients %.1e, of it %.1e in %s",
                   json_at(json_object_get(graph, "all_gradients"), "rms"), json_at(gradient, "rms"),
                   json_string_value(json_object_get(gradient, "name")));
        printf("\n");
    }
}
