/* types.h - integers that Weft only moves (i8, u16, u32), or takes in some ops only (u8): they are
 * computed as i64 and cut back to their bits, which is what arithmetic modulo 2^n makes of them. */
#ifndef WEFT_INTERCHANGE_ONNX_IMPORT_TYPES_H
#define WEFT_INTERCHANGE_ONNX_IMPORT_TYPES_H

#include "interchange/onnx/import/import.h"

bool onnx_is_real(const weft_value *x);    /* of floating point; false for NULL */
bool onnx_is_integer(const weft_value *x); /* of any width, bool not; false for NULL */
/* x in a type that ops compute with: x itself, or as i64. */
weft_value *onnx_wide(weft_value *x);
/* x as another type, or x itself where it has that type. */
weft_value *onnx_as(weft_value *x, weft_dtype dtype);
/* Integers and bool as f64, which has all of them up to 2^53. */
weft_value *onnx_as_real(weft_value *x);
/* The type that an attribute names, or `otherwise` where it is left out; false after an error. */
bool onnx_dtype_of(onnx_call *c, const char *attribute, weft_dtype otherwise, weft_dtype *dtype);
/* The type of operand i, which need not be a value of the graph; false after an error. */
bool onnx_operand_type(onnx_call *c, int i, tensor *type);

#endif
