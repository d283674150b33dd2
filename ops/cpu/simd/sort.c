/* sort.c - sort of all types. Elements become keys whose unsigned order is theirs (NaN last, -0 as 0), each
 * with its place; keys go through a radix sort from the lowest byte, which keeps equal ones in order. Where
 * few of many are kept, they are selected first, by key and then place. Threads share the rows. */
#include "ops/cpu/simd/simd.h"
#include "ops/index/sort.h"

#include <string.h>

enum { FEW = 48, WORTH_A_THREAD = 2048 }; /* sorted by insertion; elements */

typedef struct item {
    uint64_t key;
    int64_t place;
} item;

/* ---- keys ---- */

/* Sign and magnitude to unsigned order: `bits` wide, `infinity` is its pattern. */
static uint64_t float_key(uint64_t x, uint64_t sign, uint64_t infinity) {
    uint64_t magnitude = x & (sign - 1);
    if (magnitude > infinity) return sign | (sign - 1); /* NaN */
    return x & sign ? sign - magnitude : sign + magnitude;
}

static uint64_t key_at(const void *x, weft_dtype dtype, int64_t i) {
    switch (dtype) {
    case WEFT_F32:
        return float_key(((const uint32_t *)x)[i], 1u << 31, 0x7f800000);
    case WEFT_F64:
        return float_key(((const uint64_t *)x)[i], (uint64_t)1 << 63, (uint64_t)0x7ff << 52);
    case WEFT_BF16:
        return float_key(((const uint16_t *)x)[i], 1 << 15, 0x7f80);
    case WEFT_F16:
        return float_key(((const uint16_t *)x)[i], 1 << 15, 0x7c00);
    case WEFT_I64:
        return ((const uint64_t *)x)[i] ^ (uint64_t)1 << 63;
    case WEFT_I32:
        return ((const uint32_t *)x)[i] ^ 1u << 31;
    case WEFT_BOOL:
        return ((const uint8_t *)x)[i] != 0;
    default:
        return ((const uint8_t *)x)[i];
    }
}

/* ---- sorting ---- */

static bool is_before(const item *a, const item *b) {
    return a->key < b->key || (a->key == b->key && a->place < b->place);
}

static void insertion(item *v, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        item x = v[i];
        int64_t k = i;
        for (; k > 0 && is_before(&x, &v[k - 1]); k--) v[k] = v[k - 1];
        v[k] = x;
    }
}

/* Items by `bytes` bytes of their keys; v and room change places, the sorted one is returned. Places are in
 * order at first. A byte that all keys share is skipped. */
static item *radix(item *v, item *room, int64_t n, int bytes) {
    for (int b = 0; b < bytes; b++) {
        int64_t count[256] = {0}, before = 0;
        int shift = 8 * b;
        for (int64_t i = 0; i < n; i++) count[v[i].key >> shift & 255]++;
        if (count[v[0].key >> shift & 255] == n) continue;
        for (int d = 0; d < 256; d++) {
            int64_t own = count[d];
            count[d] = before;
            before += own;
        }
        for (int64_t i = 0; i < n; i++) room[count[v[i].key >> shift & 255]++] = v[i];
        item *moved = room;
        room = v;
        v = moved;
    }
    return v;
}

/* Moves the first k of the order to the front, in any order: quickselect; no two items are equal. */
static void select_first(item *v, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        item pivot = v[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (is_before(&v[i], &pivot)) i++;
            while (is_before(&pivot, &v[j])) j--;
            if (i > j) break;
            item x = v[i];
            v[i++] = v[j];
            v[j--] = x;
        }
        /* v[low .. j] <= pivot <= v[i .. high] */
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

/* Leaves the first `kept` of the order in v, by place as before: those up to the last of them. */
static void keep_first(item *v, item *room, int64_t n, int64_t kept) {
    memcpy(room, v, (size_t)n * sizeof *v);
    select_first(room, n, kept);
    item last = room[0];
    for (int64_t i = 1; i < kept; i++)
        if (is_before(&last, &room[i])) last = room[i];
    for (int64_t i = 0, to = 0; i < n; i++)
        if (!is_before(&last, &v[i])) v[to++] = v[i];
}

static item *sort_items(item *v, item *room, int64_t n, int64_t kept, int bytes) {
    if (kept < n / 4) {
        keep_first(v, room, n, kept);
        n = kept;
    }
    if (n > FEW) return radix(v, room, n, bytes);
    insertion(v, n);
    return v;
}

/* ---- the kernel ---- */

/* Two lists for each thread. */
static size_t workspace(const weft_node *n, const kernel_env *env) {
    return (size_t)(2 * env->threads * sort_rows_of(n->attrs, &n->in[0]->type).length) * sizeof(item);
}

/* Row `row` of the [outer, inner] rows. */
static void sort_row(const kernel_call *c, const sort_rows *r, int64_t row, item *v, item *room) {
    weft_dtype dtype = c->in[0].type.dtype;
    size_t width = dtype_bytes(dtype);
    bool descending = ((const sort_attrs *)c->attrs)->descending;
    int64_t outer = row / r->inner, inner = row % r->inner;
    int64_t from = outer * r->length * r->inner + inner, to = outer * r->kept * r->inner + inner;
    uint64_t turn = !descending ? 0 : width == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * width) - 1;
    char *values = c->out[0].data;
    int64_t *places = c->out[1].data;
    for (int64_t i = 0; i < r->length; i++)
        v[i] = (item){key_at(c->in[0].data, dtype, from + i * r->inner) ^ turn, i};
    v = sort_items(v, room, r->length, r->kept, (int)width);
    for (int64_t i = 0; i < r->kept; i++) {
        const char *x = (const char *)c->in[0].data + (from + v[i].place * r->inner) * (int64_t)width;
        memcpy(values + (to + i * r->inner) * (int64_t)width, x, width);
        places[to + i * r->inner] = v[i].place;
    }
}

static weft_status run(void *state, const kernel_call *c) {
    sort_rows r = sort_rows_of(c->attrs, &c->in[0].type);
    int64_t rows = r.outer * r.inner, threads = rows * r.length / WORTH_A_THREAD + 1;
    item *room = c->workspace;
    if (threads > c->threads) threads = c->threads;
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < threads; t++)
        for (int64_t k = rows * t / threads; k < rows * (t + 1) / threads; k++)
            sort_row(c, &r, k, room + 2 * t * r.length, room + (2 * t + 1) * r.length);
    return WEFT_OK;
}

SIMD_KERNEL(sort, .workspace = workspace, .run = run);
