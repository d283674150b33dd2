/* descriptor.h - the collective descriptor: what ranks compare before any data move, and the message for a
 * difference. Descriptors are sent as raw bytes, so all ranks must run the same build. */
#ifndef WEFT_DIST_CORE_DESCRIPTOR_H
#define WEFT_DIST_CORE_DESCRIPTOR_H

#include "graph/core/error.h"
#include "weft/comm.h"

/* bytes of a name in a descriptor, with the final 0; longer names are cut */
enum { NAME_BYTES = 40 };

/* The coarsest difference is reported first, see descriptor_differ in descriptor.c. */
typedef struct descriptor {
    /* counts_hash: of the caller's list of range lengths, 0 without one */
    uint64_t run, order, elements, counts_hash;
    /* enum values of weft_collective; root is a rank in the group */
    int32_t kind, dtype, wire, root;
    int32_t unordered, padding;
    char program[NAME_BYTES], name[NAME_BYTES];
} descriptor;
/* The descriptor of c in a group of `world` ranks. */
descriptor descriptor_of(const weft_collective *c, int world);

/* A collective in messages: "all_reduce #17 (bucket generator.2)", with its order number and name. */
typedef struct title {
    char text[NAME_BYTES + 60];
} title;
title descriptor_title(const descriptor *f);

/* Which two ranks are compared, at which collective. */
typedef struct rendezvous {
    uint64_t sequence; /* number of the collective within its group, from 1 */
    const char *group;
    int rank, other; /* ranks in the world */
} rendezvous;
/* WEFT_PEER when the two differ; *error names the first difference with the values of both ranks. */
weft_status descriptor_compare(const descriptor *mine, const descriptor *theirs, const rendezvous *m,
                               weft_error *error);

/* The barrier in which a group of ranks is made. Their list is its name, cut to its size, and, hashed, its
 * number of elements, so ranks that ask for different groups fail. */
weft_collective group_barrier(const int *ranks, int n, char list[NAME_BYTES]);

/* Copies a text, cut to room - 1 bytes, and ends it with 0. NULL counts as "". */
void text_cut(char *to, const char *from, size_t room);

#endif
