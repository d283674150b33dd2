/* test_ddp.c - options of subgraphs: the values that weft_model_set_ddp accepts and rejects, and that files
 * and dumps keep them. Their effect on a run is tested in test_worlds_*.c. */
#include "graph/settings/clone.h"
#include "graph/settings/ddp.h"
#include "graph/core/limits.h"
#include "runtime/verify/verify.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- models ---- */

/* Parameters a/fc1/weight, a/fc1/bias, a/fc2/..., ab/fc/..., scale; state a/mean. */
static weft_model *two_nets(const weft_env *env) {
    weft_model *m = weft_model_new_in("nets", env);
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
    WEFT_SCOPE(x, "a") {
        weft_state(x, "mean", 1, (int64_t[]){3}, (weft_init){0});
        x = weft_linear(weft_relu(weft_linear(x, 8, "fc1", NULL)), 8, "fc2", NULL);
    }
    WEFT_SCOPE(x, "ab") x = weft_linear(x, 1, "fc", NULL);
    weft_value *scale = weft_parameter_in(g, "scale", 0, NULL, (weft_init){WEFT_INIT_ONES});
    weft_value *loss = weft_mean(weft_square(weft_mul(x, scale)), WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_output(loss, "loss");
    CHECK_TEXT(weft_model_error(m)->text, "");
    return m;
}

/* The `ddp` lines of a dump, which the caller frees. */
static char *lines_of(char *dump) {
    text t = {0};
    for (const char *at = dump; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, "ddp ", 4) == 0) text_bytes(&t, at, strcspn(at, "\n") + 1);
    free(dump);
    return text_detach(&t);
}

static void check_lines(const weft_model *m, const char *want) {
    char *got = lines_of(weft_model_text(m));
    CHECK_TEXT(got, want);
    weft_text_free(got);
}

static const weft_ddp_options all_options = {.bucket_cap_mb = 0.1,
                                             .zero = 2,
                                             .shard = WEFT_SHARD_FLAT,
                                             .broadcast_buffers = true,
                                             .find_unused_parameters = true,
                                             .sync_batch_norm = true,
                                             .wire = WEFT_BF16,
                                             .process_group = "0-3;4-7"};
#define ALL_OPTIONS                                                                                          \
    "bucket_cap_mb=0.1 zero=2 shard=flat broadcast_buffers=1 find_unused_parameters=1 sync_batch_norm=1 "    \
    "bf16_wire=1 "                                                                                           \
    "process_group=\"0-3;4-7\""

/* ---- the API ---- */

TEST(each_option_is_kept_and_printed) {
    weft_model *m = two_nets(NULL);
    CHECK(weft_model_set_ddp(m, "a", &all_options) == WEFT_OK);
    CHECK(weft_model_set_ddp(m, "ab", NULL) == WEFT_OK);
    CHECK(weft_model_set_ddp(m, "", &(weft_ddp_options){.zero = -1}) == WEFT_OK);
    check_lines(m, "ddp a " ALL_OPTIONS "\nddp ab\nddp / zero=-1\n");
    const ddp_attrs *a = &ddp_find(m, "a/fc1/weight")->attrs;
    CHECK(a->bucket_cap_mb == 0.1 && a->zero == 2 && a->shard == WEFT_SHARD_FLAT && a->broadcast_buffers);
    CHECK(a->find_unused_parameters && a->sync_batch_norm && a->bf16_wire);
    CHECK_TEXT(a->process_group, "0-3;4-7");
    weft_model_free(m);
}

TEST(a_second_call_replaces_all_options_and_keeps_the_place) {
    weft_model *m = two_nets(NULL);
    weft_model_set_ddp(m, "/", &all_options);
    weft_model_set_ddp(m, "a", &all_options);
    CHECK(weft_model_set_ddp(m, "", &(weft_ddp_options){.bucket_cap_mb = 4}) == WEFT_OK);
    check_lines(m, "ddp / bucket_cap_mb=4\nddp a " ALL_OPTIONS "\n");
    CHECK(weft_model_set_ddp(m, "a", &(weft_ddp_options){.process_group = ""}) == WEFT_OK);
    CHECK(ddp_at(m, "a")->attrs.process_group == NULL);
    weft_model_free(m);
}

