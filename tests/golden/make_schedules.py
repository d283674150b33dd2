#!/usr/bin/env python3
"""make_schedules.py - PyTorch's answers for tests/optimizer/test_schedules.c: what its schedulers make of a rate, a momentum and a beta
at each step, as factors; and the rates of ReduceLROnPlateau.

    python tests/golden/make_schedules.py       (writes tests/golden/schedules.h)

A row is a schedule in Weft's text, and the same one in PyTorch. `o` is an SGD with momentum or an Adam of the base numbers.
"""
import math
from pathlib import Path

import torch
from torch.optim.lr_scheduler import *  # noqa: F403

HERE = Path(__file__).resolve().parent
STEPS, LR = 40, 0.5
ROWS = """
lr | constant:0-5 | ConstantLR(o)
lr | constant,from=0.5,length=4 | ConstantLR(o, 0.5, 4)
lr | linear:0-5 | LinearLR(o)
lr | linear:0-12,from=0.1,to=0.8 | LinearLR(o, 0.1, 0.8, 12)
lr | linear:0-10,from=1,to=0 | LinearLR(o, 1, 0, 10)
lr | exponential,gamma=0.9 | ExponentialLR(o, 0.9)
lr | step,period=4 | StepLR(o, 4)
lr | step,period=7,gamma=0.5 | StepLR(o, 7, 0.5)
lr | multi_step,milestones=8+11 | MultiStepLR(o, [8, 11])
lr | multi_step,milestones=1+2+30,gamma=0.7 | MultiStepLR(o, [1, 2, 30], 0.7)
lr | polynomial:0-5 | PolynomialLR(o)
lr | polynomial:0-17,power=2.5 | PolynomialLR(o, 17, 2.5)
lr | cosine:0-40 | CosineAnnealingLR(o, 40)
lr | cosine,length=12,to=0.1 | CosineAnnealingLR(o, 12, 0.1 * LR)
lr | cosine_restarts,period=7 | CosineAnnealingWarmRestarts(o, 7)
lr | cosine_restarts,period=3,period_mult=2,to=0.2 | CosineAnnealingWarmRestarts(o, 3, 2, 0.2 * LR)
lr | cosine_restarts,period=1,period_mult=3 | CosineAnnealingWarmRestarts(o, 1, 3)
lr | one_cycle:0-40 | OneCycleLR(o, LR, 40)
lr | one_cycle:0-40,linear,share=0.4 | OneCycleLR(o, LR, 40, pct_start=0.4, anneal_strategy="linear")
lr | one_cycle:0-40,three_phase | OneCycleLR(o, LR, 40, three_phase=True)
lr | one_cycle:0-40,from=0.1,to=0.0001 | OneCycleLR(o, LR, 40, div_factor=10, final_div_factor=1000)
momentum | one_cycle:0-40,of=momentum | OneCycleLR(o, LR, 40)
momentum | one_cycle:0-40,of=momentum,three_phase,linear | OneCycleLR(o, LR, 40, three_phase=True, anneal_strategy="linear")
beta | one_cycle:0-40,of=momentum | OneCycleLR(o, LR, 40)
lr | linear:0-5,from=0.1 cosine:5-25,replaces | SequentialLR(o, [LinearLR(o, 0.1), CosineAnnealingLR(o, 20)], [5])[:26]
lr | exponential:0-6,gamma=0.9 step:6-,period=3,replaces | SequentialLR(o, [ExponentialLR(o, 0.9), StepLR(o, 3)], [6])
lr | constant:0-4,from=0.1 exponential:4-9,gamma=0.8,replaces multi_step:9-,milestones=5+9,replaces | SequentialLR(o, [ConstantLR(o, 0.1, 4), ExponentialLR(o, 0.8), MultiStepLR(o, [5, 9])], [4, 9])
lr | constant,from=0.1,length=4 exponential,gamma=0.9 | ChainedScheduler([ConstantLR(o, 0.1, 4), ExponentialLR(o, 0.9)])
lr | linear:0-6,from=0.01 multi_step,milestones=10+20 | ChainedScheduler([LinearLR(o, 0.01, total_iters=6), MultiStepLR(o, [10, 20])])
lr | constant,from=1,warmup=5 | LambdaLR(o, lambda t: min(1, (t + 1) / 5))
lr | exponential:0-8,from=0.001 | LambdaLR(o, lambda t: 0.001 ** (1 - min(t, 8) / 8))
lr | linear,length=4,from=0.1 step,period=5,gamma=0.5 constant:30-,from=0.25 | LambdaLR(o, lambda t: min(1, 0.1 + 0.9 * t / 4) * 0.5 ** (t // 5) * (0.25 if t >= 30 else 1))
lr | cosine:10-30,warmup=5,to=0.1 | LambdaLR(o, lambda t: 1 if t < 10 else (t - 9) / 5 if t < 15 else 0.1 + 0.45 * (1 + math.cos(math.pi * min(t - 15, 15) / 15)))
lr | multi_step,by_epoch,milestones=2+5 | MultiStepLR(o, [2, 5])
lr | constant:0-5,from=0.1 step,period=8 | LambdaLR(o, lambda t: (0.1 if t < 5 else 1) * 0.1 ** (t // 8))
lr | linear:0-5,from=0.01 step,period=8 | LambdaLR(o, lambda t: (1 - (1 - min(t, 5) / 5) * (1 - 0.01)) * 0.1 ** (t // 8))
lr | exponential:0-5,from=0.01 step,period=8 | LambdaLR(o, lambda t: 0.01 ** (1 - min(t, 5) / 5) * 0.1 ** (t // 8))
lr | polynomial:0-12,power=0.7,to=0.1 | LambdaLR(o, lambda t: (1 - 0.1) * (1 - min(t, 12) / 12) ** 0.7 + 0.1)
lr | cosine:9-12,to=0.1 | LambdaLR(o, lambda t: annealing_cos(1, 0.1, max(0, min(t, 12) - 9) / 3))
lr | cosine:0-5,to=0.1 cosine:5-15,replaces,from=0.73,to=0.1 cosine:15-30,replaces,from=0.37,to=0.1 | LambdaLR(o, lambda t: cosine_restart(min(t, 29), [5, 10, 15], [1, 0.7, 0.3], 0.1))[:30]
lr | cosine:0-16,from=1,to=10 cosine:16-40,replaces,from=10,to=0.0001 | LambdaLR(o, lambda t: annealing_cos(1, 10, t / 16) if t < 16 else annealing_cos(10, 1e-4, (t - 16) / 24))
lr | linear:0-12,from=1,to=0.01 | LambdaLR(o, lambda t: 1 + (0.01 - 1) * min(t, 12) / 12)
weight_decay | cosine:0-40,of=weight_decay,to=10 | LambdaLR(o, lambda t: 10 - 9 * 0.5 * (1 + math.cos(math.pi * t / 40)))
"""
PLATEAUS = """
{0} | {}
{.patience = 2} | patience=2
{.patience = -1, .cooldown = 3, .factor = 0.5} | patience=0, cooldown=3, factor=0.5
{.max = true, .patience = 1, .min_lr = 0.01} | mode="max", patience=1, min_lr=0.01
{.absolute = true, .threshold = 0.3, .patience = 1} | threshold_mode="abs", threshold=0.3, patience=1
{.max = true, .absolute = true, .threshold = 0.05, .patience = -1, .eps = 0.02} | mode="max", threshold_mode="abs", threshold=0.05, patience=0, eps=0.02
{.threshold = 0.2, .patience = 3, .factor = 0.9} | threshold=0.2, patience=3, factor=0.9
"""


