/* entries.c - what the values of a graph became, in a table of addresses. */
#include "interchange/onnx/export/export.h"

export_entry *export_entry_of(const exporter *e, const void *of) {
    size_t at = (size_t)kit_hash(&of, sizeof of, 0) & (e->room - 1);
    while (e->entries[at].of && e->entries[at].of != of) at = (at + 1) & (e->room - 1);
    e->entries[at].of = of;
    return &e->entries[at];
}

bool export_entries(exporter *e) {
    size_t count = 1;
    weft_node_info about;
    for (const weft_node *n = NULL; (n = weft_graph_node(e->graph, n));)
        if (weft_node_about(n, &about)) count += 1 + (size_t)about.n_results;
    for (e->room = 64; e->room < 2 * count;) e->room *= 2;
    e->entries = kit_take(e->arena, e->room, sizeof *e->entries);
    return e->entries;
}
