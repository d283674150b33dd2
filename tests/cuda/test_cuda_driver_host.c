/* test_cuda_driver_host.c - what an error says where a GPU has no driver, or an old one. */
#include "cuda_host/cuda_host.h"
#include "support/test.h"
#include "weft/weft.h"

#include <string.h>

/* What an error says when a store is made for a GPU. */
static void store_error(weft_error *error) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_output(weft_linear(weft_input(g, "x", WEFT_F32, WEFT_SHAPE(2, 3)), 4, "fc", NULL), "y");
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.device = WEFT_DEVICE_CUDA}, error);
    NEED(plan != NULL); /* compiling needs no driver */
    weft_store *store = weft_store_new(plan, 0, error);
    CHECK(!store && error->status == WEFT_DEVICE);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
}

TEST(a_machine_without_a_driver_says_so) {
    weft_error error = {0};
    cuda_host_driver(0);
    CHECK(weft_cuda_select(0, &error) == WEFT_DEVICE);
    CHECK_HOLDS(error.text, "there is no GPU here: no NVIDIA driver found: nvidia-smi shows one that works");
    store_error(&error);
    CHECK_HOLDS(error.text, "no NVIDIA driver found");
    cuda_host_driver(CUDART_VERSION);
    CHECK(weft_cuda_select(0, &error) == WEFT_OK);
}

TEST(a_driver_that_is_too_old_is_no_missing_one) {
    weft_error error = {0};
    cuda_host_driver(11040);
    CHECK(weft_cuda_select(0, &error) == WEFT_DEVICE);
    CHECK_HOLDS(error.text, "the NVIDIA driver is older than the CUDA of this build: update the driver");
    cuda_host_driver(CUDART_VERSION);
    cuda_host_devices(0);
    CHECK(weft_cuda_select(0, &error) == WEFT_DEVICE);
    CHECK_HOLDS(error.text, "there is no GPU here: no CUDA-capable device is detected");
    cuda_host_devices(1);
}

SUITE("cuda: driver", {T(a_machine_without_a_driver_says_so), T(a_driver_that_is_too_old_is_no_missing_one)})
