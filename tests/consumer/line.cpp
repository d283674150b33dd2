/* line.cpp - the same in C++17, with a communicator of its own between two threads that adds the ranks'
 * values. */
#include "consumer.h"

#include <thread>
#include <vector>

static float sum_of(weft_comm *comm, float mine) {
    float scratch[64] = {mine};
    std::vector<char> memory(weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F32, WEFT_F32, 1, 2) + 64);
    auto aligned = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
    weft_collective sum = {};
    sum.kind = WEFT_COLLECTIVE_ALL_REDUCE;
    sum.buffer = scratch;
    sum.count = 1;
    sum.scratch = reinterpret_cast<void *>(aligned);
    sum.scratch_bytes = memory.size() - 64;
    weft_error error = {};
    if (weft_comm_run(comm, &sum, &error)) puts(error.text);
    return scratch[0];
}

int main() {
    weft_error error = {};
    weft_comm *comms[2];
    if (weft_comm_threads(2, nullptr, comms, &error)) return 1;
    float other = 0;
    std::thread second([&] { other = sum_of(comms[1], 2); });
    float first = sum_of(comms[0], 1);
    second.join();
    weft_comm_free(comms[1]);
    weft_comm_free(comms[0]);

    weft_model *m = weft_model_new("line");
    weft_graph *g = weft_graph_new(m, "eval", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4));
    WEFT_SCOPE(x, "outer") {
        WEFT_SCOPE(x, "inner") x = weft_relu(x);
    }
    weft_output(x, "y");
    weft_plan *plan = weft_compile(m, nullptr, &error);
    printf("1 + 2 = %g and %g; plan of %llu bytes %s\n", first, other,
           static_cast<unsigned long long>(plan ? weft_plan_memory(plan).total : 0), error.text);
    weft_plan_free(plan);
    weft_model_free(m);
    return error.status || first != 3 || other != 3 || !own_names() || !one_version();
}
