/* element.c - elements are read and written as double, which holds every type exactly but large i64; those
 * have element_int. */
#include "graph/core/element.h"

#include <string.h>

static float bf16_to_float(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

/* Rounds to nearest even; NaN stays NaN. */
static uint16_t float_to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Exact, like the compiler's conversion. That one is a library call, which took a quarter of the time of
 * reference kernels in f16. */
static double f16_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    uint64_t sign = (uint64_t)(bits >> 15) << 63, wide;
    double d = fraction * 0x1p-24; /* below the smallest normal number */
    memcpy(&wide, &d, sizeof wide);
    if (exponent == 31) /* infinity, or a NaN, made quiet */
        wide = (uint64_t)0x7ff << 52 | (uint64_t)fraction << 42 | (uint64_t)(fraction != 0) << 51;
    else if (exponent)
        /* 1008 is the difference of the exponent biases, 1023 - 15. */
        wide = (uint64_t)(exponent + 1008) << 52 | (uint64_t)fraction << 42;
    wide |= sign;
    memcpy(&d, &wide, sizeof d);
    return d;
}

/* Rounds once, to nearest even; a NaN keeps its first bits and becomes quiet. (clang 14 lacks _Float16.) */
static uint16_t double_to_f16(double d) {
    uint64_t wide, shifted;
    memcpy(&wide, &d, sizeof wide);
    uint16_t sign = (uint16_t)(wide >> 48 & 0x8000);
    wide &= INT64_MAX;
    if (wide > (uint64_t)0x7ff << 52) return (uint16_t)(sign | 0x7e00 | (wide >> 42 & 1023));
    if (wide >= (uint64_t)(1023 + 16) << 52) return sign | 0x7c00; /* 65536 */
    if (wide < (uint64_t)(1023 - 14) << 52) {                      /* steps of 2^-24 */
        d = (sign ? -d : d) + 0x1p28;
        memcpy(&shifted, &d, sizeof shifted);
        return (uint16_t)(sign | (shifted & 2047));
    }
    wide -= (uint64_t)1008 << 52;
    return (uint16_t)(sign | (wide + ((uint64_t)1 << 41) - 1 + (wide >> 42 & 1)) >> 42);
}

static int64_t int_at(const tensor *t, int64_t p);

double element_of_any(const tensor *t, int64_t p) {
    switch (t->type.dtype) {
    case WEFT_F32:
        return ((const float *)t->data)[p];
    case WEFT_F64:
        return ((const double *)t->data)[p];
    case WEFT_BF16:
        return bf16_to_float(((const uint16_t *)t->data)[p]);
    case WEFT_F16:
        return f16_to_double(((const uint16_t *)t->data)[p]);
    default:
        return (double)int_at(t, p);
    }
}

double elements_dot(double sum, element_line a, element_line b, int64_t n) {
    if (a.t->type.dtype == WEFT_F32 && b.t->type.dtype == WEFT_F32) {
        const float *x = (const float *)a.t->data + a.place, *y = (const float *)b.t->data + b.place;
        for (int64_t k = 0; k < n; k++) sum += (double)x[k * a.step] * y[k * b.step];
        return sum;
    }
    for (int64_t k = 0; k < n; k++)
        sum += element_value(a.t, a.place + k * a.step) * element_value(b.t, b.place + k * b.step);
    return sum;
}

/* Rounds to nearest for float types, truncates for integers. */
void element_set(const tensor *t, const int64_t *at, double value) {
    int64_t p = element_place(t, at);
    switch (t->type.dtype) {
    case WEFT_F32:
        ((float *)t->data)[p] = (float)value;
        return;
    case WEFT_F64:
        ((double *)t->data)[p] = value;
        return;
    case WEFT_BF16:
        ((uint16_t *)t->data)[p] = float_to_bf16((float)value);
        return;
    case WEFT_F16:
        ((uint16_t *)t->data)[p] = double_to_f16(value);
        return;
    default:
        element_set_int(t, at, (int64_t)value);
        return;
    }
}

