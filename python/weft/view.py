"""Pictures of models and plans, by graphtool."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ._lib import Error
from ._words import of_graphtool

# Options of weft_compile_options, by their names in graphtool.
OPTIONS = {"batch": "batch", "accumulate": "accumulate", "precision": "dtype", "device": "device", "threads": "threads", "isa": "isa", "world": "world",
           "rank": "rank", "strategy": "strategy", "zero": "zero", "shard": "shard", "bucket_cap_mb": "bucket-cap-mb", "flow": "flow", "graph": "graph"}


class Picture:
    """An SVG picture: a notebook shows it, save() writes it."""

    def __init__(self, svg):
        self.svg = svg

    def _repr_svg_(self):
        return self.svg

    def save(self, path):
        Path(path).write_text(self.svg)


def graphtool():
    """The program: that of the package, or the first in PATH."""
    beside = Path(__file__).parent / "bin" / "graphtool"
    found = str(beside) if beside.exists() else shutil.which("graphtool")
    if not found:
        raise Error("unsupported", "pictures are drawn by graphtool, which is not in PATH")
    return found


def draw(model, view, graph=None, options=None, depth=None, max_nodes=None):
    given = {OPTIONS[k]: v for k, v in (options or {}).items() if k in OPTIONS}
    given |= {"view": view, "depth": depth, "max-nodes": max_nodes, "type": "svg"} | ({"graph": graph} if graph else {})
    with tempfile.TemporaryDirectory() as folder:
        binary, picture = os.path.join(folder, "model.bin"), os.path.join(folder, "picture.svg")
        model.save(binary)
        done = subprocess.run([graphtool(), "dot", binary, "-o", picture] + [f"--{k}={v}" for k, v in given.items() if v is not None],
                              capture_output=True, text=True)
        if done.returncode:
            raise Error("argument", of_graphtool(done.stderr).replace(binary, model.name))
        return Picture(Path(picture).read_text())