def annealing_cos(start, end, factor, weight=1):
    """MMCV's, as the curves of LambdaLR above are of its policies."""
    return end + 0.5 * weight * (start - end) * (math.cos(math.pi * factor) + 1)


def cosine_restart(t, periods, weights, to):
    """MMCV's policy CosineRestart."""
    i = 0
    while t >= sum(periods[:i + 1]):
        i += 1
    return annealing_cos(1, to, (t - sum(periods[:i])) / periods[i], weights[i])


def metric(i):
    """Falls, rises and stays; tests/optimizer/test_schedules.c has the same."""
    return 1 + ((i * 7) % 5) / 4 - min(i, 12) / 16


def optimizer(of):
    parameter = [torch.nn.Parameter(torch.zeros(1))]
    return torch.optim.Adam(parameter, LR, (0.95, 0.999)) if of == "beta" else torch.optim.SGD(parameter, LR, 0.95)


def number(o, of):
    group = o.param_groups[0]
    return group["momentum"] / 0.95 if of == "momentum" else group["betas"][0] / 0.95 if of == "beta" else group["lr"] / LR


def curve(of, code):
    o = optimizer(of)
    code, _, most = code.partition("[:") if code.endswith("]") and "[:" in code else (code, "", "")
    s = eval(code, {**globals(), "o": o})
    factors = []
    for _ in range(int(most[:-1]) if most else STEPS):
        factors.append(number(o, of))
        if len(factors) < STEPS:
            o.step()
            s.step()
    return factors


def rates(arguments):
    o = optimizer("lr")
    s = eval(f"ReduceLROnPlateau(o, {arguments})" if arguments != "{}" else "ReduceLROnPlateau(o)", {**globals(), "o": o})
    list = []
    for i in range(60):
        s.step(metric(i))
        list.append(o.param_groups[0]["lr"])
    return list


def main():
    out = ["/* made by make_schedules.py */", "#ifdef SCHEDULE"]
    for row in ROWS.strip().splitlines():
        of, text, code = (part.strip() for part in row.split(" | "))
        values = curve(of, code)
        of = {"beta": "momentum"}.get(of, of)
        out.append(f'SCHEDULE({of.upper()}, "{text}", {", ".join(repr(float(v)) for v in values)})')
    out += ["#endif", "#ifdef PLATEAU"]
    for row in PLATEAUS.strip().splitlines():
        fields, arguments = (part.strip() for part in row.split(" | "))
        out.append(f'PLATEAU(({fields}), {", ".join(repr(v) for v in rates(arguments))})'.replace("({", "((weft_plateau){"))
    out.append("#endif")
    (HERE / "schedules.h").write_text("\n".join(out) + "\n")


main()