/* Bool is any nonzero byte. */
static int64_t int_at(const tensor *t, int64_t p) {
    switch (t->type.dtype) {
    case WEFT_I64:
        return ((const int64_t *)t->data)[p];
    case WEFT_I32:
        return ((const int32_t *)t->data)[p];
    case WEFT_U8:
        return ((const uint8_t *)t->data)[p];
    case WEFT_BOOL:
        return ((const uint8_t *)t->data)[p] != 0;
    case WEFT_I8:
        return ((const int8_t *)t->data)[p];
    case WEFT_U16:
        return ((const uint16_t *)t->data)[p];
    case WEFT_U32:
        return ((const uint32_t *)t->data)[p];
    default:
        return 0;
    }
}

int64_t element_int(const tensor *t, const int64_t *at) {
    return int_at(t, element_place(t, at));
}

void element_set_int(const tensor *t, const int64_t *at, int64_t value) {
    int64_t p = element_place(t, at);
    switch (t->type.dtype) {
    case WEFT_I64:
        ((int64_t *)t->data)[p] = value;
        return;
    case WEFT_I32:
        ((int32_t *)t->data)[p] = (int32_t)value;
        return;
    case WEFT_U8:
        ((uint8_t *)t->data)[p] = (uint8_t)value;
        return;
    case WEFT_BOOL:
        ((uint8_t *)t->data)[p] = value != 0;
        return;
    case WEFT_I8:
        ((int8_t *)t->data)[p] = (int8_t)value;
        return;
    case WEFT_U16:
        ((uint16_t *)t->data)[p] = (uint16_t)value;
        return;
    case WEFT_U32:
        ((uint32_t *)t->data)[p] = (uint32_t)value;
        return;
    default:
        return;
    }
}

/* With widths that the compiler knows memcpy is one instruction. */
void element_copy(const tensor *to, const int64_t *to_at, const tensor *from, const int64_t *from_at) {
    size_t width = dtype_bytes(to->type.dtype);
    char *target = (char *)to->data + element_place(to, to_at) * (int64_t)width;
    const char *source = (const char *)from->data + element_place(from, from_at) * (int64_t)width;
    if (width == 4)
        memcpy(target, source, 4);
    else if (width == 8)
        memcpy(target, source, 8);
    else
        memcpy(target, source, width);
}

/* The last axis runs fastest. */
bool index_next(const tensor_type *t, int64_t *at) {
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (++at[i] < t->shape[i]) return true;
        at[i] = 0;
    }
    return false;
}

/* Shapes are aligned at the last axis. */
void index_broadcast(const tensor *t, const tensor_type *out, const int64_t *at,
                     int64_t from[WEFT_MAX_NDIM]) {
    for (int k = 0; k < t->type.ndim; k++)
        from[k] = t->type.shape[k] == 1 ? 0 : at[k + out->ndim - t->type.ndim];
}

double element_broadcast(const tensor *t, const tensor_type *out, const int64_t *at) {
    int64_t from[WEFT_MAX_NDIM] = {0};
    index_broadcast(t, out, at, from);
    return element_get(t, from);
}

int64_t element_broadcast_int(const tensor *t, const tensor_type *out, const int64_t *at) {
    int64_t from[WEFT_MAX_NDIM] = {0};
    index_broadcast(t, out, at, from);
    return element_int(t, from);
}

double convert_element(weft_dtype dtype, double value) {
    int64_t at[1] = {0};
    char room[8];
    tensor t = {.data = room, .type = type_scalar(dtype)};
    element_set(&t, at, value);
    return element_get(&t, at);
}

int64_t convert_int(weft_dtype dtype, int64_t value) {
    int64_t at[1] = {0}, room;
    tensor t = {.data = &room, .type = type_scalar(dtype)};
    element_set_int(&t, at, value);
    return element_int(&t, at);
}
