/* scopes.h - WEFT_SCOPE left early in languages other than GNU C: in C++ (scopes.cpp) and in C without GNU
 * attributes. */
#ifndef WEFT_TEST_SCOPES_H
#define WEFT_TEST_SCOPES_H

#include "weft/weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each builds linear "fc" in scope "outer" over "inner" and leaves both from inside. */
weft_value *scopes_return_cpp(weft_value *x);
weft_value *scopes_break_cpp(weft_value *x); /* out of an inner loop, then out of the scope */
weft_value *scopes_throw_cpp(weft_value *x);
weft_value *scopes_return_plain(weft_value *x);
weft_value *scopes_stay_plain(weft_value *x);

#ifdef __cplusplus
}
#endif
#endif