TEST(text_changes_what_it_names_only) {
    weft_model *m = two_nets(NULL);
    CHECK(weft_model_set_ddp_text(m, "a", "zero=1,bucket_cap_mb=4") == WEFT_OK);
    check_lines(m, "ddp a bucket_cap_mb=4 zero=1\n");
    CHECK(weft_model_set_ddp_text(m, "a", " shard=flat , sync_batch_norm=1\n") == WEFT_OK);
    check_lines(m, "ddp a bucket_cap_mb=4 zero=1 shard=flat sync_batch_norm=1\n");
    CHECK(weft_model_set_ddp_text(m, "a", "bucket_cap_mb=0,shard=greedy,sync_batch_norm=0,zero=0") ==
          WEFT_OK);
    check_lines(m, "ddp a\n");
    CHECK(weft_model_set_ddp_text(m, "a", ALL_OPTIONS) == WEFT_OK);
    CHECK(weft_model_set_ddp_text(m, "a", "") == WEFT_OK);
    check_lines(m, "ddp a " ALL_OPTIONS "\n");
    CHECK(weft_model_set_ddp_text(m, "/", "process_group=\"1,0\"") == WEFT_OK);
    CHECK_TEXT(ddp_at(m, "")->attrs.process_group, "1,0");
    CHECK(weft_model_set_ddp_text(m, "", "process_group=\"\"") == WEFT_OK &&
          !ddp_at(m, "")->attrs.process_group);
    weft_model_free(m);
}

