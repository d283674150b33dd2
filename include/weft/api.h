/* api.h - the version of this interface, and the mark of what belongs to it.
 *
 * The version stands here and nowhere else: CMake, pkg-config and the packages read it from these lines. While the major
 * number is 0 a new minor number may change the interface; the shared library's name has both (libweft.so.0.1).
 */
#ifndef WEFT_API_H
#define WEFT_API_H

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/* One number to compare: #if WEFT_VERSION >= WEFT_VERSION_OF(0, 2, 0) */
#define WEFT_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define WEFT_VERSION                         WEFT_VERSION_OF(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)

/* Stands before each function of the public headers. The library is compiled with hidden visibility, so that it exports
 * these and no other. */
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": the version of the library that the program runs with, which may be newer than the headers it was compiled with. */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
