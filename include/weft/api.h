/** @file
 * api.h - the version of this interface, and the mark of public functions.
 *
 * The version is written here and nowhere else: CMake, pkg-config and the packages read it from these lines.
 * While the major number is 0 a new minor number may change the interface, so the shared library's name has
 * both (libweft.so.0.1).
 */
#ifndef WEFT_API_H
#define WEFT_API_H

/** First number of these headers' version. */
#define WEFT_VERSION_MAJOR 0
/** Second number of these headers' version. */
#define WEFT_VERSION_MINOR 1
/** Third number of these headers' version. */
#define WEFT_VERSION_PATCH 0

/** A version as one number to compare: `#if WEFT_VERSION >= WEFT_VERSION_OF(0, 2, 0)`. */
#define WEFT_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/** The version of these headers as one number. */
#define WEFT_VERSION WEFT_VERSION_OF(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)

/** Marks each function of the public headers. The library is compiled with hidden visibility and exports only
 * these. */
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the library that the program runs with, as "0.1.0". It may be newer than the headers that
 * the program was compiled with. The text is static. */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
