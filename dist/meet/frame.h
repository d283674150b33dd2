/* frame.h - what ranks say to each other when they meet, as bytes. Pure functions: no sockets, no memory, no
 * state, so that any bytes can be tried on them.
 *
 *     rank 0                               another rank
 *     challenge: magic, nonce     ->
 *                                 <-       claim: magic, nonce, digest of the token and both
 *     answer: digest likewise     ->
 *                                 <-       frame: introduction (rank, world, version, card)
 *     frames: who is missing, then the cards of all ranks, or why there is no meeting
 *
 * All up to the answer has a fixed size, and until a digest is right nothing of the other side is looked at
 * but the magic. Each frame carries a digest under a key of its connection, its direction and its number. The
 * token itself never travels. Numbers are little-endian. */
#ifndef WEFT_DIST_MEET_FRAME_H
#define WEFT_DIST_MEET_FRAME_H

#include "dist/core/transport.h"

enum {
    MEET_NONCE = 32,      /* random bytes of each side */
    MEET_DIGEST = 32,     /* HMAC-SHA-256 */
    MEET_CHALLENGE = 48,  /* magic, nonce */
    MEET_CLAIM = 80,      /* magic, nonce, digest */
    MEET_HEAD = 40,       /* of a frame: kind, bytes, digest */
    MEET_CARD_MOST = 4096 /* bytes that a rank tells the others of itself */
};
enum { MEET_INTRODUCTION_MOST = 40 + REASON_BYTES + MEET_CARD_MOST };

typedef struct meet_key {
    unsigned char bytes[MEET_DIGEST];
} meet_key;

/* The key of a token. NULL or empty: one that everybody knows. */
meet_key meet_key_of(const char *token);

/* ---- proof ---- */
void meet_challenge(const unsigned char nonce[MEET_NONCE], unsigned char challenge[MEET_CHALLENGE]);
/* Is it one? Its nonce may be anything. */
bool meet_challenge_check(const unsigned char challenge[MEET_CHALLENGE]);
void meet_claim(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                const unsigned char nonce[MEET_NONCE], unsigned char claim[MEET_CLAIM]);
/* Does whoever made the claim know the token? In a time that does not depend on how wrong it is. */
bool meet_claim_check(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                      const unsigned char claim[MEET_CLAIM]);
void meet_answer(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                 const unsigned char claim[MEET_CLAIM], unsigned char answer[MEET_DIGEST]);
bool meet_answer_check(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                       const unsigned char claim[MEET_CLAIM], const unsigned char answer[MEET_DIGEST]);
/* The key of the frames of this connection. */
meet_key meet_key_of_frames(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                            const unsigned char claim[MEET_CLAIM]);

/* ---- frames ---- */
typedef enum meet_kind {
    MEET_INTRODUCES = 1, /* to rank 0 */
    MEET_WAITS = 2,      /* from rank 0: text, who is missing */
    MEET_TABLE = 3,      /* from rank 0: the cards */
    MEET_ENDS = 4,       /* from rank 0: text, who did not come, so there is no meeting */
    MEET_FAILS = 5,      /* from rank 0: text, why a rank that came cannot take part */
} meet_kind;

/* What a digest covers besides kind, size and bytes. */
typedef struct meet_place {
    bool is_to_host;
    uint64_t number; /* frames before it on this connection in this direction */
} meet_place;

void meet_seal(const meet_key *key, meet_place place, meet_kind kind, const void *bytes, size_t n,
               unsigned char head[MEET_HEAD]);
/* The kind and size that a head claims, not yet proved; false when the size is above `most`. */
bool meet_head_read(const unsigned char head[MEET_HEAD], size_t most, uint32_t *kind, size_t *n);
/* Is the frame what the other side sealed? */
bool meet_seal_check(const meet_key *key, meet_place place, const unsigned char head[MEET_HEAD],
                     const void *bytes, size_t n);

/* ---- introductions and tables ---- */
typedef struct meet_introduction {
    uint32_t rank, world;
    char version[16], purpose[8]; /* of Weft; what is met for ("ucx", "nccl"); NUL-terminated */
    char why[REASON_BYTES];       /* why this rank cannot join; empty: it can */
    const unsigned char *card;    /* within the bytes that were read */
    size_t card_bytes;            /* at most MEET_CARD_MOST */
} meet_introduction;

/* Writes at most MEET_INTRODUCTION_MOST bytes and returns how many. */
size_t meet_introduction_write(const meet_introduction *i, unsigned char into[MEET_INTRODUCTION_MOST]);
/* False when the bytes are not exactly an introduction. */
bool meet_introduction_read(const unsigned char *bytes, size_t n, meet_introduction *i);

/* Adds a card to a table at `at`; returns the place after it. */
size_t meet_table_add(unsigned char *table, size_t at, const void *card, size_t bytes);
/* Bytes of a table of so many ranks at most. */
size_t meet_table_most(int world);
/* The card of a rank; NULL when the bytes are not a table of `world` ranks. */
const unsigned char *meet_table_card(const unsigned char *table, size_t n, int world, int rank,
                                     size_t *bytes);

#endif
