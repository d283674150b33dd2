/* meet.h - how ranks meet without MPI: rank 0 listens at MASTER_ADDR and MASTER_PORT, the others connect, and
 * each ends with what all ranks say of themselves (their cards). dist/meet/frame.h has what is said.
 *
 * A connection that does not prove the job's token is refused before anything it sends is read further;
 * without a token only connections from this machine are taken. A stranger costs the meeting one of a few
 * places, for a few seconds, and a line of env.log; a rank that does not come costs it the deadline, and is
 * named. Everything happens in the calling thread, without signals or state outside the struct. */
#ifndef WEFT_DIST_MEET_MEET_H
#define WEFT_DIST_MEET_MEET_H

#include "dist/meet/frame.h"
#include "weft/support.h"

typedef struct meet_options {
    const weft_env *env;
    const weft_launch *launch; /* rank, world, address, port, token */
    const char *purpose;       /* "ucx": ranks that meet for something else are refused; up to 7 bytes */
    double deadline_seconds;   /* of each round */
} meet_options;

typedef struct guest guest; /* dist/meet/host.c: a connection, as rank 0 sees it */

/* One rank's part of a meeting; zero it first, and meet_end() it whatever happened. */
typedef struct meeting {
    weft_env env;
    meet_options options;
    meet_key key;
    bool has_token, has_begun;
    unsigned char *table; /* of the last round */
    size_t table_bytes, table_room;
    /* rank 0 */
    int listener;  /* -1: closed */
    guest *guests; /* [n_guests] */
    int n_guests, n_said;
    /* the others */
    int fd; /* -1: not connected */
    meet_key frames;
    uint64_t n_in, n_out;
} meeting;

/* Makes the struct ready; nothing is allocated or opened. */
void meet_begin(meeting *m, const meet_options *options);

/* A round: gives a card of at most MEET_CARD_MOST bytes and waits for those of all ranks. The first round
 * connects; all ranks call it equally often. A rank that cannot continue gives the reason `why` instead of
 * NULL, for which it needs no memory (rank 0 does): then the round fails with it on all ranks, on the others
 * with WEFT_IO. WEFT_PEER when ranks are missing at the deadline (they are named), WEFT_ARGUMENT when there
 * is no address or the token is not that of rank 0. */
weft_status meet_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error);

/* What a rank gave in the last round; valid until the next. */
const void *meet_card(const meeting *m, int rank, size_t *bytes);

/* Closes the connections and frees the tables. */
void meet_end(meeting *m);

/* ---- between the files of dist/meet ---- */
/* Random bytes of the system; false with *error set. */
bool meet_random(unsigned char *into, size_t n, weft_error *error);
/* Makes room for the largest table of the world. */
weft_status meet_make_table(meeting *m, weft_error *error);
/* Do both ends of a connection lie on this machine? */
bool meet_is_local(int fd);
/* "12.0.0.1:4711", the other end. */
void meet_name_other(int fd, char *into, size_t room);
/* Does not wait, sends at once, closes on exec. */
bool meet_prepare(int fd);
/* Opens rank 0's port; *listener is -1 before, and stays so on failure. */
weft_status meet_listen(const weft_launch *launch, int *listener, weft_error *error);
/* Raises the process's soft limit of open files (RLIMIT_NOFILE) to `likes` or the hard one; what it is. */
uint64_t meet_raise_files(uint64_t likes);
/* So far that rank 0 can meet all ranks and so many strangers; WEFT_IO where ranks alone are too many. */
weft_status meet_make_room(const meeting *m, int strangers, weft_error *error);
weft_status meet_host_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error);
void meet_host_end(meeting *m);
weft_status meet_guest_round(meeting *m, const void *card, size_t bytes, const char *why, weft_error *error);

#endif
