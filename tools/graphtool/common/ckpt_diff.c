/* ckpt_diff.c - what differs between two checkpoints: tensors element by element, to the bit, and numbers of
 * their trainings, but for times. Neither the number of ranks nor who wrote which piece is a difference. */
#include "tools/graphtool/common/ckpt.h"

#include "ops/kit/op_kit.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/common/tools.h"

#include <math.h>
#include <string.h>

/* How a tensor of both differs. */
typedef struct difference {
    int64_t count;  /* elements with other bits */
    double largest; /* |a - b|; NaN where one of the two is not finite */
} difference;

typedef struct diffing {
    weft_checkpoint *c[2];
    entries all[2];
    char *piece[2];                         /* SAFETENSORS_PIECE bytes each */
    int n, n_different, n_numbers, n_alone; /* n, n_different: of tensors; alone: in one of the two */
    table rows, numbers;
    json_t *tensor_list, *number_list, *alone_list;
} diffing;

static void compare_piece(difference *d, weft_dtype dtype, char *const piece[2], size_t bytes) {
    size_t width = dtype_bytes(dtype);
    int64_t count = (int64_t)(bytes / width);
    tensor a = {.data = piece[0], .type = type_of(dtype, 1, &count), .stride = {1}};
    tensor b = {.data = piece[1], .type = type_of(dtype, 1, &count), .stride = {1}};
    if (memcmp(piece[0], piece[1], bytes) == 0) return;
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(piece[0] + (size_t)i * width, piece[1] + (size_t)i * width, width) == 0) continue;
        double gap = fabs(element_get(&a, &i) - element_get(&b, &i));
        d->count++;
        if (!(gap <= d->largest)) d->largest = isnan(d->largest) ? d->largest : gap;
    }
}

static weft_status compare_elements(diffing *x, const whole *a, const whole *b, difference *d,
                                    weft_error *error) {
    uint64_t bytes = type_bytes(&a->type);
    weft_status status = WEFT_OK;
    *d = (difference){0};
    for (uint64_t at = 0; !status && at < bytes; at += SAFETENSORS_PIECE) {
        size_t n = bytes - at < SAFETENSORS_PIECE ? (size_t)(bytes - at) : SAFETENSORS_PIECE;
        status = entries_read(&x->all[0], a, at, x->piece[0], n, error);
        if (!status) status = entries_read(&x->all[1], b, at, x->piece[1], n, error);
        if (!status) compare_piece(d, a->type.dtype, x->piece, n);
    }
    return status;
}

/* ---- tensors ---- */

static void tell_alone(diffing *x, const whole *w, int side, const whole *other) {
    const char *why = side ? "the first one has it not" : "the second one has it not";
    x->n_alone++;
    table_row(&x->rows, "%s\t%s\t%s", SHOW(w->name), TYPE(&w->type),
              other ? tool_text("the second one's is %s", TYPE(&other->type)) : why);
    json_array_append_new(x->alone_list, json_pack("{s:s, s:i}", "name", w->name, "in", side));
}

static void tell_different(diffing *x, const whole *w, const difference *d) {
    long long elements = type_elements(&w->type);
    x->n_different++;
    table_row(&x->rows, "%s\t%s\t%lld of %lld\t%.6g", SHOW(w->name), TYPE(&w->type), (long long)d->count,
              elements, d->largest);
    json_array_append_new(x->tensor_list,
                          json_pack("{s:s, s:I, s:I, s:o}", "name", w->name, "count", (json_int_t)d->count,
                                    "elements", (json_int_t)elements, "max", json_number(d->largest)));
}

