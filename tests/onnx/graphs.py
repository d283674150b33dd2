#!/usr/bin/env python3
"""graphs.py - small graphs that the node cases lack: a batch that is bound after the import, and operators of older opsets.

    graphs.py [--only REGEX]

Each graph is imported with batch 1 and 2, run with batch 5, and compared with the reference of the onnx package, or with numbers of NumPy where
that reference has the later opset's meaning only. A graph of REFUSED must be refused with the words beside it; without words it must be right:
other functions of places along the batch are nodes of the graph.
"""
import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator
import weft

IMPORTED, BATCH = (1, 2), 5
NEXT = onnx.defs.onnx_opset_version() + 1  # an opset that no one knows yet


def softmax(x, axis):
    """Of opset 11 and before: axes from `axis` on are one."""
    flat = x.reshape(*x.shape[:axis], -1)
    made = np.exp(flat - flat.max(-1, keepdims=True))
    return (made / made.sum(-1, keepdims=True)).reshape(x.shape)


def hardmax(x, axis):
    flat = x.reshape(*x.shape[:axis], -1)
    return (np.arange(flat.shape[-1]) == flat.argmax(-1)[..., None]).astype(x.dtype).reshape(x.shape)


def scaled(x, scale):
    """The nearest elements of the last axis."""
    length = int(np.floor(np.float32(x.shape[-1]) * scale))
    places = np.floor(np.arange(length, dtype=np.float32) / scale).astype(int)
    return x[..., np.minimum(places, x.shape[-1] - 1)]


