"""ONNX files as graphs of a model, and graphs as ONNX files.

    m = weft.Model("resnet18", batch=2)
    file = weft.Onnx("resnet18.onnx")
    file.graph(m, "predict")
    file.weights("resnet18.safetensors")

    weft.export_onnx(m.graphs["predict"], "resnet18.onnx", store)
"""
import os

from ._arrays import as_array
from ._build import BATCH, place
from ._handles import Handle
from ._lib import NULL, call, ffi, lib, make, string, text, word


class Onnx(Handle):
    """An ONNX file that is open for reading."""

    def __init__(self, path):
        super().__init__(make(lib.weft_onnx_open, text(path), NULL), lib.weft_onnx_close)

    def graph(self, model, name="predict", train=False, axes=None, constants=None, head=None, batch_norm_eval=False):
        """Builds the file's graph as graph `name` of a model.

        axes: {"sequence": 128}, lengths of named axes; "batch" is the model's batch
        constants: {"shape": array}, inputs that are constants
        head: ("logits", 10), a new linear layer of 10 results in the place of the one that makes a value
        batch_norm_eval: norms of a graph that trains use the running statistics
        """
        keep = []
        made = ffi.new("weft_onnx_options *")
        made.batch_norm_eval = batch_norm_eval
        if head is not None:
            keep.append(text(head[0]))
            made.head, made.head_length = keep[-1], head[1]
        made.n_axes, made.axes = _axes(axes or {}, keep)
        made.n_constants, made.constants = _constants(constants or {}, keep)
        lib.weft_model_at(model.pointer, *place())
        pointer = make(lib.weft_onnx_graph, self.pointer, model.pointer, text(name), lib.WEFT_TRAIN if train else lib.WEFT_EVAL, made)
        self._model = model
        return model._graph(pointer)

    def value(self, name):
        """The value that the file calls so, in the graph that was built last; None: it has become part of a constant."""
        pointer = lib.weft_onnx_value(self.pointer, text(name))
        return None if pointer == NULL else self._model._graph(lib.weft_value_graph(pointer))._value(pointer)

    def notes(self):
        """What a user who trains should know of the file, of which a graph has been built, a line each."""
        found = []
        while (note := lib.weft_onnx_note(self.pointer, len(found))) != NULL:
            found.append(string(note))
        return found

    def weights(self, path):
        """Writes the initial values of the parameters of all graphs built so far as safetensors."""
        call(lib.weft_onnx_weights, self.pointer, text(path))


def export_onnx(graph, path, weights, fixed_batch=False, external_data=False, random_inputs=False):
    """Writes a graph that trains nothing as an ONNX file of opset 21.

    weights: a Store, or the path of a safetensors file
    fixed_batch: lengths are numbers; else the file takes any batch
    external_data: values go to a file PATH.data, as they do anyway above 2 GB
    random_inputs: random_normal and random_uniform become inputs, by scope and op
    """
    made = ffi.new("weft_onnx_export_options *")
    made.fixed_batch, made.external_data, made.random_inputs = fixed_batch, external_data, random_inputs
    store = weights.pointer if isinstance(weights, Handle) else NULL
    file = text(os.fspath(weights)) if store == NULL else NULL
    made.weights = file
    call(lib.weft_onnx_export, graph.pointer, store, text(os.fspath(path)), made)


def _axes(axes, keep):
    made = ffi.new("weft_onnx_axis[]", len(axes) or 1)
    for i, (name, length) in enumerate(axes.items()):
        keep.append(text(name))
        made[i].name, made[i].length = keep[-1], BATCH if length == "batch" else length
    keep.append(made)
    return len(axes), made


def _constants(constants, keep):
    made = ffi.new("weft_onnx_constant[]", len(constants) or 1)
    for i, (name, value) in enumerate(constants.items()):
        array, dtype = as_array(value, None, f"constant {name}")
        keep += [text(name), array, ffi.from_buffer(array) if array.size else ffi.new("char[1]")]
        made[i].name, made[i].data, made[i].ndim, made[i].dtype = keep[-3], keep[-1], array.ndim, word("weft_dtype", dtype)
        made[i].shape[0:array.ndim] = list(array.shape)
    keep.append(made)
    return len(constants), made
