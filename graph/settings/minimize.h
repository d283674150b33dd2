/* minimize.h - the attributes of a `minimize` node (a weft_optimizer with its defaults filled in), optimizers
 * as rows of a table, and parameter groups. */
#ifndef WEFT_GRAPH_SETTINGS_MINIMIZE_H
#define WEFT_GRAPH_SETTINGS_MINIMIZE_H

#include "graph/core/graph.h"

/* The declaration that a graph trains. */
extern const weft_op weft_op_minimize;

typedef struct minimize_attrs {
#define TEXT(name)       const char *name;
#define FLAG(name, ...)  bool name;
#define REAL(name, ...)  double name;
#define COUNT(name, ...) int64_t name;
#define PARTS(name)      const char *name;
#include "graph/settings/minimize_list.h"
} minimize_attrs;

/* A number of weft_optimizer, and how weft_minimize makes one of minimize_attrs from it. */
typedef struct optimizer_setting {
    const char *name;
    size_t from, to; /* offsets in weft_optimizer and in minimize_attrs */
    bool is_own;     /* optimizers that name it in their `fields` read it alone; else all do */
    double fallback; /* meaning of 0, unless the optimizer has its own default */
    double most;
    bool has_zero; /* WEFT_ZERO is allowed; otherwise 0 means off, and a true 0 has no meaning */
    bool is_count; /* int64_t; the others are double */
} optimizer_setting;
extern const optimizer_setting
    optimizer_settings[]; /* in graph/settings/optimizer_fields.c; ends without a name */

/* The defaults of torch.amp.GradScaler. */
enum { MINIMIZE_LOSS_SCALE = 65536, MINIMIZE_GROWTH_INTERVAL = 2000 };
enum { MINIMIZE_MAX_PATTERN = 512 /* bytes of a parameter group's pattern, NUL included */ };

/* ---- optimizers: each is a row in a file of ops/optimizer, whose list.h has them all, or is a model's own
 * ---- */
enum { OPTIMIZER_SLOTS = WEFT_MAX_SLOTS, OPTIMIZER_FIELDS = 8 };
/* State of the engine's own, after the optimizer's slots: a parameter's average (weft_optimizer.ema). */
enum { SLOT_AVERAGE = OPTIMIZER_SLOTS, OPTIMIZER_STATES };
#define AVERAGE_NAME "ema"

typedef struct optimizer_number {
    const char *name;
    double value;
} optimizer_number;

/* What of a parameter's shape a state tensor has. ROWS and COLUMNS keep what is equal along one of the
 * last two axes; parameters of fewer than two have none. */
typedef enum slot_shape {
    SLOT_LIKE_PARAMETER,
    SLOT_ROWS,      /* [..., n, 1] of [..., n, m] */
    SLOT_COLUMNS,   /* [..., 1, m] */
    SLOT_NO_MATRIX, /* the parameter's shape; matrices have none */
} slot_shape;

/* A state tensor: PyTorch's name of it, and what it begins as. The offsets are in minimize_attrs; 0: none. */
typedef struct optimizer_slot_kind {
    const char *name;
    size_t need;         /* a double that is 0 where there is no such state */
    size_t flag;         /* a bool that is false where there is none */
    size_t initial_from; /* a double: what it begins as */
    double initial;      /* the same, of a model's own optimizers */
    slot_shape shape;
} optimizer_slot_kind;

/* An optimizer. Its step is one op over a flat buffer (`update`), or is built from ops (`build`), over flat
 * buffers where every op of it is pointwise, else parameter by parameter.
 * Attributes of `update` get the values of the fields of minimize_attrs with their names; lr_scale and
 * weight_decay are those of the parameter group. */
typedef struct optimizer_kind {
    const char *type;
    /* operands: bucket or shard, gradients, slots..., lr, step, scale, momentum, decay; NULL: none */
    const weft_op *update;
    /* Replaces u->parameter and u->slots by their new values; a: with the weight_decay of the parameter
     * group. With an `update`, only where that cannot do it: amsgrad. */
    void (*build)(weft_update *u, const minimize_attrs *a);
    /* Fields of weft_optimizer that this optimizer reads and some others do not; NULL ends. */
    const char *fields[OPTIMIZER_FIELDS + 1];
    /* Defaults that differ from the common ones; an entry without a name ends. */
    optimizer_number defaults[OPTIMIZER_FIELDS + 1];
    optimizer_number sets; /* an attribute of `update` that distinguishes optimizers with the same op */
    optimizer_slot_kind slots[OPTIMIZER_SLOTS + 1]; /* ends at the first without a name */
    /* u->numbers[0] is the product of update_product() over the steps so far, this one included. (Of Weft's
     * optimizers, u->numbers[1] is a schedule's factor on momentum or beta1; NULL: there is none.) */
    bool has_product;
    bool reads_lr_once;   /* at the first step, so that no schedule could change it */
    bool is_for_matrices; /* parameters of other than two axes are refused */
    /* Its parameters follow a value: no other call trains them, and settings for all optimizers are not for
     * it. */
    bool follows;
    /* the rule of PyTorch's constructor that `a` breaks; NULL: none */
    const char *(*broken)(const minimize_attrs *a);
    const struct own_optimizer *own; /* NULL for Weft's */
} optimizer_kind;

