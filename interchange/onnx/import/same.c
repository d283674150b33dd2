/* same.c - whether two graphs are the same calls. A file is imported with two pairs of batches
 * (import.c): where it computes something from the batch that is neither equal along it nor a line, each
 * pair has its own numbers. */
#include "interchange/onnx/import/import.h"

#include <stdlib.h>

/* Nodes of one graph beside those of the other, in their order. */
typedef struct pairing {
    kit_arena *arena;
    size_t n, room; /* of the table, a power of two */
    struct pair {
        const weft_node *here, *there;
    } * table;
} pairing;

static size_t slot_of(const pairing *p, const weft_node *n) {
    size_t i = (size_t)((uintptr_t)n / 64 * 0x9e3779b97f4a7c15u) & (p->room - 1);
    while (p->table[i].here && p->table[i].here != n) i = (i + 1) & (p->room - 1);
    return i;
}

static bool pairing_make(pairing *p, kit_arena *arena, const weft_graph *g) {
    size_t n = 0;
    for (const weft_node *node = NULL; (node = weft_graph_node(g, node));) n++;
    *p = (pairing){.arena = arena, .room = 64};
    while (p->room < 2 * n) p->room *= 2;
    p->table = kit_take(arena, p->room, sizeof *p->table);
    return p->table;
}

/* Whether a value of one graph is that of the other: the same result of nodes that are a pair. */
static bool same_value(const pairing *p, const weft_value *a, const weft_value *b) {
    if (!a || !b) return !a && !b;
    const weft_node *here = weft_value_node(a), *there = weft_value_node(b);
    if (p->table[slot_of(p, here)].there != there) return false;
    int i = 0;
    while (weft_node_result(here, i) && weft_node_result(here, i) != a) i++;
    return weft_node_result(there, i) == b;
}

static bool same_attributes(const weft_node *a, const weft_node *b) {
    char *here = weft_node_attributes(a), *there = weft_node_attributes(b);
    bool is_same = here && there && !strcmp(here, there);
    weft_text_free(here);
    weft_text_free(there);
    return is_same;
}

static bool same_node(const pairing *p, const weft_node *a, const weft_node *b) {
    weft_node_info here, there;
    if (!weft_node_about(a, &here) || !weft_node_about(b, &there) || strcmp(here.op, there.op)) return false;
    if (here.n_operands != there.n_operands || !same_attributes(a, b)) return false;
    for (int i = 0; i < here.n_operands; i++)
        if (!same_value(p, weft_node_operand(a, i), weft_node_operand(b, i))) return false;
    return true;
}

bool onnx_same_graphs(importer *in, const weft_graph *a, const weft_graph *b) {
    const weft_node *here = NULL, *there = NULL;
    weft_node_info about = {0};
    pairing p;
    if (!pairing_make(&p, in->arena, a)) return kit_no_memory(in->error, "a file"), false;
    while ((here = weft_graph_node(a, here))) {
        there = weft_graph_node(b, there);
        if (!there || !same_node(&p, here, there)) break;
        p.table[slot_of(&p, here)] = (struct pair){here, there};
    }
    bool is_same = !here && !weft_graph_node(b, there);
    if (here) weft_node_about(here, &about);
    kit_drop(in->arena, p.table);
    if (is_same) return true;
    kit_fail(in->error, WEFT_UNSUPPORTED,
             "%.300s: a number that the file computes from the batch does not grow with it "
             "(%.60s%s%.80s): import with the batch as a number (axes)",
             in->onnx->file.wire.path, about.op ? about.op : "?", about.scope && *about.scope ? " in " : "",
             about.scope ? about.scope : "");
    return false;
}
