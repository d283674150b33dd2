/* frame.c - see frame.h. Digests are libsodium's HMAC-SHA-256; of it only functions without state are called,
 * so sodium_init, which could end the process, is not. */
#include "dist/meet/frame.h"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_verify_32.h>
#include <string.h>

enum { MAGIC = 16 };
static const char magic[MAGIC + 1] = "weft meeting 01\n"; /* without its NUL */

/* A stretch of bytes. */
typedef struct piece {
    const void *bytes;
    size_t n;
} piece;

/* The digest of a label and pieces. Callers give pieces of fixed sizes, at most the last excepted. */
static meet_key digest(const meet_key *key, const char label[8], const piece *pieces, int n) {
    crypto_auth_hmacsha256_state state;
    meet_key result;
    crypto_auth_hmacsha256_init(&state, key->bytes, sizeof key->bytes);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)label, 8);
    for (int i = 0; i < n; i++) crypto_auth_hmacsha256_update(&state, pieces[i].bytes, pieces[i].n);
    crypto_auth_hmacsha256_final(&state, result.bytes);
    return result;
}

meet_key meet_key_of(const char *token) {
    static const meet_key none;
    const piece text = {token ? token : "", token ? strlen(token) : 0};
    return digest(&none, "weft job", &text, 1);
}

/* ---- proof ---- */

void meet_challenge(const unsigned char nonce[MEET_NONCE], unsigned char challenge[MEET_CHALLENGE]) {
    memcpy(challenge, magic, MAGIC);
    memcpy(challenge + MAGIC, nonce, MEET_NONCE);
}

bool meet_challenge_check(const unsigned char challenge[MEET_CHALLENGE]) {
    return memcmp(challenge, magic, MAGIC) == 0;
}

/* Of the token, the challenge, and the claim up to its digest. */
static meet_key proof(const meet_key *key, const char label[8], const unsigned char *challenge,
                      const unsigned char *claim) {
    const piece both[] = {{challenge, MEET_CHALLENGE}, {claim, MEET_CLAIM - MEET_DIGEST}};
    return digest(key, label, both, 2);
}

void meet_claim(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                const unsigned char nonce[MEET_NONCE], unsigned char claim[MEET_CLAIM]) {
    memcpy(claim, magic, MAGIC);
    memcpy(claim + MAGIC, nonce, MEET_NONCE);
    const meet_key own = proof(key, "claims  ", challenge, claim);
    memcpy(claim + MEET_CLAIM - MEET_DIGEST, own.bytes, MEET_DIGEST);
}

bool meet_claim_check(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                      const unsigned char claim[MEET_CLAIM]) {
    const meet_key right = proof(key, "claims  ", challenge, claim);
    return crypto_verify_32(right.bytes, claim + MEET_CLAIM - MEET_DIGEST) == 0;
}

void meet_answer(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                 const unsigned char claim[MEET_CLAIM], unsigned char answer[MEET_DIGEST]) {
    const meet_key own = proof(key, "answers ", challenge, claim);
    memcpy(answer, own.bytes, MEET_DIGEST);
}

bool meet_answer_check(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                       const unsigned char claim[MEET_CLAIM], const unsigned char answer[MEET_DIGEST]) {
    const meet_key right = proof(key, "answers ", challenge, claim);
    return crypto_verify_32(right.bytes, answer) == 0;
}

meet_key meet_key_of_frames(const meet_key *key, const unsigned char challenge[MEET_CHALLENGE],
                            const unsigned char claim[MEET_CLAIM]) {
    return proof(key, "frames  ", challenge, claim);
}

/* ---- numbers ---- */

static void put_number(unsigned char *into, uint64_t number, int n) {
    for (int i = 0; i < n; i++) into[i] = (unsigned char)(number >> (8 * i));
}

static uint32_t get_number(const unsigned char *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* ---- frames ---- */

enum { BARE_HEAD = MEET_HEAD - MEET_DIGEST };

static meet_key seal(const meet_key *key, meet_place place, const unsigned char *head, const void *bytes,
                     size_t n) {
    unsigned char number[8];
    put_number(number, place.number, 8);
    const piece all[] = {{number, sizeof number}, {head, BARE_HEAD}, {bytes, n}};
    return digest(key, place.is_to_host ? "to host " : "to guest", all, 3);
}

void meet_seal(const meet_key *key, meet_place place, meet_kind kind, const void *bytes, size_t n,
               unsigned char head[MEET_HEAD]) {
    put_number(head, kind, 4);
    put_number(head + 4, n, 4);
    const meet_key own = seal(key, place, head, bytes, n);
    memcpy(head + BARE_HEAD, own.bytes, MEET_DIGEST);
}

bool meet_head_read(const unsigned char head[MEET_HEAD], size_t most, uint32_t *kind, size_t *n) {
    *kind = get_number(head);
    *n = get_number(head + 4);
    return *n <= most;
}

bool meet_seal_check(const meet_key *key, meet_place place, const unsigned char head[MEET_HEAD],
                     const void *bytes, size_t n) {
    const meet_key right = seal(key, place, head, bytes, n);
    return crypto_verify_32(right.bytes, head + BARE_HEAD) == 0;
}

/* ---- introductions and tables ---- */

/* rank, world, bytes of the card, bytes of why, version[16], purpose[8]; then why, then the card. */
enum { FIXED = 40 };

size_t meet_introduction_write(const meet_introduction *i, unsigned char into[MEET_INTRODUCTION_MOST]) {
    size_t why = strnlen(i->why, REASON_BYTES - 1);
    put_number(into, i->rank, 4);
    put_number(into + 4, i->world, 4);
    put_number(into + 8, i->card_bytes, 4);
    put_number(into + 12, why, 4);
    memcpy(into + 16, i->version, 16);
    memcpy(into + 32, i->purpose, 8);
    memcpy(into + FIXED, i->why, why);
    if (i->card_bytes) memcpy(into + FIXED + why, i->card, i->card_bytes);
    return FIXED + why + i->card_bytes;
}

bool meet_introduction_read(const unsigned char *bytes, size_t n, meet_introduction *i) {
    memset(i, 0, sizeof *i);
    if (n < FIXED) return false;
    size_t why = get_number(bytes + 12);
    i->rank = get_number(bytes);
    i->world = get_number(bytes + 4);
    i->card_bytes = get_number(bytes + 8);
    if (why >= REASON_BYTES || i->card_bytes > MEET_CARD_MOST || n != FIXED + why + i->card_bytes)
        return false;
    memcpy(i->version, bytes + 16, 16);
    memcpy(i->purpose, bytes + 32, 8);
    memcpy(i->why, bytes + FIXED, why);
    i->card = bytes + FIXED + why;
    return !i->version[15] && !i->purpose[7];
}

size_t meet_table_add(unsigned char *table, size_t at, const void *card, size_t bytes) {
    put_number(table + at, bytes, 4);
    if (bytes) memcpy(table + at + 4, card, bytes);
    return at + 4 + bytes;
}

size_t meet_table_most(int world) {
    return (size_t)world * (4 + MEET_CARD_MOST);
}

const unsigned char *meet_table_card(const unsigned char *table, size_t n, int world, int rank,
                                     size_t *bytes) {
    const unsigned char *found = NULL;
    size_t at = 0;
    for (int i = 0; i < world; i++) {
        size_t length = n - at >= 4 ? get_number(table + at) : n;
        if (n - at < 4 || length > n - at - 4) return NULL;
        if (i == rank) found = table + at + 4, *bytes = length;
        at += 4 + length;
    }
    return at == n ? found : NULL;
}
