/* zoo_moco.c - MoCo of weft-zoo on 32 x 32 images: He et al., arXiv 1911.05722. A query is to find,
 * among a queue of keys of earlier images, the key of its own image's other view. Graph `key` first
 * moves the key network by key = m key + (1 - m) query, and at its first run makes it equal, as their
 * algorithm 1 does; the keys of all ranks then enter the queue, which is the same on all, and the oldest
 * leave it. Norms are of groups of channels: batch norm would tell which keys are of one batch, which is
 * why theirs shuffles batches between ranks. */
#include "zoo.h"

#define MOMENTUM    0.999
#define TEMPERATURE 0.07
enum { QUEUE = 4096 };

static weft_value *network(weft_value *x, const zoo_options *o, const char *name) {
    WEFT_SCOPE(x, name) {
        x = weft_normalize(zoo_head(zoo_encoder(x, o, true), o, true, "head"), -1, 0);
    }
    return x;
}

static weft_value *moco_loss(weft_graph *g, const zoo_options *o) {
    weft_value *query = network(zoo_view(g, "view_a"), o, "query");
    weft_value *key = weft_stop_gradient(network(zoo_view(g, "view_b"), o, "key"));
    int64_t d = weft_dim(query, 1);
    const weft_init start = {WEFT_INIT_NORMAL, 0, 1};
    weft_value *queue = weft_state(query, "queue", 2, (int64_t[]){QUEUE, d}, start);
    weft_value *match = weft_sum(weft_mul(query, key), WEFT_AXES(1), true);
    weft_value *others = weft_matmul(query, weft_normalize(queue, -1, 0), false, true);
    weft_value *logits = weft_scale(weft_concat(2, (weft_value *[]){match, others}, 1), 1 / TEMPERATURE);
    weft_value *first = weft_constant(g, WEFT_I64, WEFT_SHAPE(WEFT_BATCH), 0);
    weft_value *loss = weft_cross_entropy(logits, first, NULL);
    weft_value *longer = weft_concat(2, (weft_value *[]){weft_all_gather(key, 0, NULL), queue}, 0);
    weft_assign(queue, weft_slice(longer, 0, 0, QUEUE));
    weft_output(loss, "loss");
    return loss;
}

void zoo_moco(weft_model *m, const zoo_options *o) {
    const weft_optimizer sgd = {.type = "sgd", .lr = 0.03, .momentum = 0.9, .weight_decay = 1e-4};
    weft_graph *g = weft_graph_new(m, "key", WEFT_EVAL);
    weft_minimize(moco_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "query", zoo_optimizer(o, &sgd));
    zoo_follow(g, "key", "query", zoo_after_first(g, weft_constant(g, WEFT_F32, 0, NULL, MOMENTUM)));
    weft_model_set_flow(m, "key train");
    weft_value *x = zoo_view(weft_graph_new(m, "predict", WEFT_EVAL), "image");
    WEFT_SCOPE(x, "query") x = zoo_encoder(x, o, true);
    weft_output(x, "features");
}
