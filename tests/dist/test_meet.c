/* test_meet.c - how ranks meet without MPI: ranks as threads that connect over loopback, strangers that say
 * anything at any point, and the bytes of greetings without sockets. */
#include "dist/meet/meet.h"

#include "support/test.h"
#include "weft/api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MOST = 8, LOG_MOST = 1 << 14 };

/* ---- ranks ---- */

typedef struct rank {
    meeting meeting;
    weft_launch launch;
    meet_options options;
    int rounds, naps_ms; /* rounds; how long it waits before it comes */
    const char *why;
    weft_status status;
    weft_error error;
    char card[64];
    bool is_wrong; /* a card was not what its rank gave */
    pthread_t thread;
} rank;

typedef struct heard {
    pthread_mutex_t lock;
    char text[LOG_MOST];
    int lines;
} heard;

static void hear_line(void *context, const char *line) {
    heard *h = context;
    pthread_mutex_lock(&h->lock);
    size_t at = strlen(h->text);
    snprintf(h->text + at, sizeof h->text - at, "%s\n", line);
    h->lines++;
    pthread_mutex_unlock(&h->lock);
}

/* In round k rank r gives "r of round k". */
static void *meet_main(void *context) {
    rank *r = context;
    char want[64];
    test_nap(r->naps_ms);
    meet_begin(&r->meeting, &r->options);
    for (int k = 0; k < r->rounds && !r->status; k++) {
        snprintf(r->card, sizeof r->card, "%d of round %d", r->launch.rank, k);
        r->status = meet_round(&r->meeting, r->card, strlen(r->card), r->why, &r->error);
        for (int i = 0; !r->status && i < r->launch.world; i++) {
            size_t n;
            const void *card = meet_card(&r->meeting, i, &n);
            snprintf(want, sizeof want, "%d of round %d", i, k);
            r->is_wrong |= !card || n != strlen(want) || memcmp(card, want, n) != 0;
        }
    }
    meet_end(&r->meeting);
    return NULL;
}

/* A port that was free a moment ago. */
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool good = !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
    close(fd);
    return good ? ntohs(at.sin_port) : 0;
}

/* Fills ranks 0 to world - 1 of a job. */
static void ranks_init(rank *ranks, int world, const char *token, double seconds, const weft_env *env) {
    int port = free_port();
    for (int i = 0; i < world; i++) {
        ranks[i] = (rank){.rounds = 2};
        ranks[i].launch = (weft_launch){.launcher = "env",
                                        .rank = i,
                                        .world = world,
                                        .address = "127.0.0.1",
                                        .port = port,
                                        .token = token};
        ranks[i].options = (meet_options){env, &ranks[i].launch, "test", seconds};
    }
}

static void ranks_start(rank *ranks, int n) {
    for (int i = 0; i < n; i++) pthread_create(&ranks[i].thread, NULL, meet_main, &ranks[i]);
}

static void ranks_end(rank *ranks, int n) {
    for (int i = 0; i < n; i++) pthread_join(ranks[i].thread, NULL);
}

static void all_met(const rank *ranks, int n) {
    for (int i = 0; i < n; i++)
        CHECK_SAYS(!ranks[i].status && !ranks[i].is_wrong, "rank %d: %s", i,
                   ranks[i].status ? ranks[i].error.text : "another card");
}

TEST(ranks_meet_in_any_order) {
    for (int world = 2; world <= RANKS_MOST; world += 3)
        for (int seed = 0; seed < 3; seed++) {
            rank ranks[RANKS_MOST];
            ranks_init(ranks, world, seed ? "a secret" : NULL, 60, NULL);
            for (int i = 0; i < world; i++) ranks[i].naps_ms = (i * 7 + seed * 5) % 11 * 10;
            ranks_start(ranks, world);
            ranks_end(ranks, world);
            all_met(ranks, world);
        }
}

/* ---- ranks that do not come, or cannot ---- */

/* ---- a limit of open files ---- */

enum { CROWD = 6 };

/* In a process of its own, as the limits stay. 0: ranks have met; 1: one of them names the limit; 2: none
 * does. */
