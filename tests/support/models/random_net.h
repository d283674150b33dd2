/* random_net.h - random networks of every kind of layer, small, for tests that hold for any model. A network
 * is drawn from its seed each time that it is built, so several graphs can share it. */
#ifndef WEFT_TEST_RANDOM_NET_H
#define WEFT_TEST_RANDOM_NET_H

#include "support/models/random_model.h"
#include "weft/weft.h"

/* What the axes of x are: [B, features], [B, times, features], [B, channels, height, width]. */
typedef enum net_kind { NET_FEATURES, NET_SEQUENCE, NET_IMAGE, NET_KINDS } net_kind;

typedef struct random_net {
    const char *name; /* of its scope */
    net_kind kind;
    int blocks;
    bool is_local; /* it may have state that each rank renews by itself and reads: spectral norm */
    uint64_t seed;
} random_net;

random_net net_draw(test_random *r, const char *name, net_kind kind, bool is_local);
/* x through the blocks, and by a last linear layer to [B, out]. */
weft_value *net_build(weft_value *x, const random_net *n, int64_t out);

#endif
