/* table.c - see table.h. Open addressing; at most half of the slots are taken. */
#include "interchange/onnx/format/table.h"

static onnx_slot *slot_of(const onnx_table *t, const char *name, uint64_t hash) {
    size_t i = (size_t)hash & (t->room - 1);
    while (t->slots[i].name && (t->slots[i].hash != hash || strcmp(t->slots[i].name, name)))
        i = (i + 1) & (t->room - 1);
    return &t->slots[i];
}

void *onnx_table_find(const onnx_table *t, const char *name) {
    return t->room ? slot_of(t, name, kit_hash(name, strlen(name), 0))->item : NULL;
}

static bool make_larger(onnx_table *t, kit_arena *a) {
    onnx_table larger = {.room = t->room ? 2 * t->room : 16, .count = t->count};
    larger.slots = kit_take(a, larger.room, sizeof *larger.slots);
    if (!larger.slots) return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].name) *slot_of(&larger, t->slots[i].name, t->slots[i].hash) = t->slots[i];
    kit_drop(a, t->slots);
    *t = larger;
    return true;
}

bool onnx_table_add(onnx_table *t, kit_arena *a, const char *name, void *item) {
    if (2 * (t->count + 1) > t->room && !make_larger(t, a)) return false;
    uint64_t hash = kit_hash(name, strlen(name), 0);
    *slot_of(t, name, hash) = (onnx_slot){name, item, hash};
    t->count++;
    return true;
}
