#!/usr/bin/env python3
"""make_small.py - writes small.onnx beside it, which test_onnx.c and the hostile formats read: a net of a convolution, a normalization and a
linear layer with a batch that may change, weights as bytes and as numbers, a function of the file, an If whose condition is known, shapes
that are computed, metadata, and attributes of each kind. Wants the onnx package; the outcome is committed."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]


def typed(name, values, shape):
    """Numbers in a typed field, not as bytes."""
    return helper.make_tensor(name, TensorProto.FLOAT, shape, values)


def branch(name, op):
    return helper.make_graph([helper.make_node(op, ["h"], [f"{name}_out"])], name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)])


leaky = helper.make_function("own", "Leaky", ["x"], ["y"], [
    helper.make_node("Constant", [], ["zero"], value=helper.make_tensor("", TensorProto.FLOAT, [], [0.0])),
    helper.make_node("Max", ["x", "zero"], ["above"]), helper.make_node("Min", ["x", "zero"], ["below"]),
    onnx.NodeProto(op_type="LeakyRelu", input=["below"], output=["scaled"],
                   attribute=[onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)]),
    helper.make_node("Add", ["above", "scaled"], ["y"])], OPSETS[:1], ["slope"])
rng = np.random.default_rng(0)
weights = [numpy_helper.from_array((rng.integers(-4, 5, (2, 1, 2, 2)) / 4).astype(np.float32), "conv.weight"), typed("conv.bias", [0.5, -0.25], [2]),
           typed("bn.weight", [1.0, 2.0], [2]), typed("bn.bias", [0.0, 1.0], [2]), typed("bn.running_mean", [0.25, 0.5], [2]),
           typed("bn.running_var", [1.0, 4.0], [2]), numpy_helper.from_array((rng.integers(-4, 5, (3, 8)) / 4).astype(np.float32), "fc.weight"),
           typed("fc.bias", [0.0, 1.0, -1.0], [3]), numpy_helper.from_array(np.array([8]), "width"), numpy_helper.from_array(np.array(True), "is_on")]
nodes = [
    helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["c"], name="/net/conv/Conv", kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], ["n"], name="/net/bn/BatchNormalization",
                     epsilon=0.0),
    helper.make_node("Leaky", ["n"], ["h"], domain="own", name="/net/act/Leaky", slope=0.25),
    helper.make_node("If", ["is_on"], ["i"], then_branch=branch("then", "Relu"), else_branch=branch("else", "Neg")),
    helper.make_node("Shape", ["i"], ["shape"], start=0, end=1), helper.make_node("Concat", ["shape", "width"], ["flat"], axis=0),
    helper.make_node("Reshape", ["i", "flat"], ["f"]), helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["logits"], name="/fc/Gemm", transB=1)]
for key, value in (("pkg.torch.onnx.name_scopes", "['', 'fc', 'linear']"), ("pkg.onnxscript.rewriter.rule_name", "MatMulAddToGemm")):
    nodes[-1].metadata_props.add(key=key, value=value)  # as PyTorch's exporter writes them
graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 4, 4])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])], weights)
model = helper.make_model(graph, opset_imports=OPSETS, functions=[leaky], producer_name="make_small.py", ir_version=9)
onnx.checker.check_model(model)
Path(__file__).with_name("small.onnx").write_bytes(model.SerializeToString())
session = __import__("onnxruntime").InferenceSession(model.SerializeToString())
image = (np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4) - 16) / 8
print(len(model.SerializeToString()), "bytes;", session.run(None, {"image": image})[0].tolist())
