/* names.c - names of a file, and the values that they mean: import.h. */
#include "interchange/onnx/import/import.h"

/* ---- values by name ---- */

onnx_frame *onnx_frame_new(kit_arena *arena, onnx_frame like) {
    onnx_frame *frame = kit_take(arena, 1, sizeof *frame);
    if (frame) *frame = like;
    return frame;
}

onnx_value *onnx_find(onnx_frame *frame, const char *name) {
    onnx_value *v = NULL;
    for (; frame && !v; frame = frame->outer) v = onnx_table_find(&frame->values, name);
    return v;
}

onnx_value *onnx_define(importer *in, onnx_frame *frame, const char *name) {
    if (onnx_table_find(&frame->values, name)) {
        kit_fail(in->error, WEFT_FILE, "%.300s: two values are called '%.80s'", in->onnx->file.wire.path,
                 name);
        return NULL;
    }
    onnx_value *v = kit_take(in->arena, 1, sizeof *v);
    const char *kept = kit_copy(in->arena, name); /* a name in options ends with the call */
    if (!v || !kept || !onnx_table_add(&frame->values, in->arena, kept, v)) {
        kit_no_memory(in->error, in->onnx->file.wire.path);
        return NULL;
    }
    v->name = kept;
    return v;
}

/* ---- names in Weft: 1 to 200 letters, digits, '_', '-', '.' ---- */

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

enum { LONGEST = 200 };

const char *onnx_name(importer *in, const char *name) {
    size_t n = strlen(name) < LONGEST ? strlen(name) : LONGEST;
    char *made = kit_take(in->arena, n + 2, 1);
    if (!made) return "_";
    for (size_t i = 0; i < n; i++) made[i] = is_plain(name[i]) ? name[i] : '_';
    if (!n) made[0] = '_';
    return made;
}

/* Levels are what dots separate: those of PyTorch's names, and of safetensors'. */
const char *onnx_path(importer *in, const char *name) {
    char *made = kit_copy(in->arena, onnx_name(in, *name == '/' ? name + 1 : name));
    if (!made) return "_";
    for (char *c = made; *c; c++)
        if (*c == '.' && c > made && c[-1] != '/' && c[1] && c[1] != '.') *c = '/';
    return made;
}

const char *onnx_unlike(importer *in, const onnx_table *taken, const char *name) {
    for (size_t number = taken->count; onnx_table_find(taken, name); number++) {
        char end[24], *made = kit_take(in->arena, LONGEST + 1, 1);
        int n = snprintf(end, sizeof end, "_%zu", number);
        if (!made) return kit_no_memory(in->error, name), name;
        snprintf(made, LONGEST + 1, "%.*s%s", LONGEST - n, name, end);
        if (!onnx_table_find(taken, made)) return made;
        kit_drop(in->arena, made);
    }
    return name;
}

/* ---- scopes: a node's name without its last level, as exporters of PyTorch write it ---- */

static void each_level(importer *in, const char *path, int side, bool is_entered) {
    char level[201];
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n && n < sizeof level) {
            memcpy(level, path, n);
            level[n] = 0;
            if (is_entered)
                weft_graph_scope_enter(in->graph[side], level);
            else
                weft_scope_leave(in->graph[side]);
        }
        path += n + (path[n] == '/');
    }
}

void onnx_enter(importer *in, const char *path, int side) {
    each_level(in, path, side, true);
}

void onnx_leave(importer *in, const char *path, int side) {
    each_level(in, path, side, false);
}

/* The older exporter of PyTorch writes "/layer1/layer1.0/conv1/Conv": what a container has begins with its
 * name. */
const char *onnx_module_of(importer *in, const onnx_node *node) {
    if (node->module) return node->module;
    char *made = kit_take(in->arena, strlen(node->name) + 1, 1);
    size_t at = 0, last = 0; /* the end, and where the last level begins */
    const char *level = node->name + (*node->name == '/');
    for (size_t n; made && level[n = strcspn(level, "/")]; level += n + 1) {
        bool is_within =
            at > last && n > at - last && !memcmp(level, made + last, at - last) && level[at - last] == '.';
        if (is_within)
            at = last;
        else if (at)
            made[at++] = '.';
        last = at;
        memcpy(made + at, level, n);
        at += n;
    }
    return made && at ? made : NULL;
}

const char *onnx_scope_of(importer *in, const onnx_node *node) {
    const char *end = strrchr(node->name, '/');
    char *scope = end ? kit_copy(in->arena, node->name) : NULL;
    if (!scope) return "";
    scope[end - node->name] = 0;
    for (char *c = scope; *c; c++)
        if (*c != '/' && *onnx_name(in, (char[]){*c, 0}) != *c) *c = '_';
    return scope;
}
