/* distribution.c - runs the piece of docs/distribution.md: two ranks, as threads, open their sessions and train. */
#include <pthread.h>

typedef struct member {
    pthread_t thread;
    const weft_model *model;
    weft_comm *comm;
    weft_error error;
} member;

static void *train_member(void *argument) {
    member *r = argument;
    weft_plan *plan = NULL;
    weft_store *store = NULL;
    float x[6] = {1, 2, 3, 4, 5, 6};
    weft_session *s = open_rank(r->model, r->comm, &plan, &store, &r->error);
    for (int i = 0; s && i < 4 && !r->error.status; i++)
        weft_run(s, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &r->error);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_comm_free(r->comm);
    return NULL;
}

int main(void) {
    member members[2] = {0};
    weft_comm *comms[2];
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){2, 3}), *y = x;
    WEFT_SCOPE(x, "net") y = weft_linear(x, 4, "fc");
    weft_minimize(weft_mean(weft_square(y), 0, NULL, false), "net", &(weft_optimizer){.type = "sgd"});
    int failed = weft_comm_threads(2, NULL, comms, &members[0].error) != WEFT_OK;
    for (int i = 0; i < 2 && !failed; i++) {
        members[i].model = m;
        members[i].comm = comms[i];
        failed |= pthread_create(&members[i].thread, NULL, train_member, &members[i]);
    }
    for (int i = 0; i < 2 && !failed; i++) failed |= pthread_join(members[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        if (members[i].error.status) failed = fprintf(stderr, "%s\n", members[i].error.text);
    weft_model_free(m);
    return failed;
}