static weft_status compare_tensors(diffing *x, weft_error *error) {
    difference d;
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < x->all[0].n_wholes; i++) {
        const whole *a = &x->all[0].wholes[i], *b = entries_find(&x->all[1], a->name, a->first_rank);
        bool is_both = b && type_equal(&a->type, &b->type);
        x->n++;
        if (!is_both) tell_alone(x, a, 0, b);
        if (is_both && !(status = compare_elements(x, a, b, &d, error)) && d.count) tell_different(x, a, &d);
    }
    for (int i = 0; !status && i < x->all[1].n_wholes; i++) {
        const whole *b = &x->all[1].wholes[i];
        if (!entries_find(&x->all[0], b->name, b->first_rank)) x->n++, tell_alone(x, b, 1, NULL);
    }
    return status;
}

/* ---- numbers ---- */

/* Two runs of one training take other times. */
static bool is_measured(const char *name) {
    size_t n = strlen(name), k = strlen("seconds");
    return n >= k && strcmp(name + n - k, "seconds") == 0;
}

static void tell_number(diffing *x, const char *name, double a, double b) {
    if (a == b || (isnan(a) && isnan(b))) return;
    x->n_numbers++;
    table_row(&x->numbers, "%s\t%s\t%s", SHOW(name), isnan(a) ? "none" : tool_text("%.17g", a),
              isnan(b) ? "none" : tool_text("%.17g", b));
    json_array_append_new(x->number_list, json_pack("{s:s, s:o, s:o}", "name", name, "first", json_number(a),
                                                    "second", json_number(b)));
}

static void compare_numbers(diffing *x) {
    weft_note note;
    tell_number(x, "step", (double)weft_checkpoint_step(x->c[0]), (double)weft_checkpoint_step(x->c[1]));
    if (weft_checkpoint_seed(x->c[0]) != weft_checkpoint_seed(x->c[1]))
        tell_number(x, "seed", (double)weft_checkpoint_seed(x->c[0]), (double)weft_checkpoint_seed(x->c[1]));
    for (int side = 0; side < 2; side++)
        for (int i = 0; weft_checkpoint_note_at(x->c[side], i, &note); i++) {
            double other = weft_checkpoint_note(x->c[!side], note.name);
            if (is_measured(note.name) || (side && !isnan(other))) continue; /* told already */
            tell_number(x, note.name, side ? other : note.value, side ? note.value : other);
        }
}

/* ---- both ---- */

static void tell_text(diffing *x, bool is_same) {
    text t = {0};
    table_write(&t, &x->rows);
    table_write(&t, &x->numbers);
    text_add(&t,
             is_same ? "%d tensors and all numbers are the same\n"
                     : "of %d tensors %d differ, and %d are in one of the two alone; %d numbers differ\n",
             x->n, x->n_different, x->n_alone, x->n_numbers);
    out_text(NULL, &t);
}

int ckpt_diff(const options *o) {
    weft_error error = {0};
    diffing x = {.rows = {.columns = 4, .is_right = {false, false, true, true}},
                 .numbers = {.columns = 3, .is_right = {false, true, true}},
                 .tensor_list = json_array(),
                 .number_list = json_array(),
                 .alone_list = json_array()};
    for (int i = 0; i < 2; i++) x.c[i] = ckpt_find(o, i);
    for (int i = 0; i < 2; i++) {
        if (entries_open(&x.all[i], x.c[i], &error)) tool_error(&error);
        x.piece[i] = tool_new(SAFETENSORS_PIECE, 1);
    }
    if (compare_tensors(&x, &error)) tool_error(&error);
    compare_numbers(&x);
    bool is_same = !x.n_different && !x.n_numbers && !x.n_alone;
    if (!o->json) tell_text(&x, is_same);
    json_t *all = json_pack("{s:b, s:i, s:o, s:o, s:o}", "same", is_same, "tensors", x.n, "different",
                            x.tensor_list, "numbers", x.number_list, "alone", x.alone_list);
    if (o->json) out_json_digits(NULL, json_incref(all), 17);
    json_decref(all);
    for (int i = 0; i < 2; i++) entries_close(&x.all[i]);
    return is_same ? EXIT_FINE : EXIT_WRONG;
}
