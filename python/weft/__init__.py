"""Weft: static graphs that are compiled to a plan, which you read before the first step runs.

    m = weft.Model("net", batch=64)
    g = m.graph("train", train=True)
    x = g.input("image", "f32", ["batch", 784])
    loss = weft.cross_entropy(x.linear(128, "fc1").relu().linear(10, "fc2"), g.input("label", "i64", ["batch"]))
    m.minimize(loss, optimizer=weft.Adam(1e-3))
    plan = m.compile()
    with plan.store(seed=1).session() as s:
        s.run("train", image=images, label=labels)
"""
from . import _ops
from ._build import BATCH
from ._lib import Error, __version__
from .comm import Comm, world
from .model import Graph, Model, Parameter, Port, Value, load, parse
from .onnx import Onnx, export_onnx
from .optim import LAMB, LARS, NAMES, Lion, Muon, NAdam, Optimizer, RAdam, RMSprop, Rprop
from .optim import ASGD, SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, AMSGrad
from .own import OpSet, call_op, define_optimizer
from .plan import Plan, passes
from .session import Session, Store
from .torch import from_torch, module_of, to_torch
from .train import Evaluator, Hook, Source, Tally, Trainer, arrays, data, evaluators, hooks, samples

_OPS = [name for name, made in vars(_ops).items() if getattr(made, "__module__", "") == _ops.__name__ and not isinstance(made, type)]
globals().update({name: getattr(_ops, name) for name in _OPS if name not in ("rank", "world")})

# Names of Python's own functions (sum, max, abs ...) are here as weft.sum, and not in `from weft import *`.
__all__ = ["BATCH", "Comm", "Error", "Evaluator", "Graph", "Hook", "Model", "Onnx", "OpSet", "Optimizer", "Parameter", "Plan", "Port", "Session", "Source", "Store", "Tally",
           "Trainer", "Value", "arrays", "call_op", "data", "define_optimizer", "evaluators", "export_onnx", "from_torch", "hooks", "load", "module_of", "parse", "passes", "samples", "to_torch", "world", *NAMES,
           *(name for name in _OPS if name not in __builtins__)]
