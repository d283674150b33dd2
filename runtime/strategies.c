/* strategies.c - the strategies that Weft brings. Each is data, as a strategy of a user's: which of the keys
 * it takes, and what they decide. The compiler does the rest by the options that are there anyway. */
#include "runtime/strategy.h"

#include "graph/core/error.h"

#include <string.h>

/* A key that is 1. Another value is refused: 0 would say no more than no key, so that an option which
 * contradicts it would be passed over. */
static bool flag(const weft_strategy_call *call, const char *key, bool *into, weft_error *error) {
    const char *said = weft_strategy_text(call, key);
    if (!said) return true;
    if (strcmp(said, "1") == 0) return *into = true;
    return !error_set(error, WEFT_ARGUMENT, "%s=%s: it must be 1, or be left out", key, SHOW(said));
}

/* A key that is words[0] or words[1]; *into becomes first, or first + 1. */
static bool word(const weft_strategy_call *call, const char *key, const char *const words[2], int first,
                 int *into, weft_error *error) {
    const char *said = weft_strategy_text(call, key);
    if (!said) return true;
    for (int i = 0; i < 2; i++)
        if (strcmp(said, words[i]) == 0) return *into = first + i, true;
    return !error_set(error, WEFT_ARGUMENT, "%s=%s: it must be %s or %s", key, SHOW(said), words[0],
                      words[1]);
}

/* What all of them but single may say of the whole plan. */
static bool common(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    static const char *const reduces[] = {"ordered", "fast"};
    int reduce = 0;
    bool good =
        !weft_strategy_number(call, "bucket_cap_mb", 1e-6, 1 << 20, false, &into->bucket_cap_mb, error) &&
        word(call, "reduce", reduces, WEFT_REDUCE_ORDERED, &reduce, error) &&
        flag(call, "serial", &into->serial, error) && flag(call, "check_equal", &into->check_equal, error);
    into->reduce = (weft_reduce)reduce;
    return good;
}

static weft_status single(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    (void)into;
    if (call->world == 1) return WEFT_OK;
    return error_set(error, WEFT_ARGUMENT,
                     "it is for a world of one rank, and there are %d: choose ddp, "
                     "separate_ddp or zero",
                     call->world);
}

/* The options of the subgraph or subgraphs that `path` names. Without any there is nothing to say of "*". */
static weft_status spread(const weft_strategy_call *call, const char *path, weft_distribution *into,
                          weft_error *error) {
    weft_strategy_subgraph *one = weft_strategy_room(call, sizeof *one);
    bool bf16 = false;
    if (!one) return error_memory(error, "strategy");
    weft_ddp_options *o = &one->options;
    bool good = common(call, into, error) && flag(call, "broadcast_buffers", &o->broadcast_buffers, error) &&
                flag(call, "find_unused_parameters", &o->find_unused_parameters, error) &&
                flag(call, "sync_batch_norm", &o->sync_batch_norm, error) &&
                flag(call, "bf16_wire", &bf16, error);
    if (bf16) o->wire = WEFT_BF16;
    bool says =
        o->broadcast_buffers || o->find_unused_parameters || o->sync_batch_norm || bf16 || !strchr(path, '*');
    one->path = path;
    into->subgraphs = one;
    into->n_subgraphs = says;
    return good ? WEFT_OK : WEFT_ARGUMENT;
}

static weft_status ddp(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    return spread(call, "", into, error);
}

static weft_status separate_ddp(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    return spread(call, "*", into, error);
}

static weft_status zero(const weft_strategy_call *call, weft_distribution *into, weft_error *error) {
    static const char *const shards[] = {"greedy", "flat"};
    double stage = 1;
    int shard = WEFT_SHARD_GREEDY;
    bool good = common(call, into, error) &&
                !weft_strategy_number(call, "stage", 1, 2, true, &stage, error) &&
                word(call, "shard", shards, WEFT_SHARD_GREEDY, &shard, error);
    into->zero = (int)stage;
    into->shard = (weft_shard)shard;
    return good ? WEFT_OK : WEFT_ARGUMENT;
}

#define COMMON "bucket_cap_mb", "serial", "reduce", "check_equal"
static const char *const spread_keys[] = {
    "broadcast_buffers", "find_unused_parameters", "sync_batch_norm", "bf16_wire", COMMON, NULL};
static const char *const zero_keys[] = {"stage", "shard", COMMON, NULL};

const weft_strategy strategies[] = {
    {.name = "single", .distribute = single},
    {.name = "ddp", .keys = spread_keys, .distribute = ddp},
    {.name = "separate_ddp", .keys = spread_keys, .distribute = separate_ddp},
    {.name = "zero", .keys = zero_keys, .distribute = zero},
    {0},
};
