/* minimize.h - the attributes of a `minimize` node (a weft_optimizer with its defaults filled in), optimizers
 * as rows of a table, and parameter groups. */
#ifndef WEFT_GRAPH_CORE_MINIMIZE_H
#define WEFT_GRAPH_CORE_MINIMIZE_H

#include "graph/core/graph.h"

typedef struct minimize_attrs {
#define TEXT(name)       const char *name;
#define FLAG(name, ...)  bool name;
#define REAL(name, ...)  double name;
#define COUNT(name, ...) int64_t name;
#define KIND(name, ...)  int64_t name;
#include "graph/core/minimize_list.h"
} minimize_attrs;

/* The defaults of torch.amp.GradScaler. */
enum { MINIMIZE_LOSS_SCALE = 65536, MINIMIZE_GROWTH_INTERVAL = 2000 };
enum { MINIMIZE_MAX_PATTERN = 512 /* bytes of a parameter group's pattern, NUL included */ };

/* ---- optimizers: each is a row in the file of its update op; ops/optimizer/list.h lists them ---- */
enum { OPTIMIZER_SLOTS = 3, OPTIMIZER_FIELDS = 6 };

typedef struct optimizer_number {
    const char *name;
    double value;
} optimizer_number;

/* An optimizer. All of them update element by element, so that any range of a bucket can be updated alone.
 * Attributes of `update` get the values of the fields of minimize_attrs with their names; lr_scale and
 * weight_decay are those of the parameter group. */
typedef struct optimizer_kind {
    const char *type;
    /* operands: bucket or shard, gradients, slots..., lr, step, scale, momentum, decay */
    const weft_op *update;
    /* Fields of weft_optimizer that this optimizer reads and some others do not; NULL ends. */
    const char *fields[OPTIMIZER_FIELDS + 1];
    /* Defaults that differ from the common ones; an entry without a name ends. */
    optimizer_number defaults[OPTIMIZER_FIELDS];
    optimizer_number sets; /* an attribute of `update` that distinguishes optimizers with the same op */
    const char *slots[OPTIMIZER_SLOTS + 1]; /* PyTorch's names of the state tensors; NULL ends */
    /* Offset in minimize_attrs of a double that is 0 when there are no slots; 0: there always are. */
    size_t slots_need;
    /* the rule of PyTorch's constructor that `a` breaks; NULL: none */
    const char *(*broken)(const minimize_attrs *a);
} optimizer_kind;

/* By place in the list (NULL past its end), and by weft_optimizer.type (NULL: there is none). */
const optimizer_kind *optimizer_at(int index);
const optimizer_kind *optimizer_find(const char *type);
/* Whether the optimizer reads a field that not all optimizers read. */
bool optimizer_reads(const optimizer_kind *kind, const char *field);
/* Whether a graph has a `minimize` node, so that it updates parameters (ops/structure/minimize.c). */
bool graph_trains(const weft_graph *g);

/* ---- parameter groups (ops/structure/param_groups.c) ---- */
enum { MINIMIZE_MAX_WILD = 1024 /* most patterns with a '*': each is tried on each parameter */ };

typedef struct param_group param_group;

/* The groups of one weft_minimize call, parsed once and then asked for many parameters. */
typedef struct param_groups {
    arena memory;
    name_table by_path; /* patterns without '*' */
    param_group **wild; /* patterns with '*', in order */
    int n_wild, count;
} param_groups;

/* Why minimize_attrs.groups cannot be `text`; NULL: it can. */
const char *param_groups_broken(const char *text);
/* Parses a text without errors. False when memory is out; then there is nothing to close. */
bool param_groups_open(param_groups *g, const weft_env *env, const char *text);
void param_groups_close(param_groups *g);
/* The group of parameter `path`, numbered from 1, and its multipliers; 0 (and multipliers of 1): none. */
int param_groups_find(const param_groups *g, const char *path, double *lr_scale, double *decay_scale);

#endif