# (opset, graph, what it makes or None for the reference)
GRAPHS = [
    # The batch.
    (18, "(float[N,3,4] x) => (float[N,3,4] y) { y = LogSoftmax<axis=0>(x) }", None),
    (18, "(float[N,3,4] x) => (float[N,3,4] y) { y = Hardmax<axis=1>(x) }", None),
    (18, "(int32[N,3] x) => (int32[3] y) { a = Constant<value_ints=[0]>() y = ReduceMean<keepdims=0>(x, a) }", None),
    (18, "(float[N,3] x) => (float[3] y) { a = Constant<value_ints=[0]>() y = ReduceMean<keepdims=0>(x, a) }", None),
    (18, "(float[N,3] x) => (float[3] y) { a = Constant<value_ints=[0]>() y = ReduceLogSumExp<keepdims=0>(x, a) }", None),
    (18, "(float[N,3] x) => (int64[1,3] y) { y = ArgMax<axis=0>(x) }", None),
    (18, "(float[N,3] x) => (int64[N] y) { y = ArgMin<axis=1,keepdims=0,select_last_index=1>(x) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { a = Constant<value_int=0>() y = CumSum<exclusive=1>(x, a) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { a = Constant<value_int=0>() y = CumSum<reverse=1>(x, a) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { a = Constant<value_int=1>() y = CumSum<reverse=1,exclusive=1>(x, a) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { y = EyeLike<k=-1>(x) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { s = Shape(x) y = ConstantOfShape(s) }", None),
    (18, "(float[N,3] x) => (float[N,3] y) { s = Shape(x) c = ConstantOfShape<value=float[1]{2.5}>(s) d = Exp(c) y = Add(d, x) }", None),
    (18, "(float[N,3] x) => (int64[N] y) { s = Shape<start=0,end=1>(x) n = ReduceSum<keepdims=0>(s) a = Constant<value_int=0>() b = Constant<value_int=1>() y = Range(a, n, b) }", None),
    (18, "(float[N,3] x) => (float[N] y) { s = Shape<start=0,end=1>(x) t = ReduceSum<keepdims=0>(s) n = Cast<to=1>(t) a = Constant<value_float=0.0>() b = Constant<value_float=1.0>() y = Range(a, n, b) }", None),
    (18, "(float[N,3,2] x) => (float[N,2,2] y) { y = Einsum<equation=\"bij,bik->bjk\">(x, x) }", None),
    (18, "(float[N,4,4] x) => (float[N] y) { y = Det(x) }", None),
    (18, "(float[N,3,2,2] x) => (float[N,3,2,2] y) { a = Constant<value=float[3,1,1]{0.1,0.2,-0.3}>() y = PRelu(x, a) }", None),
    (18, "(float[N,3,2,2] x) => (float[N,3,2,2] y) { a = Constant<value=float[2,1]{0.1,0.2}>() y = PRelu(x, a) }", None),
    # A constant of 36 MB, which is larger than one in a model may be.
    (18, "(float[N,3000] x) => (float[N] y) { s = Constant<value_ints=[3000,3000]>() c = ConstantOfShape<value=float[1]{0.5}>(s) m = ReduceMax<keepdims=0>(c) z = ReduceSum<keepdims=0>(x) a = Constant<value_ints=[1]>() w = ReduceMean<keepdims=0>(x, a) y = Add(w, m) }", None),
    # Cuts of the batch axis at places that its length gives, and past its end.
    *((18, f"(float[N,3] x) => (float[M,3] y) {{ n = Shape<start=0,end=1>(x) o = Constant<value_ints=[{number}]>() {cut} "
           f"z = Constant<value_ints=[0]>() t = Constant<value_ints=[{step}]>() y = Slice(x, {args}, z, t) }}", None) for number, step, cut, args in (
        (1, 1, "b = Sub(n, o)", "b, n"), (0, 1, "e = Sub(n, o)", "o, e"), (-1, 1, "e = Sub(n, o)", "o, e"), (900, 1, "e = Add(n, o) b = Sub(o, o)", "b, e"),
        (1, -1, "b = Sub(n, o) e = Neg(n) f = Sub(e, o)", "b, f"), (2**31 - 1, 2, "b = Sub(o, o)", "b, o"), (2**63 - 1, 1, "b = Sub(o, o)", "b, o"), (-2**62, -1, "b = Neg(o)", "b, o"))),
    # Lengths and places in f32, as in onnxruntime and PyTorch: 20 * 2.3 is 46 there, and 3 / 0.6 is 5. The reference has f64.
    *((18, f"(float[N,1,{n}] x) => (float[N,1,M] y) {{ s = Constant<value_floats=[1.0,1.0,{scale}]>() y = Resize<mode=\"nearest\","
           "coordinate_transformation_mode=\"asymmetric\",nearest_mode=\"floor\">(x, , s) }", lambda x, scale=np.float32(scale): scaled(x, scale))
      for n in (7, 9, 13, 20, 24, 25) for scale in (0.6, 0.3, 1.2, 1.7, 2.3)),
    # Older opsets.
    (11, "(float[N,3,4] x) => (float[N,3,4] y) { y = Softmax<axis=1>(x) }", lambda x: softmax(x, 1)),
    (11, "(float[N,3,4] x) => (float[N,3,4] y) { y = Softmax(x) }", lambda x: softmax(x, 1)),
    (11, "(float[N,3,4] x) => (float[N,3,4] y) { y = Softmax<axis=-1>(x) }", lambda x: softmax(x, 2)),
    (9, "(float[N,3,4] x) => (float[N,3,4] y) { y = Softmax<axis=0>(x) }", lambda x: softmax(x, 0)),
    (11, "(float[N,3,4] x) => (float[N,3,4] y) { y = LogSoftmax<axis=1>(x) }", lambda x: np.log(softmax(x, 1))),
    (11, "(float[N,3,4] x) => (float[N,3,4] y) { y = Hardmax<axis=1>(x) }", lambda x: hardmax(x, 1)),
    (6, "(float[N,3] x) => (float[N,3] y) { y = Clip<min=-0.5,max=0.25>(x) }", lambda x: np.clip(x, -0.5, 0.25)),
    (6, "(float[N,3] x) => (float[N,3] y) { y = Clip<min=0.0>(x) }", lambda x: np.maximum(x, 0)),
    (11, "(float[N,3,4] x) => (float[N,1,4] y) { y = ReduceSum<axes=[1]>(x) }", lambda x: x.sum(1, keepdims=True)),
    (11, "(float[N,3,4] x) => (float[N] y) { y = ReduceL2<axes=[-1,1],keepdims=0>(x) }", lambda x: np.sqrt((x * x).sum((1, 2)))),
    (11, "(float[N,3] x) => (float[1,1] y) { y = ReduceMax(x) }", lambda x: x.max(keepdims=True)),
    (8, "(float[N,3] x) => (float[N,3] y) { y = Mean(x, x, x) }", lambda x: x),
    (9, "(float[N,3] x) => (bool[N,3] y) { y = Greater(x, x) }", lambda x: x > x),
    (6, "(float[N,3,4] x) => (float[N,3,4] y) { b = Constant<value=float[3]{1.0,2.0,3.0}>() y = Add<broadcast=1,axis=1>(x, b) }", lambda x: x + np.float32([[1], [2], [3]])),
    (6, "(float[N,3,4] x) => (float[N,3,4] y) { b = Constant<value=float[4]{1.0,2.0,3.0,4.0}>() y = Sub<broadcast=1>(x, b) }", lambda x: x - np.float32([1, 2, 3, 4])),
    (6, "(float[N,3,4] x, float[N,3] z) => (float[N,3,4] y) { y = Mul<broadcast=1,axis=0>(x, z) }", lambda x, z: x * z[..., None]),
    (1, "(float[N,3] x) => (float[N,3] y) { b = Constant<value=float{2.0}>() t = Tanh<consumed_inputs=[0]>(x) y = Div<broadcast=1,consumed_inputs=[0,0]>(t, b) }", lambda x: np.tanh(x) / 2),
    (5, "(float[N,3] x) => (float[N,3] y) { a = Constant<value=float[3]{0.5,-0.5,2.0}>() y = PRelu<consumed_inputs=[0,0]>(x, a) }", lambda x: np.where(x > 0, x, x * np.float32([0.5, -0.5, 2]))),
    (6, "(float[N,3] x) => (bool[N,3] y) { b = Constant<value=float[3]{0.5,-0.5,2.0}>() y = Less<broadcast=1,axis=-1>(x, b) }", lambda x: x < np.float32([0.5, -0.5, 2])),
    # What looks like attention, and is not what the kernel takes.
    (11, "(float[N,2,4,8] q, float[N,2,8,4] k, float[N,2,4,8] v) => (float[N,2,4,8] y) { s=MatMul(q,k) p=Softmax(s) y=MatMul(p,v) }", lambda q, k, v: softmax(q @ k, 1) @ v),
    (11, "(float[N,2,4,8] q, float[N,2,8,4] k, float[N,2,4,8] v) => (float[N,2,4,8] y) { s=MatMul(q,k) p=Softmax<axis=-1>(s) y=MatMul(p,v) }", lambda q, k, v: softmax(q @ k, 3) @ v),
    (18, "(float[N,2,4,8] q, float[N,2,8,4] k, float[N,2,4,8] v) => (float[1,N,2,4,8] y) { c=Constant<value=float[1,1,1,1,1]{0.3}>() r=MatMul(q,k) s=Mul(r,c) p=Softmax(s) y=MatMul(p,v) }", None),
    (18, "(float[N,4,8] q, float[N,8,4] k, float[N,4,8] v) => (float[1,N,4,8] y) { c=Constant<value=float[1,1,1,1]{0.3}>() r=MatMul(q,k) s=Mul(r,c) p=Softmax(s) y=MatMul(p,v) }", None),
    (18, "(float[1,2,4,8] q, float[1,2,8,4] k, float[1,2,4,8] v, float[N,1,4,4] m) => (float[N,2,4,8] y) { r=MatMul(q,k) s=Add(r,m) p=Softmax(s) y=MatMul(p,v) }", None),
    (18, "(float[N,1,4,8] q, float[N,1,8,4] k, float[N,1,4,8] v, float[N,3,4,4] m) => (float[N,3,4,8] y) { r=MatMul(q,k) s=Add(r,m) p=Softmax(s) y=MatMul(p,v) }", None),
    (18, "(float[N,2,4,8] q, float[N,2,8,4] k, float[N,2,4,8] v, float[1,1,1,4,4] m) => (float[1,N,2,4,8] y) { r=MatMul(q,k) s=Add(r,m) p=Softmax(s) y=MatMul(p,v) }", None),
    (18, "(float[N,4,8] x) => (float[1,N,4,8] y) { t=Constant<value_float=2.0>() e=Constant<value=float[1,1,1,1]{0.01}>() a=Constant<value_ints=[-1]>() p=Pow(x,t) m=ReduceMean(p,a) s=Add(m,e) r=Sqrt(s) i=Reciprocal(r) y=Mul(x,i) }", None),
    # Functions of a file: by overload too, and before rows of their domain.
    (18, "(float[N,3] x) => (float[N,3] y) { a=l.f(x) y=l.f:two(a) } <domain:\"l\", opset_import:[\"\":18]> f (x)=>(y) { y=Exp(x) } <domain:\"l\", overload:\"two\", opset_import:[\"\":18]> f (x)=>(y) { y=Neg(x) }", lambda x: -np.exp(x)),
    (18, "(float[N,3] x) => (float[N,3] y) { y=weft.RMSNorm(x) } <domain:\"weft\", opset_import:[\"\":18]> RMSNorm (x)=>(y) { y=Neg(x) }", lambda x: -x),
    (18, "(float[N,3] x) => (float[N,3] y) { y=ai.onnx.preview.FlexAttention(x) } <domain:\"ai.onnx.preview\", opset_import:[\"\":18]> FlexAttention (x)=>(y) { y=Neg(x) }", lambda x: -x),
    (18, "(float[N,3] x) => (float[N,3] y) { y=Selu(x) } <domain:\"\", opset_import:[\"\":18]> Selu (x)=>(y) { y=Neg(x) }", lambda x: np.where(x > 0, x, np.float32(1.6732632) * np.expm1(x)) * np.float32(1.050701)),
]
NO_LINE = "does not grow with it"
SIZE = "s = Shape<start=0,end=1>(x) f = Cast<to=1>(s) "
REFUSED = [
    # What a file computes from the batch, and no graph of Weft has.
    *((18, f"(float[N,3] x) => (float[N,3] y) {{ {SIZE} {node} y = Mul(x, r) }}", says) for node, says in (
        ("r = Sqrt(f)", NO_LINE), ("r = Reciprocal(f)", NO_LINE), ("r = Log(f)", NO_LINE), ("r = Mul(f, f)", NO_LINE),
        ("c = Constant<value_floats=[8.]>() r = Min(f, c)", NO_LINE), ("c = Constant<value_floats=[2.]>() r = Pow(c, f)", NO_LINE),
        ("c = Constant<value_ints=[4]>() b = Greater(s, c) r = Cast<to=1>(b)", NO_LINE))),
    *((18, f"(float[N,3] x) => (float[N,3] y) {{ zero = Constant<value_int=0>() one = Constant<value_int=1>() s = Shape<start=0,end=1>(x) n = Squeeze(s) "
           f"i = Range(zero, n, one) {node} a = Constant<value_ints=[1]>() u = Unsqueeze(v, a) y = Mul(x, u) }}", None) for node in (
        "f = Cast<to=1>(i) v = Sin(f)", "t = Mul(i, i) v = Cast<to=1>(t)", "c = Constant<value_int=4>() m = Mod(i, c) v = Cast<to=1>(m)")),
    (18, "(float[N,3] x) => (float[N,3] y) { y=weft.RMSNorm(x) }", "there is no such operator in Weft's table (docs/onnx.md), of domain weft"),
    (18, "(float[N,3] x) => (float[N,3] y) { y=l.f:three(x) } <domain:\"l\", opset_import:[\"\":18]> f (x)=>(y) { y=Exp(x) }", "there is no such operator"),
    (NEXT, "(float[N,3] x) => (float[N,3] y) { y=Relu(x) }", f"it is of opset {NEXT}; {NEXT - 1} is the newest that is known"),
    (18, "(float[N,3] x) => (float[N,3] y) { y=l.f(x) } <domain:\"l\", opset_import:[\"\":%d]> f (x)=>(y) { y=Exp(x) }" % NEXT, f"it is of opset {NEXT}"),
    (18, "(float[N,3] x) => (float[N,3] y) { y=Add(x) }", "an operand that it needs is left out"),
    (18, "(float[N] x) => (float[N] y) { n = Constant<value_int=30000>() t = Constant<value_int=1>() c = Cast<to=9>(t) y = Loop<body = b "
         "(int64 i, bool go, float[N] v) => (bool more, float[N] w) { more = Identity(go) p = Identity(i) q = Identity(i) r = Identity(i) w = Identity(v) }>(n, c, x) }",
     "more than 100000 nodes of known operands are computed while importing"),
    (18, "(float[N,3] x) => (float[N,3] y) { s = Size(x) n = Cast<to=1>(s) y = Clip(x, , n) }", "depends on the batch"),
    (18, "(float[N,3] x) => (float[N,3] y) { s = Size(x) n = Cast<to=1>(s) y = Pow(x, n) }", "depends on the batch"),
    (18, "(float[N,3] x) => (float[N] y) { s = Size(x) a = Constant<value_int=0>() b = Constant<value_int=1>() r = Range(a, s, b) y = Cast<to=1>(r) }", "depends on the batch"),
    (18, "(float[N,3] x) => (int64[1,3] y) { y = ArgMax<axis=0,select_last_index=1>(x) }", "follows the batch"),
    *((18, f"(float[N,3] x) => (float[M,3] y) {{ n = Shape<start=0,end=1>(x) b = Constant<value_ints=[{begin}]>() {cut} z = Constant<value_ints=[0]>() "
           "y = Slice(x, b, e, z) }", says) for begin, cut, says in (
        (0, "e = Constant<value_ints=[1000000]>()", "and may be shorter, at 1000000"), (-1000000, "e = Constant<value_ints=[4]>()", "and may be shorter, at -1000000"),
        (0, "t = Constant<value_ints=[2]>() e = Div(n, t)", "where it cuts axis 0 depends on the batch"))),
    (20, "(float[N,3] x) => (float[N,3] y) { y = Gelu<approximate=\"exact\">(x) }", "approximate is 'exact'"),
    (18, "(float[N,5,5] x) => (float[N] y) { y = Det(x) }", "4 x 4 is the largest"),
    (6, "(float[N,3] x) => (float[N,3] y) { y = Clip<min=1.0,max=0.0>(x) }", "above max"),
    (6, "(float[N,3] x) => (float[N,3] y) { b = Constant<value=float[3]{0.5,-0.5,2.0}>() y = Add(x, b) }", "broadcast is 0"),
    (6, "(float[N,3] x) => (float[N,3] y) { b = Constant<value=float[3]{0.5,-0.5,2.0}>() y = Add<broadcast=1,axis=2>(x, b) }", "from axis 2 on"),
    (6, "(float[N,3] x) => (float[N,3] y) { y = Tanh<consumed_inputs=[0]>(x) }", "'consumed_inputs' has no meaning here"),
]


