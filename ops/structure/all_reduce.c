/* all_reduce.c - starts the sum of a flat buffer over the ranks of a process group, on the communication
 * stream. Result 0 is the operand's own memory, not to be accessed before `wait`; result 1 is scratch that
 * the sum needs until then. Made by the optimizer pass; the session's communicator runs it, so there is no
 * kernel. */
#include "ops/structure/collective.h"

const op_attr sum_attr_table[] = {
    {"path", ATTR_STRING, offsetof(collective_attrs, path)},
    {"order", ATTR_INT, offsetof(collective_attrs, order), 0, INT64_MAX},
    {"scratch", ATTR_INT, offsetof(collective_attrs, scratch), 1, (int64_t)1 << 46},
    {"group", ATTR_INT, offsetof(collective_attrs, group), 0, INT32_MAX},
    {"over", ATTR_STRING, offsetof(collective_attrs, over)},
    {"root", ATTR_INT, offsetof(collective_attrs, root), 0, INT32_MAX},
    {"bf16", ATTR_BOOL, offsetof(collective_attrs, bf16)},
    {"unordered", ATTR_BOOL, offsetof(collective_attrs, unordered)},
    {0},
};

const op_sample start_samples[] = {
    {"f32[8]", "path=\"no such\" scratch=64", .error = "neither a bucket nor a scope"}, {0}};

/* The path names a bucket, or the scope of an op over ranks. */
bool infer_sum(op_call *c) {
    const collective_attrs *a = c->attrs;
    if (!a->path || !(variable_find(c->graph->model, a->path) || path_is_valid(a->path)))
        return op_fail(c, WEFT_NAME, "'%s' is neither a bucket nor a scope", SHOW(a->path));
    c->n_out = 2;
    c->out[1] = type_of(WEFT_U8, 1, &a->scratch);
    return true;
}

const weft_op weft_op_all_reduce = {
    .name = "all_reduce",
    .summary = "starts the sum of a bucket over all ranks",
    STARTS_IN_PLACE,
    .infer = infer_sum,
    .samples = start_samples,
};
