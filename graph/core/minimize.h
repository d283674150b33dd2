/* minimize.h - the attributes of a `minimize` node: a weft_optimizer with its defaults filled in. */
#ifndef WEFT_GRAPH_CORE_MINIMIZE_H
#define WEFT_GRAPH_CORE_MINIMIZE_H

#include "graph/core/graph.h"

typedef struct minimize_attrs {
    const char *pattern, *type, *name;
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay, clip_norm;
    bool nesterov;
    int64_t schedule, warmup_steps, step_size, total_steps;
    double gamma, floor;
    const char *groups;      /* "pattern lr_scale decay_scale;..." */
    double loss_scale;       /* of f16, at first; 0: MINIMIZE_LOSS_SCALE */
    int64_t growth_interval; /* 0: MINIMIZE_GROWTH_INTERVAL */
} minimize_attrs;

/* torch.amp.GradScaler's. */
enum { MINIMIZE_LOSS_SCALE = 65536, MINIMIZE_GROWTH_INTERVAL = 2000 };
enum { MINIMIZE_MAX_PATTERN = 512 /* of a parameter group, with its NUL */ };

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
