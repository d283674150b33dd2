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
from .model import Graph, Model, Parameter, Port, Value, load, parse
from .optim import *  # noqa: F403
from .optim import NAMES, Optimizer
from .plan import Plan, passes
from .session import Session, Store
from .torch import from_torch, module_of, to_torch

_OPS = [name for name in vars(_ops) if not name.startswith("_") and name not in ("OfValues", "OfGraphs")]
globals().update({name: getattr(_ops, name) for name in _OPS})

# Names of Python's own functions (sum, max, abs ...) are here as weft.sum, and not in `from weft import *`.
__all__ = ["BATCH", "Error", "Graph", "Model", "Optimizer", "Parameter", "Plan", "Port", "Session", "Store", "Value", "load", "parse", "passes", "from_torch", "to_torch", "module_of", *NAMES,
           *(name for name in _OPS if name not in __builtins__)]
