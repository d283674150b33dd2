/* vector_types.h - float4 and the like, dim3: sizes and alignments are CUDA's. */
#ifndef CUDA_HOST_VECTOR_TYPES_H
#define CUDA_HOST_VECTOR_TYPES_H

#ifdef __cplusplus
#define VECTOR1(name, type)                                                                                  \
    struct name##1 {                                                                                         \
        type x;                                                                                              \
    };
#define VECTOR2(name, type)                                                                                  \
    struct __attribute__((aligned(2 * sizeof(type)))) name##2 {                                              \
        type x, y;                                                                                           \
    };
#define VECTOR3(name, type)                                                                                  \
    struct name##3 {                                                                                         \
        type x, y, z;                                                                                        \
    };
#define VECTOR4(name, type, alignment)                                                                       \
    struct __attribute__((aligned(alignment))) name##4 {                                                     \
        type x, y, z, w;                                                                                     \
    };
#define VECTORS(name, type, alignment4)                                                                      \
    VECTOR1(name, type) VECTOR2(name, type) VECTOR3(name, type) VECTOR4(name, type, alignment4)

VECTORS(char, signed char, 4)
VECTORS(uchar, unsigned char, 4)
VECTORS(short, short, 8)
VECTORS(ushort, unsigned short, 8)
VECTORS(int, int, 16)
VECTORS(uint, unsigned, 16)
VECTORS(longlong, long long, 16)
VECTORS(ulonglong, unsigned long long, 16)
VECTORS(float, float, 16)
VECTORS(double, double, 16)
#undef VECTOR1
#undef VECTOR2
#undef VECTOR3
#undef VECTOR4
#undef VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {
    }
};

#define MAKE(name, type)                                                                                     \
    static inline name##2 make_##name##2(type x, type y) {                                                   \
        return {x, y};                                                                                       \
    }                                                                                                        \
    static inline name##3 make_##name##3(type x, type y, type z) {                                           \
        return {x, y, z};                                                                                    \
    }                                                                                                        \
    static inline name##4 make_##name##4(type x, type y, type z, type w) {                                   \
        return {x, y, z, w};                                                                                 \
    }
MAKE(char, signed char)
MAKE(uchar, unsigned char)
MAKE(short, short)
MAKE(ushort, unsigned short)
MAKE(int, int)
MAKE(uint, unsigned)
MAKE(longlong, long long)
MAKE(ulonglong, unsigned long long)
MAKE(float, float)
MAKE(double, double)
#undef MAKE
#else
typedef struct dim3 {
    unsigned x, y, z;
} dim3;
#endif
#endif
