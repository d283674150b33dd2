/* test_graph_rules.c - wrong graphs: the output of a pass with one change. graph_check names the rule that it
 * breaks: each of G1 to G7 and G9 has a mutant here, G8 in test_gradients_by.c. */
#include "ops/cpu/isa.h"
#include "runtime/plan/program.h"
#include "support/test.h"
#include "weft/weft.h"

#include <string.h>

/* ---- the graph ---- */

static weft_plan *compiled(void) {
    weft_error e = {0};
    weft_model *m = weft_model_new("m");
    weft_value *x = weft_input(weft_graph_new(m, "g", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){4, 8});
    x = weft_tanh(weft_scale(weft_linear(x, 6, "one", NULL), 2));
    weft_value *loss = weft_mean(
        weft_square(weft_linear(weft_reshape(x, 1, (int64_t[]){-1}), 3, "two", NULL)), WEFT_ALL, false);
    weft_minimize(loss, "", &(weft_optimizer){.type = "adam"});
    weft_output(loss, "loss");
    weft_plan *p = weft_compile(m, &(weft_compile_options){.stop_after = "fuse", .verify = true}, &e);
    CHECK_SAYS(p != NULL, "%s", e.text);
    weft_model_free(m);
    return p;
}

static weft_node *first_of(const weft_graph *g, const char *op) {
    weft_node *n = g->first;
    while (n && strcmp(n->op->name, op)) n = n->next;
    return n;
}

/* ---- mutants ---- */

static void reads_what_comes_later(weft_graph *g) {
    first_of(g, "linear")->in[0] = &g->last->prev->out[0];
}

static void reads_another_graph(weft_graph *g) {
    weft_graph *other = weft_graph_new(g->model, "other", WEFT_TRAIN);
    first_of(g, "linear")->in[0] = weft_input(other, "y", WEFT_F32, 2, (int64_t[]){4, 8});
}

static void has_no_shape(weft_graph *g) {
    first_of(g, "linear")->out[0].type.shape[0] = 0;
}

static void shares_an_id(weft_graph *g) {
    weft_node *n = first_of(g, "linear");
    n->out[0].id = n->in[0]->id;
}

static void result_of_another(weft_graph *g) {
    first_of(g, "linear")->out[0].node = g->first;
}

static void lacks_an_operand(weft_graph *g) {
    first_of(g, "linear")->in[1] = NULL;
}

static void has_too_few_operands(weft_graph *g) {
    first_of(g, "linear")->n_in = 1;
}

static void has_a_wrong_attribute(weft_graph *g) {
    weft_node *n = first_of(g, "reshape");
    memset(n->attrs, 0xff, n->op->attrs_bytes);
}

static void output_is_gone(weft_graph *g) {
    static weft_value copy; /* an arena aligns to less than a weft_value */
    weft_value *gone = &copy;
    *gone = *g->outputs->value;
    gone->id = g->next_id;
    g->outputs->value = gone;
}

static void body_reads_elsewhere(weft_graph *g) {
    weft_node *n = first_of(g, "fused");
    n->body[0]->in[0] = &g->first->out[0];
}

static void body_makes_no_result(weft_graph *g) {
    weft_node *n = first_of(g, "fused");
    n->body_out[0] = &g->first->out[0];
}

static void waits_for_what_is_gone(weft_graph *g) {
    weft_node *n = g->first;
    while (n && !n->n_after) n = n->next;
    if (!CHECK(n != NULL)) return;
    n->after[0] = arena_new(&g->model->nodes, sizeof *n);
}

static void counts_one_more(weft_graph *g) {
    g->n_nodes++;
}

static void counts_one_less(weft_graph *g) {
    g->n_nodes--;
}

static void ends_before_its_end(weft_graph *g) {
    g->last = g->last->prev;
}

/* The last two nodes are cut off, and counted on. */
static void list_is_cut(weft_graph *g) {
    g->last->prev->prev->next = NULL;
}

static const struct {
    const char *name;
    void (*mutate)(weft_graph *g);
    const char *rule;
} mutants[] = {
    {"a node reads what comes later", reads_what_comes_later, "G1"},
    {"a node reads a value of another graph", reads_another_graph, "G1"},
    {"a type has no elements", has_no_shape, "G2"},
    {"two values have one id", shares_an_id, "G3"},
    {"a result is another node's", result_of_another, "G3"},
    {"an operand is missing", lacks_an_operand, "G4"},
    {"there are too few operands", has_too_few_operands, "G4"},
    {"an attribute is out of its range", has_a_wrong_attribute, "G4"},
    {"an output is of no node", output_is_gone, "G5"},
    {"a fused node's body reads what is not there", body_reads_elsewhere, "G6"},
    {"a fused node's body makes no result", body_makes_no_result, "G6"},
    {"a node waits for one that is gone", waits_for_what_is_gone, "G7"},
    {"more nodes are counted than there are", counts_one_more, "G9"},
    {"fewer nodes are counted than there are", counts_one_less, "G9"},
    {"the list's end is not its last node", ends_before_its_end, "G9"},
    {"nodes are cut off", list_is_cut, "G1 G9"},
};

TEST(a_changed_graph_is_found_by_its_rule) {
    if (isa_best() == WEFT_ISA_REFERENCE) return; /* no kernel of this processor is fused */
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        weft_plan *p = compiled();
        NEED(p != NULL);
        weft_graph *g = p->programs[0].graph;
        NEED(first_of(g, "fused") && first_of(g, "linear") && first_of(g, "reshape"));
        CHECK_SAYS(graph_check(g, "nothing"), "%s", weft_model_error(g->model)->text);
        mutants[i].mutate(g);
        CHECK_SAYS(!graph_check(g, "mutant"), "%s: no rule says so", mutants[i].name);
        char rule[3] = "";
        memcpy(rule, weft_model_error(g->model)->text, 2);
        CHECK_SAYS(*rule && strstr(mutants[i].rule, rule), "%s: %s", mutants[i].name,
                   weft_model_error(g->model)->text);
        weft_plan_free(p);
    }
}

SUITE("graph rules", {T(a_changed_graph_is_found_by_its_rule)})
