/* minimize.h - the attributes of a `minimize` node: a weft_optimizer with its defaults filled in; and what an
 * optimizer is. */
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

/* torch.amp.GradScaler's. */
enum { MINIMIZE_LOSS_SCALE = 65536, MINIMIZE_GROWTH_INTERVAL = 2000 };
enum { MINIMIZE_MAX_PATTERN = 512 /* of a parameter group, with its NUL */ };

/* ---- optimizers: a row in the file of each one's update op, listed in ops/optimizer/list.h ---- */
enum { OPTIMIZER_SLOTS = 3, OPTIMIZER_FIELDS = 6 };

typedef struct optimizer_number {
    const char *name;
    double value;
} optimizer_number;

/* All work element by element, so that any range of a bucket can be updated by itself. The attributes of `update` that
 * have a namesake in minimize_attrs are set from there; lr_scale and weight_decay are those of the parameter group. */
typedef struct optimizer_kind {
    const char *type;
    const weft_op *update; /* of bucket or shard, gradients, slots..., lr, step, scale */
    const char
        *fields[OPTIMIZER_FIELDS + 1]; /* of weft_optimizer, read by this one and not by all; NULL ends */
    optimizer_number defaults[OPTIMIZER_FIELDS]; /* where another than every optimizer's; no name ends */
    optimizer_number sets; /* an attribute of `update` that tells it from others of the same op */
    const char *slots[OPTIMIZER_SLOTS + 1]; /* torch's names of the state; NULL ends */
    size_t
        slots_need; /* offset in minimize_attrs of a double: when it is 0 there are no slots; 0: always there */
    const char *(*broken)(const minimize_attrs *a); /* which rule of torch's constructor is; NULL: none */
} optimizer_kind;

/* In the order of the list, NULL past the end; by weft_optimizer.type, NULL: there is none. */
const optimizer_kind *optimizer_at(int index);
const optimizer_kind *optimizer_find(const char *type);
/* Whether it reads a field that not all read. */
bool optimizer_reads(const optimizer_kind *kind, const char *field);
/* Whether a graph minimizes: it updates parameters (ops/structure/minimize.c). */
bool graph_trains(const weft_graph *g);

/* ---- parameter groups (ops/structure/param_groups.c) ---- */
enum { MINIMIZE_MAX_WILD = 1024 /* patterns with a '*', each of which is tried on each parameter */ };

typedef struct param_group param_group;

/* Those of one call, read once, to be asked for many parameters. */
typedef struct param_groups {
    arena memory;
    name_table by_path; /* patterns without '*' */
    param_group **wild; /* the others, in order */
    int n_wild, count;
} param_groups;

/* Why `text`, as in minimize_attrs, is none; NULL: it is fine. */
const char *param_groups_broken(const char *text);
/* false when memory is out; then there is nothing to close. */
bool param_groups_open(param_groups *g, const weft_env *env, const char *text);
void param_groups_close(param_groups *g);
/* Which one `path` is in: 0 for none, else its number from 1; with its scales. */
int param_groups_find(const param_groups *g, const char *path, double *lr_scale, double *decay_scale);

#endif
