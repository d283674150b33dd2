/* own_names.c - functions of a program that are named as some inside of the library are (consumer.h). */
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