TEST(a_process_group_needs_no_quotes) {
    static const struct {
        const char *options, *group;
        int64_t zero;
    } cases[] = {{"process_group=0-3;4-7", "0-3;4-7", 0},
                 {"process_group=0,2;1,3,zero=1", "0,2;1,3", 1},
                 {"zero=1,process_group=0,2;1,3", "0,2;1,3", 1},
                 {"process_group=0,2;1,3 zero=1", "0,2;1,3", 1},
                 {"process_group=\"0,2;1,3\",zero=1", "0,2;1,3", 1},
                 {"zero=1 process_group=", NULL, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *m = two_nets(NULL);
        CHECK_SAYS(weft_model_set_ddp_text(m, "a", cases[i].options) == WEFT_OK, "%s",
                   weft_model_error(m)->text);
        const ddp_entry *e = ddp_at(m, "a");
        const char *group = e && e->attrs.process_group ? e->attrs.process_group : "";
        CHECK_TEXT(group, cases[i].group ? cases[i].group : "");
        CHECK_SAYS(e && e->attrs.zero == cases[i].zero, "%s", cases[i].options);
        weft_model_free(m);
    }
}

TEST(the_longest_path_wins) {
    weft_model *m = two_nets(NULL);
    CHECK(!ddp_find(m, "a/fc1/weight"));
    weft_model_set_ddp(m, "a/fc1", NULL);
    weft_model_set_ddp(m, "a", NULL);
    CHECK_TEXT(ddp_find(m, "a/fc1/weight")->path, "a/fc1");
    CHECK_TEXT(ddp_find(m, "a/fc2/weight")->path, "a");
    CHECK(!ddp_find(m, "ab/fc/weight") && !ddp_find(m, "scale") && !ddp_find(m, "a"));
    weft_model_set_ddp(m, "", NULL);
    CHECK_TEXT(ddp_find(m, "ab/fc/weight")->path, "");
    CHECK_TEXT(ddp_find(m, "scale")->path, "");
    CHECK_TEXT(ddp_find(m, "a/fc1/bias")->path, "a/fc1");
    weft_model_free(m);
}

/* ---- errors ---- */

TEST(each_wrong_option_has_its_message) {
    static const struct {
        const char *path;
        weft_ddp_options options;
        weft_status status;
        const char *says;
    } cases[] = {
        {NULL, {0}, WEFT_ARGUMENT, "ddp: a path is needed (\"\": the whole model)"},
        {"b", {0}, WEFT_NAME, "ddp: there is no parameter under 'b'"},
        {"a/", {0}, WEFT_NAME, "ddp: there is no parameter under 'a/'"},
        {"a*", {0}, WEFT_NAME, "ddp: there is no parameter under 'a*'"},
        {"scale", {0}, WEFT_NAME, "ddp: there is no parameter under 'scale'"},
        {"a\nb", {0}, WEFT_NAME, "ddp: there is no parameter under 'a\\x0ab'"},
        {"a", {.bucket_cap_mb = -1}, WEFT_ARGUMENT, "ddp a: bucket_cap_mb=-1: it must be 0 to 1048576"},
        {"a", {.bucket_cap_mb = 1e7}, WEFT_ARGUMENT, "ddp a: bucket_cap_mb=1e+07: it must be 0 to 1048576"},
        {"a", {.bucket_cap_mb = NAN}, WEFT_ARGUMENT, "ddp a: bucket_cap_mb is not a finite number"},
        {"a", {.bucket_cap_mb = INFINITY}, WEFT_ARGUMENT, "ddp a: bucket_cap_mb is not a finite number"},
        {"", {.zero = 3}, WEFT_ARGUMENT, "ddp /: zero=3: it must be -1 to 2"},
        {"a", {.zero = -2}, WEFT_ARGUMENT, "ddp a: zero=-2: it must be -1 to 2"},
        {"a", {.shard = (weft_shard)2}, WEFT_ARGUMENT, "ddp a: shard=2: it must be 0 to 1"},
        {"a",
         {.wire = WEFT_F16},
         WEFT_ARGUMENT,
         "ddp a: wire must be WEFT_BF16, or 0 to send gradients as they are"},
        {"a",
         {.wire = (weft_dtype)-1},
         WEFT_ARGUMENT,
         "ddp a: wire must be WEFT_BF16, or 0 to send gradients as they are"},
        {"a",
         {.process_group = "0-1;1"},
         WEFT_ARGUMENT,
         "ddp a: process_group '0-1;1': a rank is named twice"},
        {"a",
         {.process_group = "0-1048576"},
         WEFT_ARGUMENT,
         "ddp a: process_group '0-1048576': ranks are below 2^20"},
        {"a",
         {.process_group = "3-1"},
         WEFT_ARGUMENT,
         "ddp a: process_group '3-1': a range goes from the lower rank to the higher"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *m = two_nets(NULL);
        weft_status status = weft_model_set_ddp(m, cases[i].path, &cases[i].options);
        CHECK_SAYS(status == cases[i].status, "case %zu: status %d", i, status);
        CHECK_HOLDS(weft_model_error(m)->text, cases[i].says);
        CHECK_SAYS(!m->ddps, "case %zu left an entry", i);
        CHECK(weft_model_set_ddp(m, "a", NULL) == cases[i].status &&
              weft_model_set_ddp_text(m, "a", "") == cases[i].status);
        weft_model_free(m);
    }
    CHECK(weft_model_set_ddp(NULL, "a", NULL) == WEFT_ARGUMENT &&
          weft_model_set_ddp_text(NULL, "a", "") == WEFT_ARGUMENT);
}

TEST(each_wrong_text_has_its_message) {
    static const struct {
        const char *options, *says;
    } cases[] = {
        {NULL, "and options are needed"},
        {"zero", "ddp a: NAME=VALUE is expected at 'zero'"},
        {"zero=1;shard=flat", "ddp a: NAME=VALUE is expected at ';shard=flat'"},
        {"zero=1 =1", "ddp a: NAME=VALUE is expected at '=1'"},
        {"cap=1", "subgraph a: ddp has no attribute 'cap'"},
        {"zero=1,zero=1", "subgraph a: ddp: zero is given twice"},
        {"zero=x", "subgraph a: ddp: the value of zero cannot be read"},
        {"zero= 1", "subgraph a: ddp: the value of zero cannot be read"},
        {"zero=B", "ddp a: zero=-9223372036854775808: it must be -1 to 2"},
        {"zero=99999999999999999999", "ddp a: zero=9223372036854775807: it must be -1 to 2"},
        {"shard=flat2", "ddp a: NAME=VALUE is expected at '2'"},
        {"shard=flatter", "subgraph a: ddp: the value of shard cannot be read: greedy or flat"},
        {"shard=1", "subgraph a: ddp: the value of shard cannot be read: greedy or flat"},
        {"sync_batch_norm=yes", "subgraph a: ddp: the value of sync_batch_norm cannot be read"},
        {"bucket_cap_mb=nan", "ddp a: bucket_cap_mb is not a finite number"},
        {"bucket_cap_mb=1e", "subgraph a: ddp: the value of bucket_cap_mb cannot be read"},
        {"process_group=\"0-3", "subgraph a: ddp: the value of process_group cannot be read"},
        {"process_group=a", "ddp a: NAME=VALUE is expected at 'a'"},
        {"process_group=0-", "ddp a: process_group '0-': a group is ranks and ranges"},
        {"process_group=\"process_group=1\"", "a group is ranks and ranges like 0-3 with ','"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *m = two_nets(NULL);
        CHECK_SAYS(weft_model_set_ddp_text(m, "a", cases[i].options) == WEFT_ARGUMENT, "case %zu is taken",
                   i);
        CHECK_HOLDS(weft_model_error(m)->text, cases[i].says);
        CHECK(!m->ddps);
        weft_model_free(m);
    }
    weft_model *m = two_nets(NULL);
    char *longest = test_memory(DDP_MAX_TEXT_BYTES + 2);
    memset(longest, ' ', DDP_MAX_TEXT_BYTES + 1);
    longest[DDP_MAX_TEXT_BYTES] = 0;
    CHECK(weft_model_set_ddp_text(m, "a", longest) == WEFT_OK);
    longest[DDP_MAX_TEXT_BYTES] = ' ';
    longest[DDP_MAX_TEXT_BYTES + 1] = 0;
    CHECK(weft_model_set_ddp_text(m, "a", longest) == WEFT_ARGUMENT);
    CHECK_HOLDS(weft_model_error(m)->text, "ddp a: options longer than 64 KiB");
    free(longest);
    weft_model_free(m);
}

/* ---- files and dumps ---- */

static weft_model *with_options(const weft_env *env) {
    weft_model *m = two_nets(env);
    weft_model_set_ddp(m, "a/fc1", &all_options);
    weft_model_set_ddp(m, "ab", NULL);
    weft_model_set_ddp(m, "", &(weft_ddp_options){.zero = 1, .bucket_cap_mb = 0.1 + 0.2});
    return m;
}
#define THREE_LINES "ddp a/fc1 " ALL_OPTIONS "\nddp ab\nddp / bucket_cap_mb=0.30000000000000004 zero=1\n"

TEST(model_bin_keeps_the_options) {
    faults f;
    faults_init(&f);
    weft_error error = {0};
    weft_model *m = with_options(&f.env);
    CHECK_SAYS(weft_save(m, "a.bin", &error) == WEFT_OK, "%s", error.text);
    weft_model *copy = weft_load("a.bin", &f.env, &error);
    CHECK_SAYS(copy != NULL, "%s", error.text);
    if (copy) {
        check_lines(copy, THREE_LINES);
        CHECK(weft_save(copy, "b.bin", &error) == WEFT_OK);
        const fake_file *a = fake_get(&f, "a.bin"), *b = fake_get(&f, "b.bin");
        CHECK(a && b && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
    }
    weft_model_free(copy);
    weft_model_free(m);
    CHECK(f.live == 0);
    faults_end(&f);
}

/* "model ..." and the same text read back and printed again. */
static void round_trip(const char *string) {
    weft_error error = {0};
    weft_model *copy = weft_model_parse(string, "dump", NULL, &error);
    CHECK_SAYS(copy != NULL, "%s\n%s", error.text, string);
    char *again = weft_model_text(copy);
    if (again) CHECK_TEXT(again, string);
    weft_text_free(again);
    weft_model_free(copy);
}

TEST(dumps_of_models_and_plans_keep_the_options) {
    weft_error error = {0};
    weft_model *m = with_options(NULL), *copy = model_clone_variables(m, 1, 1, 0);
    char *string = weft_model_text(m);
    round_trip(string);
    weft_text_free(string);
    check_lines(m, THREE_LINES);
    check_lines(copy, THREE_LINES);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    string = weft_plan_text(plan);
    if (string) round_trip(string);
    char *lines = lines_of(string);
    CHECK_TEXT(lines, THREE_LINES);
    free(lines);
    weft_plan_free(plan);
    weft_model_free(copy);
    weft_model_free(m);
}

TEST(each_wrong_line_of_a_dump_has_its_message) {
    static const char good[] =
        "model m batch=1\nparameter a/w f32[2] zeros(0,0)\nddp a zero=1\ngraph g train\n";
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"ddp a ", "ddp b ", "dump:3: ddp: there is no parameter under 'b'"},
        {"ddp a zero=1", "ddp ", "dump:3: a name of 1 to 1000 characters"},
        {"zero=1", "zero=5", "dump:3: ddp a: zero=5: it must be -1 to 2"},
        {"zero=1", "zero=1,shard=flat", "dump:3: 'the end of the line' is expected, but there is ',shard"},
        {"zero=1", "stage=1", "dump:3: ddp has no attribute 'stage'"},
        {"zero=1", "process_group=\"0;0\"", "dump:3: ddp a: process_group '0;0': a rank is named twice"},
        {"zero=1", "process_group=\"0\\x0a\"", "dump:3: ddp a: process_group='0\\x0a': printable ASCII"},
        {"zero=1", "process_group=0", "dump:3: ddp: the value of process_group cannot be read"},
        {"zero=1", "zero=1\nddp a", "dump:4: subgraph a is listed twice"},
        {"graph g train\n", "graph g train\nddp a", "dump:5: options of subgraphs must come before graphs"},
    };
    round_trip(good);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error error = {0};
        text t = {0};
        const char *at = strstr(good, cases[i].from);
        text_bytes(&t, good, (size_t)(at - good));
        text_add(&t, "%s%s", cases[i].to, at + strlen(cases[i].from));
        char *broken = text_detach(&t);
        weft_model *m = weft_model_parse(broken, "dump", NULL, &error);
        CHECK_SAYS(!m, "case %zu is taken", i);
        CHECK_HOLDS(error.text, cases[i].says);
        weft_model_free(m);
        free(broken);
    }
}

TEST(a_file_with_too_many_subgraphs_is_refused) {
    weft_error error = {0};
    text t = {0};
    text_add(&t, "model m batch=1\n");
    for (int i = 0; i <= MODEL_MAX_SUBGRAPHS; i++) text_add(&t, "parameter s%d/w f32[] zeros(0,0)\n", i);
    for (int i = 0; i <= MODEL_MAX_SUBGRAPHS; i++) text_add(&t, "ddp s%d\n", i);
    char *string = text_detach(&t);
    CHECK(!weft_model_parse(string, "dump", NULL, &error));
    CHECK_HOLDS(error.text, "more than 4096 subgraphs");
    free(string);
}

/* ---- every option, whatever the list holds ---- */

/* Another value than the one there is. */
static void change(ddp_attrs *attrs, const op_attr *f) {
    char *at = (char *)attrs + f->offset;
    if (f->kind == ATTR_REAL) *(double *)at += 1;
    if (f->kind == ATTR_INT) *(int64_t *)at += 1;
    if (f->kind == ATTR_BOOL) *(bool *)at = !*(bool *)at;
    if (f->kind == ATTR_STRING) *(const char **)at = "0";
}

static weft_plan *plan_in(const weft_model *m, int world) {
    weft_error error;
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1, .world = world}, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    return plan;
}

