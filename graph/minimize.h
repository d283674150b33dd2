/* minimize.h - the attributes of a `minimize` node: a weft_optimizer with its defaults filled in. */
#ifndef WEFT_GRAPH_MINIMIZE_H
#define WEFT_GRAPH_MINIMIZE_H

#include "graph/graph.h"

typedef struct minimize_attrs {
    const char *pattern, *type, *name;
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay, clip_norm;
    bool nesterov;
    int64_t schedule, warmup_steps, step_size, total_steps;
    double gamma, floor;
    const char *groups; /* "pattern lr_scale decay_scale;..." */
    double loss_scale;  /* of f16, at first; 0: MINIMIZE_LOSS_SCALE */
    int64_t growth_interval; /* 0: MINIMIZE_GROWTH_INTERVAL */
} minimize_attrs;

/* torch.amp.GradScaler's. */
enum { MINIMIZE_LOSS_SCALE = 65536, MINIMIZE_GROWTH_INTERVAL = 2000 };
enum { MINIMIZE_MAX_PATTERN = 512 /* of a parameter group, with its NUL */ };

/* Which parameter group `path` is in: 0 for none, else its number from 1, with its scales; -1: groups is malformed. */
int minimize_group(const minimize_attrs *a, const char *path, double *lr_scale, double *decay_scale);

#endif
