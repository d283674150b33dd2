"""Arrays of Python in and out: NumPy, torch and all that has the buffer protocol or DLPack, without a copy where there is no need."""
from ._lib import Error, ffi, lib, word

# NumPy has no bf16: it is two bytes of an unsigned number here.
_NUMPY = {"f32": "float32", "f64": "float64", "bf16": "uint16", "f16": "float16", "i64": "int64", "i32": "int32", "u8": "uint8", "bool": "bool",
          "i8": "int8", "u16": "uint16", "u32": "uint32"}


def numpy_dtype(name):
    import numpy
    return numpy.dtype(_NUMPY[name])


def _of_torch(array):
    import torch
    if array.device.type != "cpu":
        raise Error("argument", f"a tensor on {array.device}: sessions take memory of the host, so write tensor.cpu()")
    if array.requires_grad:
        array = array.detach()
    if array.dtype == torch.bfloat16:
        return array.contiguous().view(torch.int16).numpy().view("uint16")
    return array.numpy()


def as_array(array, dtype=None):
    """A row-major NumPy array on the same memory, where that is possible. Python's numbers and lists get `dtype`."""
    import numpy
    if type(array).__module__.split(".")[0] == "torch":
        array = _of_torch(array)
    elif isinstance(array, (int, float, bool, list, tuple)):
        array = numpy.asarray(array, None if dtype is None else numpy_dtype(_word(dtype)))
        if dtype is None and array.dtype == numpy.float64:
            array = array.astype(numpy.float32)
    elif not isinstance(array, numpy.ndarray):
        array = numpy.from_dlpack(array) if hasattr(array, "__dlpack__") else numpy.asarray(array)
    return array if array.flags.c_contiguous else numpy.ascontiguousarray(array)


def _word(dtype):
    return ffi.string(lib.weft_dtype_name(word("weft_dtype", dtype))).decode()


def dtype_of(array, dtype=None):
    """The number of the element type of a NumPy array; `dtype` says that 16 bits are bf16."""
    if dtype is not None and _word(dtype) == "bf16":
        return word("weft_dtype", "bf16")
    return word("weft_dtype", str(array.dtype))


def fits(array, port, what):
    """The array as C reads it for a port, which has one type and shape."""
    array = as_array(array, port.dtype)
    if array.dtype != numpy_dtype(port.dtype):
        raise Error("type", f"{what}: it is {array.dtype}, and the graph takes {port.dtype}: convert it")
    if tuple(array.shape) != port.shape:
        raise Error("shape", f"{what}: its shape is {list(array.shape)}, and the graph takes {list(port.shape)}")
    return array