static int meet_within(rlim_t soft, rlim_t hard) {
    rank r[CROWD];
    int failed = 0, told = 0;
    struct rlimit limit = {soft, hard};
    ranks_init(r, CROWD, "a token", 0.7, NULL);
    for (int i = 1; i < CROWD; i++) r[i].naps_ms = 50; /* in one process rank 0 raises the limit for all */
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 3;
    ranks_start(r, CROWD);
    ranks_end(r, CROWD);
    for (int i = 0; i < CROWD; i++) {
        failed += r[i].status != WEFT_OK;
        told += r[i].status && strstr(r[i].error.text, "ulimit -n") != NULL;
    }
    if (failed && !told) fprintf(stderr, "limits %d, %d: %s\n", (int)soft, (int)hard, r[0].error.text);
    return !failed ? 0 : told ? 1 : 2;
}

static int meet_apart(rlim_t soft, rlim_t hard) {
    int status = -1;
    pid_t pid = fork();
    if (!pid) _exit(meet_within(soft, hard));
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* With any limit ranks meet, or somebody names it: room for strangers that do not come is not needed. A soft
 * limit is raised. */
TEST(ranks_meet_within_any_limit_of_open_files_or_name_it) {
    enum { NEEDED = 2 * CROWD + 4 /* both ends are here */ };
    int used = dup(0), met = 0;
    close(used);
    for (int more = 1; more <= 80; more += more < NEEDED + 2 ? 1 : 7) {
        int end = meet_apart((rlim_t)(used + more), (rlim_t)(used + more));
        CHECK_SAYS(end == 0 || (end == 1 && more < NEEDED), "%d files more than %d: %d", more, used, end);
        met += !end;
    }
    CHECK_SAYS(met > 8, "only %d meetings", met);
    for (int more = 1; more < NEEDED; more += 3) {
        int end = meet_apart((rlim_t)(used + more), 1000);
        CHECK_SAYS(end == 0 || more < 3, "%d files more than %d, and 1000 at most: %d", more, used, end);
    }
}

TEST(a_missing_rank_is_named_on_all_ranks) {
    rank ranks[4];
    ranks_init(ranks, 4, NULL, 1, NULL);
    ranks_start(ranks, 2); /* 2 and 3 stay away */
    ranks_end(ranks, 2);
    CHECK(ranks[0].status == WEFT_PEER && ranks[1].status == WEFT_PEER);
    CHECK_TEXT(ranks[0].error.text, "rank 0: 2 of 4 ranks did not come within 1.0 s: 2, 3");
    CHECK_TEXT(ranks[1].error.text, "rank 1: rank 0 says: 2 of 4 ranks did not come within 1.0 s: 2, 3");
}

/* A rank whose deadline passes before rank 0's knows all the same. */
TEST(a_rank_that_came_early_knows_who_is_missing) {
    rank ranks[3];
    ranks_init(ranks, 3, NULL, 60, NULL);
    ranks[1].options.deadline_seconds = 2;
    ranks_start(ranks, 2);
    pthread_join(ranks[1].thread, NULL);
    CHECK_TEXT(ranks[1].error.text, "rank 1: not all ranks have met within 2.0 s; missing: 2");
    ranks[1].options.deadline_seconds = 60; /* it may come again */
    ranks[1].status = WEFT_OK;
    pthread_create(&ranks[1].thread, NULL, meet_main, &ranks[1]);
    pthread_create(&ranks[2].thread, NULL, meet_main, &ranks[2]);
    ranks_end(ranks, 3);
    all_met(ranks, 3);
}

TEST(rank_0_that_does_not_come_is_named) {
    rank ranks[2];
    ranks_init(ranks, 2, NULL, 0.5, NULL);
    ranks_start(ranks + 1, 1);
    ranks_end(ranks + 1, 1);
    CHECK_HOLDS(ranks[1].error.text, "rank 1 of 2: rank 0 was not found at 127.0.0.1:");
    CHECK_HOLDS(ranks[1].error.text, "within 0.5 s: Connection refused");
}

TEST(a_rank_that_fails_says_why_to_all) {
    for (int who = 0; who < 3; who++) {
        char want[80];
        rank ranks[3];
        ranks_init(ranks, 3, "t", 60, NULL);
        ranks[who].why = "out of luck";
        ranks[2].naps_ms = 200;
        ranks_start(ranks, 3);
        ranks_end(ranks, 3);
        snprintf(want, sizeof want, "rank %d could not join: out of luck", who);
        for (int i = 0; i < 3; i++) { /* a rank that fails is not reported as missing */
            CHECK(ranks[i].status == WEFT_IO);
            CHECK_HOLDS(ranks[i].error.text, i == who && who ? "out of luck" : want);
        }
    }
}

static void *leave_after_one(void *context) {
    rank *r = context;
    r->rounds = 1;
    return meet_main(context);
}

TEST(a_rank_that_leaves_between_rounds_is_named) {
    rank ranks[3];
    ranks_init(ranks, 3, NULL, 60, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&ranks[i].thread, NULL, i == 1 ? leave_after_one : meet_main, &ranks[i]);
    ranks_end(ranks, 3);
    CHECK(!ranks[1].status && ranks[0].status == WEFT_PEER && ranks[2].status == WEFT_PEER);
    CHECK_HOLDS(ranks[2].error.text, "1 of 3 ranks left while they met: 1");
}

/* ---- who does not belong ---- */

/* Two jobs that differ in `spoil`, as rank 1 tells it. */
static void one_is_refused(void (*spoil)(rank *r), const char *want, const char *logged) {
    heard log = {PTHREAD_MUTEX_INITIALIZER, "", 0};
    const weft_env env = {.log = hear_line, .log_context = &log};
    rank ranks[3];
    ranks_init(ranks, 2, "right", 60, &env);
    ranks[2] = ranks[1]; /* the wrong one comes first */
    ranks[2].options.launch = &ranks[2].launch;
    ranks[1].naps_ms = 300;
    spoil(&ranks[2]);
    ranks_start(ranks, 3);
    ranks_end(ranks, 3);
    all_met(ranks, 2);
    CHECK(ranks[2].status != WEFT_OK);
    CHECK_HOLDS(ranks[2].error.text, want);
    CHECK_HOLDS(log.text, "the meeting of ranks refused 127.0.0.1:");
    CHECK_HOLDS(log.text, logged);
}

static void other_token(rank *r) {
    r->launch.token = "wrong";
}
static void no_token(rank *r) {
    r->launch.token = "";
}
static void other_world(rank *r) {
    r->launch.world = 3;
}
static void other_purpose(rank *r) {
    r->options.purpose = "nccl";
}

TEST(who_belongs_to_another_job_is_refused_and_named) {
    const char *job = "listens rank 0 of another job, or with another token";
    const char *proof = "it does not prove this job's token (WEFT_JOB_TOKEN)";
    one_is_refused(other_token, job, proof);
    one_is_refused(no_token, job, proof);
    one_is_refused(other_world, "it says that there are 3 ranks, rank 0 was started as one of 2", "3 ranks");
    one_is_refused(other_purpose, "it meets for nccl, rank 0 for test", "it meets for nccl");
}

/* The second of two rank 1 is refused while the meeting waits for rank 2. */
TEST(a_rank_twice_is_refused) {
    heard log = {PTHREAD_MUTEX_INITIALIZER, "", 0};
    const weft_env env = {.log = hear_line, .log_context = &log};
    rank ranks[4];
    ranks_init(ranks, 3, "right", 60, &env);
    ranks[2].naps_ms = 600;
    ranks[3] = ranks[1];
    ranks[3].naps_ms = 300;
    ranks[3].options.launch = &ranks[3].launch;
    ranks_start(ranks, 4);
    ranks_end(ranks, 4);
    all_met(ranks, 3);
    CHECK_HOLDS(ranks[3].error.text, "rank 0 says: rank 1 is here already");
    CHECK_HOLDS(log.text, "rank 1 is here already");
}

TEST(without_an_address_there_is_no_meeting) {
    rank r;
    ranks_init(&r, 1, NULL, 1, NULL);
    r.launch.world = 2;
    r.launch.port = 0;
    meet_main(&r);
    CHECK(r.status == WEFT_NAME);
    CHECK_HOLDS(r.error.text, "set MASTER_ADDR and MASTER_PORT");
}

/* ---- strangers ---- */

static int dial_once(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!connect(fd, (struct sockaddr *)&at, sizeof at)) return fd;
    close(fd);
    return -1;
}

