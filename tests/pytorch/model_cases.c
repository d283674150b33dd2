/* model_cases.c - runs models that are given as text (tests/models/README.md) and compares them with the
 * results given there. Reads cases from standard input, one per line, and writes a line of JSON for each:
 *
 *     {"id": 17, "configs": [{"good": true, "worst": 0.02, "compared": 9, "skipped": 0, "text": ""}]}
 *
 * model_cases --limit N: keeps libraries too within instruction set N (weft_limit_isa). */
#include "support/models/model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *answer_of(const case_outcome *o) {
    return json_pack("{s:b, s:f, s:i, s:i, s:s}", "good", o->is_good, "worst",
                     o->worst < 1e30 ? o->worst : 1e30, "compared", o->compared, "skipped", o->skipped,
                     "text", o->text);
}

static json_t *answer(const json_t *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(c, "configs")); i++) {
        case_outcome outcome;
        case_run(c, i, &outcome);
        json_array_append_new(list, answer_of(&outcome));
    }
    return json_pack("{s:I, s:o}", "id", json_integer_value(json_object_get(c, "id")), "configs", list);
}

int main(int argc, char **argv) {
    weft_error error = {0};
    char *line = NULL;
    size_t room = 0;
    if (argc == 3 && strcmp(argv[1], "--limit") == 0 && weft_limit_isa((weft_isa)atoi(argv[2]), &error)) {
        fprintf(stderr, "model_cases: %s\n", error.text);
        return 2;
    }
    while (getline(&line, &room, stdin) > 0) {
        json_error_t where;
        json_t *c = json_loads(line, 0, &where);
        if (!c) {
            fprintf(stderr, "model_cases: %s\n", where.text);
            return 2;
        }
        json_t *a = answer(c);
        char *said = json_dumps(a, JSON_COMPACT);
        puts(said);
        fflush(stdout);
        free(said);
        json_decref(a);
        json_decref(c);
    }
    free(line);
    return 0;
}