/* Subgraphs that weft_model_set_ddp names and those that it does not, alone and in a world: no option of a
 * plan may be another than what was asked for. */
TEST(an_option_that_a_plan_has_otherwise_is_found) {
    weft_model *m = two_nets(NULL);
    weft_model_set_ddp(m, "a", &(weft_ddp_options){.zero = 1, .bucket_cap_mb = 2, .shard = WEFT_SHARD_FLAT});
    for (int world = 1; world <= 2; world++) {
        weft_plan *plan = plan_in(m, world);
        for (int i = 0; plan && i < plan->n_subgraphs; i++)
            for (const op_attr *f = ddp_attr_table; f->name; f++) {
                weft_error error = {0};
                ddp_attrs good = plan->subgraphs[i].ddp;
                CHECK(verify_plan(plan, &error) == WEFT_OK);
                change(&plan->subgraphs[i].ddp, f);
                CHECK_SAYS(verify_plan(plan, &error) == WEFT_INTERNAL, "%s of %s", f->name,
                           plan->subgraphs[i].name);
                CHECK_HOLDS(error.text, "L20: subgraph ");
                plan->subgraphs[i].ddp = good;
            }
        weft_plan_free(plan);
    }
    weft_model_free(m);
}

TEST(json_has_every_option) {
    weft_model *m = two_nets(NULL);
    weft_plan *plan = plan_in(m, 2);
    char *json = weft_plan_json(plan);
    for (const op_attr *f = ddp_attr_table; f->name && json; f++) {
        char key[80];
        snprintf(key, sizeof key, "\"%s\": ", strcmp(f->name, "bf16_wire") ? f->name : "wire");
        CHECK_HOLDS(json, key);
    }
    weft_text_free(json);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* Parameters outside of any scope are a subgraph of their own, whose name is one that no scope has. */
TEST(a_scope_may_have_the_name_of_the_whole_model) {
    weft_error error = {0};
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(4, 3));
    WEFT_SCOPE(x, "model") x = weft_batch_norm(weft_linear(x, 3, "fc", NULL), "bn", NULL);
    x = weft_batch_norm(weft_linear(x, 3, "fc", NULL), "bn", NULL);
    WEFT_SCOPE(x, "model_") x = weft_linear(x, 3, "fc", NULL);
    weft_value *scale = weft_parameter_in(g, "scale", 0, NULL, (weft_init){WEFT_INIT_ONES});
    weft_minimize(weft_mean(weft_mul(x, scale), WEFT_ALL, false), NULL,
                  &(weft_optimizer){.type = "adam", .lr = 0.1});
    for (int world = 1; world <= 2; world++)
        for (int i = 0; i < 2; i++) {
            if (i) weft_model_set_ddp(m, "model", &(weft_ddp_options){.zero = 1, .sync_batch_norm = true});
            weft_plan *plan =
                weft_compile(m, &(weft_compile_options){.world = world, .verify = true}, &error);
            CHECK_SAYS(plan, "%s", error.text);
            for (int s = 0; plan && s < plan->n_subgraphs; s++)
                CHECK_TEXT(plan->subgraphs[s].name,
                           *plan->subgraphs[s].path ? plan->subgraphs[s].path : "model__");
            weft_plan_free(plan);
        }
    weft_model_free(m);
}

