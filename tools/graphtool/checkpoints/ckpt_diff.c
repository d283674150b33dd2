/* ckpt_diff.c - what differs between two checkpoints: tensors element by element, to the bit, and numbers of
 * their trainings, except for times. Neither the number of ranks nor who wrote which piece is a
 * difference. */
#include "tools/graphtool/checkpoints/ckpt.h"

#include "ops/kit/op_kit.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tools/graphtool/output/table.h"

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
    char *piece[2];                      /* SAFETENSORS_PIECE bytes each */
    int n;                               /* tensors */
    json_t *different, *numbers, *alone; /* tensors, numbers, tensors that one of the two has */
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

static void read_piece(diffing *x, int side, const whole *w, uint64_t at, size_t n) {
    tool_must(entries_read(&x->all[side], w, at, x->piece[side], n, &tool_why));
}

static difference compare_elements(diffing *x, const whole *a, const whole *b) {
    uint64_t bytes = type_bytes(&a->type);
    difference d = {0};
    for (uint64_t at = 0; at < bytes; at += SAFETENSORS_PIECE) {
        size_t n = bytes - at < SAFETENSORS_PIECE ? (size_t)(bytes - at) : SAFETENSORS_PIECE;
        read_piece(x, 0, a, at, n);
        read_piece(x, 1, b, at, n);
        compare_piece(&d, a->type.dtype, x->piece, n);
    }
    return d;
}

/* ---- tensors ---- */

/* `other`: what the other one has, of another type; NULL: nothing. */
static void add_alone(diffing *x, const whole *w, int side, const whole *other) {
    const char *why = side ? "the first one has it not" : "the second one has it not";
    if (other) why = tool_text("the second one's is %s", TYPE(&other->type));
    x->n++;
    json_array_append_new(x->alone, json_pack("{s:s, s:i, s:s, s:s}", "name", w->name, "in", side, "type",
                                              TYPE(&w->type), "why", why));
}

static void compare_both(diffing *x, const whole *a, const whole *b) {
    difference d = compare_elements(x, a, b);
    x->n++;
    if (d.count)
        json_array_append_new(x->different,
                              json_pack("{s:s, s:s, s:I, s:I, s:o}", "name", a->name, "type", TYPE(&a->type),
                                        "count", (json_int_t)d.count, "elements",
                                        (json_int_t)type_elements(&a->type), "max", json_number(d.largest)));
}

static void compare_tensors(diffing *x) {
    for (int i = 0; i < x->all[0].n_wholes; i++) {
        const whole *a = &x->all[0].wholes[i], *b = entries_find(&x->all[1], a->name, a->first_rank);
        if (b && type_equal(&a->type, &b->type))
            compare_both(x, a, b);
        else
            add_alone(x, a, 0, b);
    }
    for (int i = 0; i < x->all[1].n_wholes; i++) {
        const whole *b = &x->all[1].wholes[i];
        if (!entries_find(&x->all[0], b->name, b->first_rank)) add_alone(x, b, 1, NULL);
    }
}

/* ---- numbers ---- */

static void add_number(diffing *x, const char *name, double a, double b) {
    if (a != b && !(isnan(a) && isnan(b)))
        json_array_append_new(x->numbers, json_pack("{s:s, s:o, s:o}", "name", name, "first", json_number(a),
                                                    "second", json_number(b)));
}

static void compare_numbers(diffing *x) {
    weft_checkpoint_note note;
    add_number(x, "step", (double)weft_checkpoint_step(x->c[0]), (double)weft_checkpoint_step(x->c[1]));
    if (weft_checkpoint_seed(x->c[0]) != weft_checkpoint_seed(x->c[1]))
        add_number(x, "seed", (double)weft_checkpoint_seed(x->c[0]), (double)weft_checkpoint_seed(x->c[1]));
    for (int side = 0; side < 2; side++)
        for (int i = 0; weft_checkpoint_note_at(x->c[side], i, &note); i++) {
            double other = weft_checkpoint_note_value(x->c[!side], note.name);
            bool is_measured = text_ends(note.name, "seconds");   /* two runs take other times */
            if (is_measured || (side && !isnan(other))) continue; /* told already */
            add_number(x, note.name, side ? other : note.value, side ? note.value : other);
        }
}

/* ---- both ---- */

static void tell_text(const diffing *x) {
    static const table_column different[] = {{"tensor", "name"},
                                             {"type", "type"},
                                             {"differ", "count", 1},
                                             {"of", "elements", 1},
                                             {"largest difference", "max", 1, -6}};
    static const table_column alone[] = {{"tensor", "name"}, {"type", "type"}, {"", "why"}};
    static const table_column numbers[] = {
        {"number", "name"}, {"first", "first", 1, -17}, {"second", "second", 1, -17}};
    int n_different = (int)json_array_size(x->different), n_alone = (int)json_array_size(x->alone);
    int n_numbers = (int)json_array_size(x->numbers);
    text t = {0};
    if (n_different) table_json(&t, x->different, 5, different);
    if (n_alone) table_json(&t, x->alone, 3, alone);
    if (n_numbers) table_json(&t, x->numbers, 3, numbers);
    if (n_different || n_alone || n_numbers)
        text_add(&t, "of %d tensors %d differ, and %d are in one of the two alone; %d numbers differ\n", x->n,
                 n_different, n_alone, n_numbers);
    else
        text_add(&t, "%d tensors and all numbers are the same\n", x->n);
    out_text(NULL, &t);
}

int ckpt_diff(const options *o) {
    diffing x = {.different = json_array(), .numbers = json_array(), .alone = json_array()};
    for (int i = 0; i < 2; i++) {
        x.c[i] = ckpt_find(o, i);
        tool_must(entries_open(&x.all[i], x.c[i], &tool_why));
        x.piece[i] = tool_new(SAFETENSORS_PIECE, 1);
    }
    compare_tensors(&x);
    compare_numbers(&x);
    bool is_same = !json_array_size(x.different) && !json_array_size(x.numbers) && !json_array_size(x.alone);
    if (!o->json) tell_text(&x);
    json_t *all = json_pack("{s:b, s:i, s:o, s:o, s:o}", "same", is_same, "tensors", x.n, "different",
                            x.different, "numbers", x.numbers, "alone", x.alone);
    if (o->json) out_json_digits(NULL, json_incref(all), 17);
    json_decref(all);
    for (int i = 0; i < 2; i++) entries_close(&x.all[i]);
    return is_same ? EXIT_FINE : EXIT_WRONG;
}
