/* test_process_groups.c - partitions of the ranks as text: "0-3;4-7". */
#include "graph/settings/ddp.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_group(const char *groups, int world, int rank, const char *want) {
    int *ranks = test_memory((size_t)world * sizeof *ranks);
    const char *why = NULL;
    text t = {0};
    int n = process_group_of(groups, world, rank, ranks, &why);
    for (int i = 0; i < n; i++) text_add(&t, i ? " %d" : "%d", ranks[i]);
    if (!n) text_add(&t, "%s", why ? why : "no group and no reason");
    char *got = text_detach(&t);
    CHECK_SAYS(got && strncmp(got, want, n ? strlen(got) + 1 : strlen(want)) == 0,
               "\"%s\", rank %d of %d: %s, not %s", groups ? groups : "NULL", rank, world, got, want);
    free(got);
    free(ranks);
}

TEST(a_rank_finds_its_group) {
    check_group(NULL, 3, 1, "0 1 2");
    check_group("", 1, 0, "0");
    check_group("0-3;4-7", 8, 3, "0 1 2 3");
    check_group("0-3;4-7", 8, 4, "4 5 6 7");
    check_group("0,2;1,3", 4, 3, "1 3");
    check_group("3,0-1", 4, 0, "3 0 1"); /* as it is written */
    check_group("3,0-1", 4, 2, "2");
    check_group("1", 4, 3, "3");
    check_group("2-2;0,1", 3, 2, "2");
    check_group("0;1;2,3", 4, 2, "2 3");
    check_group("007", 8, 7, "7");
}

TEST(wrong_groups_say_why) {
    static const char form[] = "a group is ranks and ranges", order[] = "a range goes from the lower rank",
                      twice[] = "a rank is named twice", world[] = "a rank is not below the world",
                      far[] = "ranks are below 2^20";
    static const struct {
        const char *groups, *says;
    } cases[] = {
        {" ", form},
        {"0-", form},
        {"1-2-3", form},
        {";", form},
        {"0;", form},
        {"0;;1", form},
        {",", form},
        {"0,", form},
        {"0,;1", form},
        {"-1", form},
        {"+1", form},
        {"0 ,1", form},
        {"0-1 ", form},
        {"0x1", form},
        {"0:1", form},
        {"a", form},
        {"\xff", form},
        {"3-1", order},
        {"0;0", twice},
        {"0,0", twice},
        {"0-2;2-3", twice},
        {"2,0-3", twice},
        {"9", world},
        {"4", world},
        {"0-4", world},
        {"1048575", world},
        {"1048576", far},
        {"99999999999999999999999", far},
        {"0-18446744073709551616", far},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_group(cases[i].groups, 4, 0, cases[i].says);
    check_group("0", 4, 4, "the rank itself is not below the world");
    check_group(NULL, 4, -1, "the rank itself is not below the world");
}

static weft_model *one_net(void) {
    weft_model *m = weft_model_new("net");
    weft_value *x = weft_input(weft_graph_new(m, "train", WEFT_TRAIN), "x", WEFT_F32, 2, (int64_t[]){4, 3});
    weft_linear(x, 2, "a", NULL);
    return m;
}

/* Each text is refused by weft_model_set_ddp as well, unless it is the world that it does not fit. */
TEST(random_groups_are_judged_alike_everywhere) {
    static const char letters[] = "0123,;-;,-0 ";
    int good = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        test_random r = {seed};
        char groups[12] = "";
        const char *why = NULL;
        int ranks[4];
        for (size_t i = 0, n = 1 + random_bits(&r) % 9; i < n; i++)
            groups[i] = letters[random_bits(&r) % (sizeof letters - 1)];
        int n = process_group_of(groups, 4, (int)(seed % 4), ranks, &why);
        weft_model *m = one_net();
        bool is_taken = weft_model_set_ddp(m, "a", &(weft_ddp_options){.process_group = groups}) == WEFT_OK;
        bool is_far = why && strcmp(why, "a rank is not below the world") == 0;
        CHECK_SAYS(is_far || is_taken == (n > 0), "seed %llu: '%s': %s", (unsigned long long)seed, groups,
                   why ? why : weft_model_error(m)->text);
        bool is_in = false;
        for (int i = 0; i < n; i++) is_in |= ranks[i] == (int)(seed % 4);
        CHECK_SAYS(!n || (is_in && n <= 4), "seed %llu: '%s'", (unsigned long long)seed, groups);
        good += n > 0;
        weft_model_free(m);
    }
    CHECK_SAYS(good > 100, "%d good ones: the test tests little", good);
}

SUITE("process groups",
      {T(a_rank_finds_its_group), T(wrong_groups_say_why), T(random_groups_are_judged_alike_everywhere)})