/* ---- failures ---- */

static weft_model *build(faults *f) {
    weft_model *m = weft_model_new_in("m", &f->env);
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_parameter_in(weft_graph_scope_enter(g, "a"), "w", 0, NULL, (weft_init){0});
    return m;
}

/* Text with a group takes memory four times: to quote, to parse, to check, to keep. */
static weft_status build_and_set(faults *f, weft_error *error) {
    weft_model *m = build(f);
    char groups[9000] = "";
    for (int i = 0; i < 1000; i++) snprintf(groups + strlen(groups), 24, i ? ";%d" : "process_group=%d", i);
    weft_status status = m ? weft_model_set_ddp_text(m, "a", groups) : WEFT_MEMORY;
    *error = *weft_model_error(m);
    if (!m) error->status = WEFT_MEMORY;
    weft_model_free(m);
    return status;
}

TEST(running_out_of_memory_is_told) {
    faults f;
    faults_init(&f);
    faults_inject(&f, true, build_and_set, NULL);
    CHECK(f.live == 0);
    faults_end(&f);
}

SUITE("ddp",
      {T(each_option_is_kept_and_printed), T(a_second_call_replaces_all_options_and_keeps_the_place),
       T(text_changes_what_it_names_only), T(a_process_group_needs_no_quotes), T(the_longest_path_wins),
       T(each_wrong_option_has_its_message), T(each_wrong_text_has_its_message),
       T(model_bin_keeps_the_options), T(dumps_of_models_and_plans_keep_the_options),
       T(each_wrong_line_of_a_dump_has_its_message), T(a_file_with_too_many_subgraphs_is_refused),
       T(an_option_that_a_plan_has_otherwise_is_found), T(json_has_every_option),
       T(a_scope_may_have_the_name_of_the_whole_model), T(running_out_of_memory_is_told)})
