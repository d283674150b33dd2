/* hooked.h - what suites of hooks share: a small model with its data, a hook that sees every iteration and
 * validation, an evaluator whose numbers are a list, and a reader of event files. */
#ifndef WEFT_TESTS_HOOKED_H
#define WEFT_TESTS_HOOKED_H

#include "support/test.h"
#include "weft/weft.h"

enum { BATCH = 4, SAMPLES = 50, MOST = 64, WORLDS = 3 };

/* ---- data and model: a line through sines ---- */

/* The context, if there is one, is a sample that cannot be read. */
weft_status hooked_read(void *context, int64_t i, void *const *into, weft_error *error);
extern const weft_source hooked_samples;
extern const weft_source *const hooked_list[];
#define HOOKED_DATA                                                                                          \
    { 1, hooked_list, NULL }

/* Graphs "train" and "val" with an optimizer "slow". With outputs "constant" of the training and so many more
 * of both, 0, 1, ..., of these names or "extra0" and on. */
weft_model *hooked_model_with(const double *constant, int extras, const char *const *names);
weft_model *hooked_model(void);
/* The same, and a graph "predict" of images of 2 x 3 pixels, "photo". */
weft_model *hooked_painter(void);
weft_trainer *hooked_trainer(const weft_model *m, const weft_trainer_options *o);

/* ---- a hook that sees every iteration and validation ---- */

typedef struct seen {
    int n, vals;
    double loss[MOST], samples[MOST], val[MOST];
    int64_t val_iteration[MOST];
    float weight[MOST]; /* of fc at each validation */
} seen;

weft_status seen_at(void *self, weft_trainer *t, weft_hook_point point, weft_error *error);
#define SEES(s)                                                                                              \
    (weft_hook) {                                                                                            \
        "sees", seen_at, NULL, NULL, (s)                                                                     \
    }
/* The weighted mean of iterations [begin, end). */
double seen_mean(const seen *s, int begin, int end);
bool is_near(double a, double b); /* within 1e-8 */

/* ---- an evaluator whose metric "score" is the next number of a list at each validation ---- */

typedef struct script {
    const double *values;
    int next;
} script;

weft_evaluator script_evaluator(script *s);

/* ---- files ---- */

/* At most `room` bytes of a file; how many there are. */
size_t bytes_of_file(const char *path, void *into, size_t room);

/* The scalars and pictures of an event file. */
typedef struct scalars {
    int n, records;
    struct {
        char tag[60];
        int64_t step;
        float value;
    } list[1000];
    char version[20];
} scalars;

/* Reads the event file of a folder, and gives back its path; the caller frees what it returns. NULL: there is
 * none, or its lengths and checks are wrong, which fails checks. */
scalars *events_read(const char *folder, char path[600]);
/* NaN: there is none. */
float scalar_at(const scalars *s, const char *tag, int64_t step);

#endif