def fed(model):
    random, made = np.random.default_rng(0), {}
    for port in model.graph.input:
        kind = port.type.tensor_type
        shape = [d.dim_value or BATCH for d in kind.shape.dim]
        numbers = random.standard_normal(shape) if kind.elem_type == onnx.TensorProto.FLOAT else random.integers(-9, 9, shape)
        made[port.name] = numbers.astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return made


def found(path, imported, feeds):
    model = weft.Model("graph", batch=imported)
    with weft.Onnx(str(path)) as file:
        file.graph(model, "g")
    with model.compile(threads=1, batch=BATCH).store().session() as session:
        return np.asarray(session.run("g", **feeds)["y"])


def judge(path, imported, opset, text, expected):
    """What is wrong; "" where nothing is."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')
    feeds = fed(model)
    path.write_bytes(model.SerializeToString())
    try:
        made = found(path, imported, feeds)
    except weft.Error as why:
        return "" if isinstance(expected, str) and expected in str(why) else str(why)
    if isinstance(expected, str):
        return "it is not refused"
    wanted = expected(**feeds) if expected else ReferenceEvaluator(model).run(None, feeds)[0]
    if made.shape != wanted.shape or made.dtype != wanted.dtype:
        return f"{made.dtype}{made.shape} for {wanted.dtype}{wanted.shape}"
    return "" if np.allclose(made, wanted, rtol=1e-5, atol=1e-5) else f"differs by {np.abs(made - wanted).max()}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    o = options.parse_args()
    n = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for opset, text, expected in GRAPHS + REFUSED:
            if not re.search(o.only, text):
                continue
            judged = [judge(Path(folder) / "graph.onnx", imported, opset, text, expected) for imported in IMPORTED]
            why = "; ".join(f"imported with batch {b}: {w}" for b, w in zip(IMPORTED, judged) if w)
            n, wrong = n + 1, wrong + bool(why)
            if why:
                print(f"opset {opset}: {text}: {why}", flush=True)
    print(f"{n} graphs, {wrong} wrong")
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