/* By weft_optimizer.type: the model's own, then those of its catalog; NULL: there is none. */
const optimizer_kind *optimizer_find(const weft_model *m, const char *type);
/* The same for what people write: capitals count as small letters, as in "AdamW". */
const optimizer_kind *optimizer_spelt(const weft_model *m, const char *type);
/* Whether the optimizer reads a field that not all optimizers read. */
bool optimizer_reads(const optimizer_kind *kind, const char *field);
/* The same of any number. */
bool optimizer_has(const optimizer_kind *kind, const optimizer_setting *s);
/* Whether weft_model_set_optimizer means the optimizer `own` of the model by `name`. */
bool optimizer_is_meant(const weft_model *m, const char *own, const char *name);
/* Whether training with these settings needs the state number `slot`. */
bool optimizer_has_slot(const minimize_attrs *a, const optimizer_kind *kind, int slot);
/* The type of the state of a parameter. False: the parameter has none. */
bool optimizer_slot_type(slot_shape shape, const tensor_type *parameter, tensor_type *type);
/* Whether the call is of an optimizer_kind.follows. */
bool minimize_follows(const weft_node *minimize);
/* Whether it is a call of optimizer_kind.follows whose parameter is frozen, in its graph's model: it does
 * nothing. */
bool minimize_is_still(const weft_node *minimize);
/* Whether the call trains parameter v, if its loss reaches it. */
bool minimize_trains(const weft_node *minimize, const weft_variable *v);
/* Whether the step is built from ops. */
bool optimizer_is_built(const minimize_attrs *a, const optimizer_kind *kind);
/* *answer: whether every op of the step is pointwise, so that any range of a flat buffer can be updated
 * alone, which is found out by building it in a model of its own. False when memory is out. */
bool optimizer_is_elementwise(const weft_model *m, const optimizer_kind *kind, const minimize_attrs *a,
                              bool *answer);
/* Builds the step in the graph of u's values. False after recording the model's error. */
bool optimizer_build(const optimizer_kind *kind, weft_update *u, const minimize_attrs *a);

/* ---- a model's own optimizers (graph/settings/own.c) ---- */

/* A step as calls: a graph apart from the model's others. Its inputs are "parameter", "gradient", "lr",
 * "step", "weight_decay", and slots and numbers by their names; its outputs "parameter" and slots by their
 * names. */
typedef struct update_record {
    struct update_record *next;
    weft_graph *graph;
    tensor_type type; /* of the parameter */
} update_record;

typedef struct own_optimizer {
    struct own_optimizer *next;
    optimizer_kind kind;
    weft_optimizer_definition is; /* build NULL: it comes from a file or a text */
    update_record *records;       /* one where is_elementwise, else one for each shape */
    bool is_elementwise;
} own_optimizer;

enum {
    MODEL_MAX_OWN = 64,           /* own optimizers of a model */
    MODEL_MAX_RECORDS = 1024,     /* recorded updates of one */
    MODEL_MAX_UPDATE_CALLS = 512, /* in one of these, which is repeated for each bucket or parameter */
    UPDATE_NODES = 1 << 21,       /* most nodes of a graph, with its updates */
};

/* Adds an optimizer without records. False after recording the model's error, as those below. */
own_optimizer *own_optimizer_new(weft_model *m, const weft_optimizer_definition *d);
/* Begins a record: a graph without nodes, whose calls the caller makes. */
weft_graph *own_record_begin(weft_model *m, own_optimizer *o);
/* Checks the calls and outputs of a record, and adds it to those of the optimizer. */
bool own_record_end(weft_model *m, own_optimizer *o, weft_graph *g);
/* Records the step for each shape of the trainable parameters under `pattern`, where that is needed. */
bool own_record_shapes(weft_model *m, const optimizer_kind *kind, const char *pattern);
/* Copies own optimizers to a model that has none. */
bool own_optimizers_copy(const weft_model *from, weft_model *to);

/* Whether a graph has a `minimize` node, so that it updates parameters (graph/settings/minimize.c). */
bool graph_trains(const weft_graph *g);

/* ---- kinds of parameters, bits WEFT_PARAMS_... (graph/settings/kind_words.c) ---- */
extern const char *const parameter_kinds[]; /* names of the bits in text; NULL ends */
/* "norm+bias", with `between` in between; and the reader of that with '+', which moves *at. */
void parameter_kinds_write(text *t, unsigned kinds, const char *between);
bool parameter_kinds_parse(const char **at, unsigned *kinds);

/* ---- parameter groups (graph/settings/param_groups.c) ---- */
enum { MINIMIZE_MAX_WILD = 1024 /* most patterns with a '*' or kinds: each is tried on each parameter */ };

typedef struct param_group param_group;

/* The groups of one weft_minimize call, parsed once and then asked for many parameters. */
typedef struct param_groups {
    arena memory;
    name_table by_path; /* patterns without '*' and kinds */
    param_group **wild; /* the others, in order */
    int n_wild, count;
} param_groups;

/* Why minimize_attrs.groups cannot be `text`; NULL: it can. */
const char *param_groups_broken(const char *text);
/* Parses a text without errors. False when memory is out; then there is nothing to close. */
bool param_groups_open(param_groups *g, const weft_env *env, const char *text);
void param_groups_close(param_groups *g);
/* The group of parameter v, numbered from 1; 0: it is in none. */
int param_groups_find(const param_groups *g, const weft_variable *v);
/* Writes the group's numbers and its weight_decay into *own, a copy of the call's settings. Returns the
 * group's multiplier of lr. */
double param_groups_apply(const param_groups *g, const weft_variable *v, minimize_attrs *own);
/* Whether the updates in which v trains have a first or a last one: *from, and *to after the last (0: no
 * end). */
bool param_groups_range(const param_groups *g, const weft_variable *v, int64_t *from, int64_t *to);
/* Walks the groups of a text without errors: *own becomes what parameters of the next one have. False: there
 * are no more. *unread is the name of a number that the optimizer does not read; *has_range: the group
 * does not train in all updates. */
bool param_groups_next(const char **at, const minimize_attrs *a, const optimizer_kind *kind,
                       minimize_attrs *own, const char **unread, bool *has_range);

#endif
