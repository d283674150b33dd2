/* test_fused.c - `fused` nodes: the pass fuses random pointwise graphs, and every kernel of each fused node
 * is compared with its reference, in all layouts, also in place. */
#include "support/kernels/fused_graphs.h"
#include "support/kernels/kernel_check.h"

TEST(fused_nodes_agree_with_their_reference) {
    static const int64_t shapes[][4] = {{2, 5, 3, 7}, {3, 16, 4, 4}, {1, 7, 1, 1}};
    int fused = 0;
    for (uint64_t seed = 1; seed <= 12; seed++)
        fused += fused_graph_check(seed, 4, shapes[seed % 3], kernels_check);
    CHECK(fused >= 12);
}

TEST(fused_nodes_agree_over_many_tiles) {
    CHECK(fused_graph_check(100, 2, (int64_t[]){91, 45}, kernels_check) > 0);
    CHECK(fused_graph_check(101, 2, (int64_t[]){3, 1500}, kernels_check) > 0);
    CHECK(fused_graph_check(102, 3, (int64_t[]){2, 17, 130}, kernels_check) > 0);
}

TEST(a_result_in_place_does_not_spoil_later_steps) {
    fused_in_place_check(kernels_check); /* tries every result in place of every operand */
}

SUITE("fused", {T(fused_nodes_agree_with_their_reference), T(fused_nodes_agree_over_many_tiles),
                T(a_result_in_place_does_not_spoil_later_steps)})
