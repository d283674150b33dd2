/* zoo_simclr.c - SimCLR of weft-zoo on 32 x 32 images: Chen et al., arXiv 2002.05709. Two views of an
 * image are a positive pair, and the views of all other images, on all ranks, are its negatives: so a
 * larger world is a larger batch. NT-Xent, their equation 1, over the rows of this rank; batch norm
 * takes its statistics over all ranks, as theirs does. */
#include "zoo.h"

#define TEMPERATURE 0.5

static weft_value *projection(weft_value *x, const zoo_options *o) {
    WEFT_SCOPE(x, "net") {
        x = weft_normalize(zoo_head(zoo_encoder(x, o, false), o, false, "projector"), -1, 0);
    }
    return x;
}

static weft_value *similarity(weft_value *own, weft_value *all) {
    return weft_scale(weft_matmul(own, all, false, true), 1 / TEMPERATURE);
}

/* own[B, d] against all[wB, d], of the other view and of its own: the match is at its own place in the
 * other, and a view is not its own negative. */
static weft_value *half(weft_value *own, weft_value *others, weft_value *same) {
    weft_value *place = weft_rank_rows(own, NULL), *places = weft_all_gather(place, 0, NULL);
    weft_value *row = weft_unsqueeze(place, 1), *column = weft_unsqueeze(places, 0);
    weft_value *is_itself = weft_equal(row, column);
    weft_value *lowest = weft_constant(weft_value_graph(own), WEFT_F32, 0, NULL, -1e9);
    weft_value *rest = weft_where(is_itself, lowest, similarity(own, same));
    weft_value *logits = weft_concat(2, (weft_value *[]){similarity(own, others), rest}, 1);
    return weft_cross_entropy(logits, place, NULL);
}

static weft_value *simclr_loss(weft_graph *g, const zoo_options *o) {
    weft_value *a = projection(zoo_view(g, "view_a"), o);
    weft_value *b = projection(zoo_view(g, "view_b"), o);
    weft_value *all_a = weft_all_gather(a, 0, NULL), *all_b = weft_all_gather(b, 0, NULL);
    weft_value *of_a = half(a, all_b, all_a), *of_b = half(b, all_a, all_b);
    weft_value *loss = weft_scale(weft_add(of_a, of_b), 0.5);
    weft_output(loss, "loss");
    return loss;
}

void zoo_simclr(weft_model *m, const zoo_options *o) {
    const weft_optimizer adam = {.type = "adam", .lr = 3e-4, .weight_decay = 1e-6};
    weft_minimize(simclr_loss(weft_graph_new(m, "train", WEFT_TRAIN), o), "net", zoo_optimizer(o, &adam));
    weft_model_set_ddp(m, "net", &(weft_ddp_options){.sync_batch_norm = true});
    weft_value *x = zoo_view(weft_graph_new(m, "predict", WEFT_EVAL), "image");
    WEFT_SCOPE(x, "net") x = zoo_encoder(x, o, false);
    weft_output(x, "features");
}