/* Waits for rank 0 to listen. */
static int dial(int port) {
    int fd = -1;
    for (int i = 0; i < 6000 && (fd = dial_once(port)) < 0; i++) test_nap(10);
    return fd;
}

static bool receive_all(int fd, void *into, size_t n) {
    return recv(fd, into, n, MSG_WAITALL) == (ssize_t)n;
}

static void fill(test_random *r, unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)random_bits(r);
}

/* One stranger: says something at a point that `r` draws. Those from 4 on know the token. Returns false when
 * it was let in. */
static bool be_strange(int port, const meet_key *key, test_random *r) {
    unsigned char challenge[MEET_CHALLENGE], nonce[MEET_NONCE], claim[MEET_CLAIM + 100], answer[MEET_DIGEST];
    unsigned char head[MEET_HEAD], words[2 * MEET_INTRODUCTION_MOST];
    static const unsigned char zeros[MEET_DIGEST];
    int kind = (int)(random_bits(r) % 10), fd = dial(port);
    if (fd < 0) return true;
    fill(r, claim, sizeof claim);
    fill(r, words, sizeof words);
    if (kind == 0) send(fd, claim, random_bits(r) % sizeof claim, MSG_NOSIGNAL); /* before it is greeted */
    if (kind == 1) send(fd, words, sizeof words, MSG_NOSIGNAL);
    bool good = true;
    if (kind > 1 && receive_all(fd, challenge, sizeof challenge)) {
        bool is_known = kind >= 4;
        fill(r, nonce, sizeof nonce);
        meet_claim(key, challenge, nonce, claim);
        if (kind == 2) claim[random_bits(r) % MEET_CLAIM] ^= (unsigned char)(1u << random_bits(r) % 8);
        if (kind == 3) challenge[20] ^= 1, meet_claim(key, challenge, nonce, claim); /* an older challenge */
        send(fd, claim, MEET_CLAIM, MSG_NOSIGNAL);
        bool is_answered = receive_all(fd, answer, sizeof answer);
        bool is_in = is_answered && memcmp(answer, zeros, sizeof zeros) != 0;
        if (!is_known) good = !is_in;
        if (is_known && is_in) {
            meet_key frames = meet_key_of_frames(key, challenge, claim);
            meet_introduction i = {.rank = 1, .world = 2, .version = "0", .purpose = "test"};
            size_t n = meet_introduction_write(&i, words);
            meet_seal(&frames, (meet_place){true, 0}, MEET_INTRODUCES, words, n, head);
            if (kind == 5) fill(r, head, 8);               /* a huge length, mostly */
            if (kind == 6) words[random_bits(r) % n] ^= 1; /* not what was sealed */
            if (kind == 7) meet_seal(&frames, (meet_place){true, 1}, MEET_INTRODUCES, words, n, head);
            if (kind == 8) { /* sealed, but no introduction */
                fill(r, words, n);
                meet_seal(&frames, (meet_place){true, 0}, MEET_INTRODUCES, words, n, head);
            }
            if (kind == 9) n = random_bits(r) % n; /* leaves half-way */
            send(fd, head, sizeof head, MSG_NOSIGNAL);
            send(fd, words, n, MSG_NOSIGNAL);
        }
    }
    close(fd);
    return good;
}

