/* own_names.c - the program's functions whose names the library also uses internally (consumer.h). */
int mem_free(int x) {
    return x + 7;
}

int type_check(int x) {
    return x + 7;
}

int graph_find(int x) {
    return x + 7;
}

int cudnnCreate(int x) {
    return x + 7;
}

int ncclAllReduce(int x) {
    return x + 7;
}
