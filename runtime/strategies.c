/* strategies.c - the strategies that Weft brings. Each is data, as a strategy of a user's: the fields that
 * its text sets, and what they decide. The compiler does the rest by the options that are there anyway. */
#include "runtime/strategy.h"

#include "graph/core/error.h"
#include "graph/settings/ddp.h"
#include "runtime/plan/compile_fields.h"

#include <string.h>

/* ---- what their texts say ---- */

/* Each strategy reads some of these. */
typedef struct spread_options {
    double bucket_cap_mb;
    weft_reduce reduce;
    bool serial, check_equal;
    bool broadcast_buffers, find_unused_parameters, sync_batch_norm, bf16_wire;
    int stage;
    weft_shard shard;
} spread_options;

/* A flag is switched on, or left out: 0 would say no more than no key, so that an option which contradicts it
 * would be passed over. */
#define FLAG(field)                                                                                          \
    { #field, WEFT_FIELD_FLAG, offsetof(spread_options, field), .least = 1 }
#define ENUM(field, words)                                                                                   \
    { #field, WEFT_FIELD_WORD, offsetof(spread_options, field), 0, 0, words }
#define COMMON                                                                                               \
    {"bucket_cap_mb", WEFT_FIELD_REAL, offsetof(spread_options, bucket_cap_mb), 0, 1 << 20},                 \
        ENUM(reduce, reduce_words), FLAG(serial), FLAG(check_equal)

static const weft_field spread_fields[] = {
    COMMON,          FLAG(broadcast_buffers),           FLAG(find_unused_parameters), FLAG(sync_batch_norm),
    FLAG(bf16_wire), {.offset = sizeof(spread_options)}};
static const weft_field zero_fields[] = {COMMON,
                                         {"stage", WEFT_FIELD_INT, offsetof(spread_options, stage), 1, 2},
                                         ENUM(shard, shard_words),
                                         {.offset = sizeof(spread_options)}};

/* ---- what strategies call ---- */

void *weft_strategy_room(const weft_strategy_call *call, size_t bytes) {
    return arena_new(call->memory, bytes + 1);
}

/* ---- what they decide ---- */

/* What all of them but single say of the whole plan. */
static void common(const spread_options *o, weft_distribution *into) {
    into->bucket_cap_mb = o->bucket_cap_mb;
    into->reduce = o->reduce;
    into->serial = o->serial;
    into->check_equal = o->check_equal;
}

static weft_status single(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    if (call->world == 1) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT,
                     "it is for a world of one rank, and there are %d: choose ddp, separate_ddp or zero",
                     call->world);
}

/* The options of the subgraph or subgraphs that `path` names. Without any there is nothing to say of "*". */
static weft_status spread(const weft_strategy_call *call, const char *path, weft_distribution *into,
                          weft_error *error) {
    const spread_options *from = call->options;
    weft_strategy_subgraph *one = weft_strategy_room(call, sizeof *one);
    if (!one) return error_memory(error, "strategy");
    *one = (weft_strategy_subgraph){path,
                                    {.broadcast_buffers = from->broadcast_buffers,
                                     .find_unused_parameters = from->find_unused_parameters,
                                     .sync_batch_norm = from->sync_batch_norm,
                                     .wire = from->bf16_wire ? WEFT_BF16 : 0}};
    common(from, into);
    into->subgraphs = one;
    into->n_subgraphs = from->broadcast_buffers || from->find_unused_parameters || from->sync_batch_norm ||
                        from->bf16_wire || !strchr(path, '*');
    return WEFT_OK;
}

static weft_status ddp(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    return spread(call, "", into, error);
}

static weft_status separate_ddp(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    return spread(call, "*", into, error);
}

static weft_status zero(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    const spread_options *from = call->options;
    common(from, into);
    into->zero = from->stage ? from->stage : 1;
    into->shard = from->shard;
    return WEFT_OK;
}

const weft_strategy strategies[] = {
    {.name = "single", .distribute = single},
    {"ddp", spread_fields, .distribute = ddp},
    {"separate_ddp", spread_fields, .distribute = separate_ddp},
    {"zero", zero_fields, .distribute = zero},
    {0},
};
