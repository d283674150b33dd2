/* descriptor.h - what ranks compare before data move, and how a difference is told. */
#ifndef WEFT_DIST_CORE_DESCRIPTOR_H
#define WEFT_DIST_CORE_DESCRIPTOR_H

#include "graph/core/error.h"
#include "weft/comm.h"

enum { NAME_BYTES = 40 };

/* In the order in which differences are told. */
typedef struct descriptor {
    uint64_t run, order, elements, counts_hash;
    int32_t kind, dtype, wire, root;
    int32_t unordered, padding;
    char program[NAME_BYTES], name[NAME_BYTES];
} descriptor;
descriptor descriptor_of(const weft_collective *c, int world);

/* "all_reduce #17 (bucket generator.2)" */
typedef struct title {
    char text[NAME_BYTES + 60];
} title;
title descriptor_title(const descriptor *f);

/* Who meets whom at what. */
typedef struct rendezvous {
    uint64_t sequence; /* of the group's collectives */
    const char *group;
    int rank, other; /* in the world */
} rendezvous;
/* WEFT_PEER with the first difference, from both sides. */
weft_status descriptor_compare(const descriptor *mine, const descriptor *theirs, const rendezvous *m,
                               weft_error *error);

/* As much as fits. */
void text_cut(char *to, const char *from, size_t room);

#endif
