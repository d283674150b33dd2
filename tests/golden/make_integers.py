#!/usr/bin/env python3
"""make_integers.py - PyTorch's answers for tests/pytorch/test_integers.c: evaluates the text at the end of each of its rows.

    python tests/golden/make_integers.py       (writes tests/golden/integers.h)

The operands a and b are [3,6], of i64 and of i32; b has no 0. A line is the row's text and "i64[3,6]: 1 2 ..." for each type.
"""
import re
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: F401, rows use it

HERE = Path(__file__).resolve().parent
NAMES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool"}
TEST = (HERE.parent / "pytorch/test_integers.c").read_text()


def numbers(name):
    """The operands stand in the test."""
    text = re.search(name + r"\[2\]\[18\] = \{\s*\{(.*?)\},\s*\{(.*?)\}\};", TEST, re.S)
    return [[int(v) for v in part.replace("\n", " ").split(",")] for part in text.groups()]


def show(t):
    shape = ",".join(map(str, t.shape))
    return f"{NAMES[t.dtype]}[{shape}]:" + "".join(f" {int(v)}" for v in t.flatten().tolist())


rows = re.findall(r"^    X\(.*, +\"(.*)\"\) *\\?$", TEST[TEST.index("define ROWS"):TEST.index("clang-format on")], re.M)
lines = ["/* made by make_integers.py */"]
for row in rows:
    answers = []
    for i, dtype in enumerate((torch.int64, torch.int32)):
        a, b = (torch.tensor(numbers(n)[i], dtype=dtype).reshape(3, 6) for n in ("numbers_a", "numbers_b"))
        answers.append(f'"{show(eval(row))}"')
    lines.append(f'{{"{row}", {{{", ".join(answers)}}}}},')
(HERE / "integers.h").write_text("\n".join(lines) + "\n")
