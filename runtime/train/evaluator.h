/* evaluator.h - what the evaluators that Weft brings share. */
#ifndef WEFT_RUNTIME_TRAIN_EVALUATOR_H
#define WEFT_RUNTIME_TRAIN_EVALUATOR_H

#include "runtime/train/trainer.h"

/* What an evaluator was made with; each uses some. */
typedef struct measure {
    kit_arena memory;
    char name[64];
    int k;
    int64_t counts, sums; /* of its tally; counts 0: those of a matrix */
    double range;
    int64_t *matrix;
    /* Counts element e of the scores, which has a label. */
    void (*note)(const struct measure *m, const weft_view *reads, int64_t e, int64_t label,
                 weft_tally *tally);
    /* The value of a sample, whose elements are `each` from `first` on. */
    double (*value)(const struct measure *m, const weft_view *reads, int64_t first, int64_t each);
} measure;

/* An evaluator that weft_trainer_new() refuses, with this static text; NULL: out of memory. */
weft_evaluator measure_refused(const char *why);
/* An evaluator of a copy of `with`, with one metric, of its name, where `calls` has no parts; out of memory:
 * one that weft_trainer_new() refuses. */
weft_evaluator measure_new(const measure *with, const char *first, const char *second, weft_evaluator calls);
/* Element i of a tensor of a type that is_real or is_whole. */
double read_real(const weft_view *r, int64_t i);
int64_t read_whole(const weft_view *r, int64_t i);
/* Both have real numbers, a row for each sample, and one shape. */
weft_status check_pair(const weft_view *reads, int64_t rows, weft_error *error);
bool is_real(const weft_view *r);  /* f32, f64 */
bool is_whole(const weft_view *r); /* u8, i32, i64 */
int64_t read_elements(const weft_view *r);
tensor read_type(const weft_view *r);

#endif