typedef struct crowd {
    int port, n;
    const char *token;
    uint64_t seed;
    int let_in;
} crowd;

static void *crowd_main(void *context) {
    crowd *c = context;
    test_random r = {c->seed};
    meet_key key = meet_key_of(c->token);
    for (int i = 0; i < c->n; i++) c->let_in += !be_strange(c->port, &key, &r);
    return NULL;
}

/* 10,000 greetings, most of them half right, by two strangers at a time while rank 1 is away: it then joins
 * as if nobody had come. */
TEST(ten_thousand_strange_greetings_keep_nobody_out) {
    heard log = {PTHREAD_MUTEX_INITIALIZER, "", 0};
    const weft_env env = {.log = hear_line, .log_context = &log};
    const int n = test_count(10000, 1000);
    rank ranks[2];
    pthread_t threads[2];
    crowd crowds[2];
    ranks_init(ranks, 2, "right", 60, &env);
    pthread_create(&ranks[0].thread, NULL, meet_main, &ranks[0]);
    for (int i = 0; i < 2; i++) {
        crowds[i] = (crowd){ranks[0].launch.port, n / 2, "right", 2 * test_seed(77) + (uint64_t)i, 0};
        pthread_create(&threads[i], NULL, crowd_main, &crowds[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_create(&ranks[1].thread, NULL, meet_main, &ranks[1]);
    ranks_end(ranks, 2);
    all_met(ranks, 2);
    int let_in = crowds[0].let_in + crowds[1].let_in;
    CHECK_SAYS(!let_in, "%d strangers were let in", let_in);
    printf("\n    %d strange greetings: %d refused and counted, %d let in\n    ", n, ranks[0].meeting.n_said,
           let_in);
    test_cases_add((uint64_t)n, 0, (uint64_t)let_in);
    CHECK_SAYS(ranks[0].meeting.n_said >= n - n / 50, "%d of %d were named", ranks[0].meeting.n_said, n);
    CHECK_SAYS(log.lines <= 25, "%d lines for %d strangers", log.lines, n);
    for (const char *line = log.text; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        CHECK(strncmp(line, "the meeting of ranks refuse", 27) == 0);
}

/* 300 connections that say nothing, for each of which rank 0 has five seconds: the newest have places.
 * Returns how long the ranks took to meet. */
static double meet_among_silent(void) {
    enum { SILENT = 300 };
    rank ranks[2];
    int fds[SILENT];
    ranks_init(ranks, 2, "right", 60, NULL);
    pthread_create(&ranks[0].thread, NULL, meet_main, &ranks[0]);
    for (int i = 0; i < SILENT; i++) fds[i] = dial(ranks[0].launch.port);
    uint64_t begin = weft_clock_ns();
    pthread_create(&ranks[1].thread, NULL, meet_main, &ranks[1]);
    ranks_end(ranks, 2);
    double seconds = (double)(weft_clock_ns() - begin) * 1e-9;
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    all_met(ranks, 2);
    return seconds;
}

/* A busy machine has several tries. */
TEST(silent_strangers_keep_no_rank_out) {
    int tries = 1;
    while (meet_among_silent() > 4 && tries < 6) tries++;
    CHECK_SAYS(tries < 6, "%d tries", tries);
}

/* A server that is not a meeting of ours is recognized at once, or at the deadline. */
TEST(a_port_of_something_else_is_named) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rank ranks[2];
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), other;
    ranks_init(ranks, 2, NULL, 1, NULL);
    at.sin_port = htons((uint16_t)ranks[1].launch.port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    NEED(!bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, 5));
    meet_main(&ranks[0]);
    CHECK_HOLDS(ranks[0].error.text,
                "(MASTER_PORT), where the other ranks would meet it: Address already in use");
    meet_main(&ranks[1]);
    CHECK_HOLDS(ranks[1].error.text, "within 1.0 s: what listens there says nothing");
    close(accept(fd, NULL, NULL));
    ranks[1].status = WEFT_OK;
    pthread_create(&ranks[1].thread, NULL, meet_main, &ranks[1]);
    other = accept(fd, NULL, NULL);
    char words[MEET_CHALLENGE] = "220 mail.example.org ESMTP, pleased to meet you";
    send(other, words, sizeof words, MSG_NOSIGNAL);
    ranks_end(ranks + 1, 1);
    CHECK_HOLDS(ranks[1].error.text, "listens something else than rank 0 of Weft: choose another port");
    close(other);
    close(fd);
}

/* ---- bytes ---- */

/* Any bytes are read without reading past them (sanitizers look), and only what was written is taken. */
TEST(bytes_of_introductions_and_tables_are_read_exactly) {
    test_random r = {5};
    int taken = 0;
    for (int i = 0; i < 20000; i++) {
        size_t n = random_bits(&r) % 200, some = 0;
        unsigned char *bytes = test_memory(n ? n : 1);
        meet_introduction in;
        fill(&r, bytes, n);
        for (size_t k = 0; k < n && i % 2; k++) bytes[k] = k % 4 ? 0 : (unsigned char)(bytes[k] % 30);
        taken += meet_introduction_read(bytes, n, &in);
        const unsigned char *card = meet_table_card(bytes, n, 3, (int)(random_bits(&r) % 3), &some);
        CHECK(!card || (card >= bytes && card + some <= bytes + n));
        free(bytes);
    }
    CHECK_SAYS(taken < 200, "%d of 20000 random texts were introductions", taken);
    unsigned char words[MEET_INTRODUCTION_MOST], card[MEET_CARD_MOST];
    meet_introduction in = {.rank = 7,
                            .world = 9,
                            .version = "1.2.3",
                            .purpose = "ucx",
                            .why = "no",
                            .card = card,
                            .card_bytes = sizeof card},
                      out;
    fill(&r, card, sizeof card);
    size_t n = meet_introduction_write(&in, words);
    NEED(meet_introduction_read(words, n, &out));
    CHECK(out.rank == 7 && out.world == 9 && out.card_bytes == sizeof card &&
          !memcmp(out.card, card, sizeof card));
    CHECK_TEXT(out.version, "1.2.3");
    CHECK_TEXT(out.why, "no");
    CHECK(!meet_introduction_read(words, n - 1, &out) && !meet_introduction_read(words, n + 1, &out));
}

/* Each bit of a claim, and of what it answers, counts; so do token, direction and number of a frame. */
TEST(a_digest_covers_everything) {
    test_random r = {6};
    unsigned char challenge[MEET_CHALLENGE], nonce[MEET_NONCE], claim[MEET_CLAIM], answer[MEET_DIGEST],
        head[MEET_HEAD];
    meet_key right = meet_key_of("right"), wrong = meet_key_of("righs"), none = meet_key_of(NULL);
    fill(&r, nonce, sizeof nonce);
    meet_challenge(nonce, challenge);
    fill(&r, nonce, sizeof nonce);
    meet_claim(&right, challenge, nonce, claim);
    meet_answer(&right, challenge, claim, answer);
    CHECK(meet_claim_check(&right, challenge, claim) && meet_answer_check(&right, challenge, claim, answer));
    CHECK(!meet_claim_check(&wrong, challenge, claim) && !meet_claim_check(&none, challenge, claim));
    CHECK(!meet_answer_check(&wrong, challenge, claim, answer));
    CHECK(!meet_answer_check(&right, challenge, claim, claim + MEET_CLAIM - MEET_DIGEST)); /* not an echo */
    for (int bit = 0; bit < 8 * MEET_CLAIM; bit++) {
        claim[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK(!meet_claim_check(&right, challenge, claim));
        claim[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (int bit = 0; bit < 8 * MEET_CHALLENGE; bit++) {
        challenge[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK(!meet_claim_check(&right, challenge, claim));
        challenge[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    meet_key frames = meet_key_of_frames(&right, challenge, claim);
    meet_seal(&frames, (meet_place){true, 3}, MEET_INTRODUCES, "hello", 5, head);
    CHECK(meet_seal_check(&frames, (meet_place){true, 3}, head, "hello", 5));
    CHECK(!meet_seal_check(&frames, (meet_place){false, 3}, head, "hello", 5));
    CHECK(!meet_seal_check(&frames, (meet_place){true, 4}, head, "hello", 5));
    CHECK(!meet_seal_check(&frames, (meet_place){true, 3}, head, "hellp", 5));
    CHECK(!meet_seal_check(&right, (meet_place){true, 3}, head, "hello", 5));
}

/* HMAC-SHA-256 as RFC 4231 has it would show in these bytes, which Python's hmac computed. */
TEST(the_key_of_a_token_is_the_documented_digest) {
    char hex[2 * MEET_DIGEST + 1];
    meet_key key = meet_key_of("a secret");
    for (int i = 0; i < MEET_DIGEST; i++) snprintf(hex + 2 * i, 3, "%02x", key.bytes[i]);
    CHECK_TEXT(hex, "cfda52270f071074f8f936816dfebdd008f7e9054cf2d6f3cbd3322a0d04201b");
}

SUITE("meetings of ranks",
      {T(ranks_meet_in_any_order), T(ranks_meet_within_any_limit_of_open_files_or_name_it),
       T(a_missing_rank_is_named_on_all_ranks), T(a_rank_that_came_early_knows_who_is_missing),
       T(rank_0_that_does_not_come_is_named), T(a_rank_that_fails_says_why_to_all),
       T(a_rank_that_leaves_between_rounds_is_named), T(who_belongs_to_another_job_is_refused_and_named),
       T(a_rank_twice_is_refused), T(without_an_address_there_is_no_meeting),
       T(ten_thousand_strange_greetings_keep_nobody_out), T(silent_strangers_keep_no_rank_out),
       T(a_port_of_something_else_is_named), T(bytes_of_introductions_and_tables_are_read_exactly),
       T(a_digest_covers_everything), T(the_key_of_a_token_is_the_documented_digest)})
