"""weft.from_torch: 27 small modules of the list judged by f64, and what graphs of one model share. Skipped where torch is not here."""
import contextlib
import copy
import io
import logging
import os
import sys
import traceback
import unittest
import warnings

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)

import numpy as np
import weft

import torch_judge
import torch_models
import torch_own

HERE = os.path.basename(__file__)
SMALL = [r for r in torch_models.ROWS if r.small]


class Judged(unittest.TestCase):
    """A test for each small row: made below."""


def judged(row):
    def test(self):
        missing = torch_models.missing([row])
        if missing:
            self.skipTest(f"{row.name} needs {missing}")
        verdict = torch_judge.judge(row)
        self.assertEqual((verdict.status, verdict.why, verdict.beyond), ("converts", "", {}))
    return test


for _row in SMALL:
    setattr(Judged, f"test_{_row.name}", judged(_row))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.drop, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Linear(4 * 36, 5)

    def forward(self, image):
        return self.fc(self.drop(torch.relu(self.bn(self.conv(image)))).flatten(1))


class Trained(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, label):
        return nn.functional.cross_entropy(self.net(image), label)


class Evaluated(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        return self.net(image)


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).square().mean()


class Empties(nn.Module):
    """Values without elements, as programs make them: caches, pieces and means of nothing."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.register_buffer("cache", torch.zeros(0, 4), persistent=False)

    def forward(self, x):
        y = self.fc(x)
        none = y[:, 4:4]
        joined = torch.cat([y.new_zeros(y.shape[0], 0), y, none, torch.zeros(0)[None].expand(y.shape[0], 0)], 1)
        rows = torch.cat([self.cache, y])
        mean = none.mean(1)
        mean = torch.where(torch.isnan(mean), y[:, 0], mean)
        first, nothing, last = y.split([1, 0, 3], 1)
        ones = nothing.prod(1) + none.sum(1) + none.flatten(1).sum() + (none @ none.T).sum(1)
        keys = y[:, None, :0, None].expand(-1, 1, 0, 5)
        attended = nn.functional.scaled_dot_product_attention(y[:, None, :, None].expand(-1, 1, 4, 5), keys, keys)
        sums = torch.arange(4, 4).sum() + torch.cat([first, last, nothing], 1).sum(1)
        return joined * 2, rows, mean, ones, attended.flatten(1) + y.sum(1, keepdim=True), sums, none.any(1).float() + none.all(1).float()


def image(n=8):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(n))


def train_and_eval(dynamic=None):
    torch.manual_seed(3)
    net, model = Net(), weft.Model("net", batch=8)
    label = torch.arange(8) % 5
    model.from_torch("train", Trained(net), (image(), label), minimize=weft.SGD(0.1), dynamic=dynamic)
    model.from_torch("predict", Evaluated(net), (image(),), train=False, dynamic=dynamic and {"image": {0: "batch"}})
    return net, model, label


class Graphs(unittest.TestCase):
    def test_train_and_eval_share_parameters_and_statistics(self):
        net, model, label = train_and_eval()
        self.assertEqual(sorted(model.parameters()), sorted(f"net/{n.replace('.', '/')}" for n in net.state_dict() if "num_batches" not in n))
        plan = model.compile()
        store = plan.store()
        store.load_state_dict(Trained(net).state_dict())
        with store.session() as s:
            s.run("train", image=image(), label=label)
        weft.to_torch(store, Trained(net), steps=1)
        self.assertEqual(int(net.bn.num_batches_tracked), 1)
        with torch.no_grad():
            expected = net.eval()(image())
        made = weft.module_of(store, "predict")(image())
        torch.testing.assert_close(made, expected, rtol=1e-5, atol=1e-6)
        self.assertFalse(np.allclose(store["net/bn/running_mean"], 0))

    def test_dropout_drops_in_training_alone(self):
        _, model, _ = train_and_eval()
        self.assertIn("dropout", model.compile().text())

    def test_a_dynamic_axis_is_the_batch(self):
        net, model, _ = train_and_eval({"image": {0: "batch"}, "label": {0: "batch"}})
        plan = model.compile(batch=3)
        store = plan.store()
        store.load_state_dict(Trained(net).state_dict())
        with torch.no_grad():
            torch.testing.assert_close(weft.module_of(store, "predict")(image(3)), net.eval()(image(3)), rtol=1e-5, atol=1e-6)

    def test_values_may_have_no_elements(self):
        torch.manual_seed(4)
        for dynamic in (None, {"x": {0: "batch"}}):
            net, model = Empties(), weft.Model("empties", batch=8)
            model.from_torch("g", net, (torch.randn(8, 6),), dynamic=dynamic)
            for batch in (8, 3) if dynamic else (8,):
                store = model.compile(batch=batch).store()
                store.load_state_dict(net.state_dict())
                x = torch.randn(batch, 6)
                with torch.no_grad():
                    torch.testing.assert_close(tuple(weft.module_of(store, "g")(x)), net(x), rtol=1e-5, atol=1e-6)

    def test_a_number_is_an_axis_of_length_one(self):
        for name, forward in (("unfold", lambda s, x: x.sum().unfold(0, 1, 1) * 2), ("index_fill", lambda s, x: x.sum().index_fill(0, torch.tensor(0), 2.5)),
                              ("index_copy", lambda s, x: x.sum().index_copy(0, torch.tensor([0]), x[0, :1])), ("of rows", lambda s, x: x.index_fill(1, torch.tensor(1), 2.5))):
            module, x, model = Fn(forward), torch.randn(4, 3), weft.Model("m")
            model.from_torch("g", module, (x,))
            with self.subTest(name), model.compile().store().session() as s:
                np.testing.assert_allclose(s.run("g", x=x)["output"], module(x), rtol=1e-5)

    def test_arguments_may_be_tuples_lists_and_dicts(self):
        def each(examples):
            return sum(each(v) for v in (examples.values() if isinstance(examples, dict) else examples)) if isinstance(examples, (tuple, list, dict)) else examples

        batch = {0: "batch"}
        for name, x, axes, names in (
                ("tuple", (torch.randn(4, 3), torch.randn(4, 3)), (batch, batch), ["x_0", "x_1"]), ("list", [torch.randn(4, 3), torch.ones(3)], [{-2: "batch"}, None], ["x_0", "x_1"]),
                ("dict", {"a": torch.randn(4, 3), "b": (np.ones((4, 3), "f4"),)}, {"a": batch, "b": [batch]}, ["x_a", "x_b_0"])):
            model = weft.Model("m")
            graph = model.from_torch("g", Fn(lambda s, x: each(x) * 2), (x,), dynamic={"x": axes})
            self.assertEqual([p.name for p in graph.inputs()], names)
            given = {p.name: np.full((5, 3) if p.has_batch else p.shape, i + 1, "f4") for i, p in enumerate(graph.inputs())}
            with self.subTest(name), model.compile(batch=5).store().session() as s:
                np.testing.assert_array_equal(s.run("g", **given)["output"], np.full((5, 3), 6, "f4"))

    def test_gradients_go_past_what_has_no_elements(self):
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Empties()

            def forward(self, x):
                return sum(o.square().mean() for o in self.net(x))

        torch.manual_seed(5)
        step, x, model = Step(), torch.randn(8, 6), weft.Model("empties", batch=8)
        model.from_torch("train", step, (x,), minimize=weft.SGD(0.1), dynamic={"x": {0: "batch"}})
        store = model.compile().store()
        store.load_state_dict(step.state_dict())
        with store.session() as s:
            s.run("train", x=x)
        step(x).backward()
        for name, p in step.named_parameters():
            np.testing.assert_allclose(store[name.replace(".", "/")], (p - 0.1 * p.grad).detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)

    def test_a_gan_is_two_graphs_of_one_model(self):
        d, g = torch_own.DStep(), torch_own.GStep()
        g.generator, g.discriminator = d.generator, d.discriminator
        model = weft.Model("gan")
        model.from_torch("d_step", d, (torch.randn(8, 3, 32, 32),), minimize={"discriminator": weft.Adam(2e-4, beta1=0.5)})
        model.from_torch("g_step", g, (torch.randn(8, 16, 1, 1),), minimize={"generator": weft.Adam(2e-4, beta1=0.5)})
        store = model.compile().store()
        store.load_state_dict(d.state_dict())
        before = store.state_dict()
        with store.session() as s:
            s.run("d_step", image=torch.randn(8, 3, 32, 32))
            moved = {n.split(".")[0] for n, v in store.state_dict().items() if "running" not in n and not np.array_equal(v, before[n])}
            self.assertEqual(moved, {"discriminator"})
            s.run("g_step", z=torch.randn(8, 16, 1, 1))
        weft.to_torch(store, g)

    def test_frozen_parameters_stay(self):
        module = torch_own.TeacherStudent()
        model = weft.Model("dino")
        model.from_torch("train", module, (torch.randn(8, 3, 16, 16),), minimize=weft.SGD(0.1))
        self.assertTrue(model.parameters()["teacher/0/weight"].is_frozen)
        self.assertFalse(model.parameters()["student/0/weight"].is_frozen)

    def test_tied_weights_are_one_parameter(self):
        module = torch_own.Tied()
        model = weft.Model("tied")
        model.from_torch("train", module, (torch.zeros(8, 7, dtype=torch.int64),))
        self.assertEqual([p for p in model.parameters() if "weight" in p], ["embedding/weight", "fc/weight"])
        store = model.compile().store()
        store.load_state_dict(module.state_dict())
        other = torch_own.Tied()
        weft.to_torch(store, other)
        self.assertTrue(torch.equal(other.out.weight, module.out.weight))

    def test_numbers_that_follow_from_the_batch(self):
        losses = {
            "a mean by hand": lambda y: y.square().sum() / y.shape[0],
            "batchmean": lambda y: nn.functional.kl_div(y.log_softmax(1), y.softmax(1).detach().flip(1), reduction="batchmean"),
            "elements": lambda y: y.abs().sum() / y.numel(),
            "pairs": lambda y: (y @ y.T).sum() / (y.shape[0] * (y.shape[0] - 1)) + y.shape[0],
            "a root": lambda y: y.sum() / y.shape[0] ** 0.5,
            "a product": lambda y: y.square().sum() * (1 / y.shape[0]),
            "eye": lambda y: ((y @ y.T) * (1 - torch.eye(y.shape[0]))).square().mean(),
            "spread": lambda y: y.var(0).sum() + y.std() + y.var() + torch.var_mean(y, 1)[0].sum() + y.std(1, unbiased=False).sum(),
        }
        for name, loss in losses.items():
            class Step(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(4, 3)

                def forward(self, x):
                    return loss(self.fc(x))

            torch.manual_seed(2)
            module, model, x = Step(), weft.Model("m"), torch.randn(6, 4)
            model.from_torch("train", module, (torch.randn(8, 4),), dynamic={"x": {0: "batch"}}, minimize=weft.SGD(0.1))
            module(x).backward()
            with self.subTest(name), model.compile(batch=6, manual=True).store().session() as s:
                np.testing.assert_allclose(s.run("train", x=x)["output"], module(x).detach(), rtol=2e-6)
                np.testing.assert_allclose(s.gradient("train", "fc/weight"), module.fc.weight.grad, rtol=1e-5, atol=1e-6)

    def test_a_branch_whose_condition_is_known_is_the_one_that_is_taken(self):
        class Branches(nn.Module):
            def __init__(self, flag):
                super().__init__()
                self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
                self.register_buffer("flag", torch.tensor(flag))

            def forward(self, x):
                y = torch.cond(self.flag.logical_not(), lambda x: self.first(x).tanh(), lambda x: self.second(x).relu() * 2, (x * 1.5,))
                return y.square().sum()

        for flag, taken in ((False, "first"), (True, "second")):
            torch.manual_seed(1)
            module, x, model = Branches(flag), torch.randn(3, 4), weft.Model("branches")
            model.from_torch("train", module, (x,), minimize=weft.SGD(0.1))
            self.assertEqual(sorted(model.parameters()), [f"{taken}/bias", f"{taken}/weight"])
            module(x).backward()
            with model.compile(manual=True).store().session() as s:
                self.assertAlmostEqual(float(s.run("train", x=x)["output"]), float(module(x).detach()), places=5)
                np.testing.assert_allclose(s.gradient("train", f"{taken}/weight"), getattr(module, taken).weight.grad, rtol=1e-5, atol=1e-6)

    def test_stores_begin_with_the_modules_values(self):
        net, model, label = train_and_eval()
        with torch.no_grad():
            net.bn.running_mean.fill_(0.3)
        data = {"image": image().numpy(), "label": label.numpy()}
        for store in (model.compile().store(seed=5), weft.Trainer(model, train=data, batch=8).store):
            for name, tensor in Trained(net).state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    np.testing.assert_array_equal(store[name.replace(".", "/")], tensor.numpy(), err_msg=name)

    def test_a_network_that_was_trained_before(self):
        """Statistics and weights of norms that are not those of a new module: fine-tuning, in both orders of graphs, within autocast, and by to_torch()."""
        def half(s, image):
            with torch.autocast("cpu", torch.bfloat16):
                return s.net(image).float()

        for first in (True, False):
            for module in (Evaluated, lambda net: Fn(half, net=net)):
                torch.manual_seed(4)
                net = Net()
                net.drop.p = 0.0
                for i in range(3):
                    net(3 * image(8 + i) + 1)
                with torch.no_grad():
                    net.bn.weight.uniform_(0.5, 2)
                    net.bn.bias.normal_()
                model = weft.Model("net", batch=8)
                for train in (first, not first):
                    model.from_torch("train" if train else "predict", module(net), (image(),), train=train)
                store = model.compile().store()
                np.testing.assert_array_equal(store["net/bn/running_var"], net.bn.running_var.numpy())
                for train in (False, True):
                    with torch.no_grad():
                        expected = module(net.train(train))(image())
                    made = weft.module_of(store, "train" if train else "predict")(image())
                    torch.testing.assert_close(made, expected, rtol=0, atol=(1e-5 if module is Evaluated else 0.03) * float(expected.abs().max()))
                weft.to_torch(store, Evaluated(other := Net()))
                torch.testing.assert_close(other.bn.running_var, net.bn.running_var)

    def test_a_network_has_one_name_in_a_model(self):
        net, model, _ = train_and_eval()
        with self.assertRaisesRegex(weft.Error, "net.conv.weight in another graph"):
            model.from_torch("bare", net, (image(),), train=False)

    def test_names_of_the_network_alone_are_explained(self):
        net, model, _ = train_and_eval()
        with self.assertRaisesRegex(weft.Error, "holds it as 'net'"):
            model.compile().store().load_state_dict(net.state_dict())

    def test_modules_in_eval_mode_are_noticed(self):
        net = Net().eval()
        with self.assertWarnsRegex(UserWarning, "in eval mode"):
            weft.Model("m").from_torch("train", Trained(net), (image(), torch.arange(8) % 5))

    def test_a_module_of_another_structure_is_refused(self):
        _, model, _ = train_and_eval()
        with self.assertRaisesRegex(weft.Error, "other.weight"):
            model.compile().store().load_state_dict({**Trained(Net()).state_dict(), "other.weight": torch.zeros(1)})


class Fn(nn.Module):
    """A module that is a function of itself and its input."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


class Counts(unittest.TestCase):
    """num_batches_tracked after to_torch() without steps."""

    def counted(self, store, net):
        weft.to_torch(store, Trained(net))
        return int(net.bn.num_batches_tracked)

    def test_by_a_trainer_and_by_runs(self):
        net, model, label = train_and_eval({"image": {0: "batch"}, "label": {0: "batch"}})
        data = {"image": image(32).numpy(), "label": (torch.arange(32) % 5).numpy()}
        self.assertEqual(self.counted(weft.Trainer(model, train=data, batch=8, epochs=3).fit().store, net), 12)
        store = model.compile().store()
        with store.session() as s:
            for _ in range(5):
                s.run("train", image=image(), label=label)
        self.assertEqual(self.counted(store, net), 5)
        self.assertEqual(store.steps(), {"sgd:all": 5})
        weft.to_torch(store, Trained(net), steps=0)
        self.assertEqual(int(net.bn.num_batches_tracked), 0)

    def test_each_network_by_its_own_optimizer(self):
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False))

        class Of(nn.Module):
            def __init__(self, pair, name):
                super().__init__()
                self.pair, self.name = pair, name

            def forward(self, x):
                return getattr(self.pair, self.name)(x).square().mean()

        pair, model = Pair(), weft.Model("pair")
        for name in "ab":
            model.from_torch(name, Of(pair, name), (torch.randn(8, 3),), minimize={f"pair/{name}": weft.SGD(0.1, name=f"for_{name}" if name == "a" else None)})
        store = model.compile().store()
        with store.session() as s:
            for i in range(7):
                s.run("a" if i < 2 else "b", x=torch.randn(8, 3))
        weft.to_torch(store, Of(pair, "a"))
        self.assertEqual([int(n.num_batches_tracked) for n in (pair.a[1], pair.b[1])], [2, 5])

    def test_as_pytorch_counts(self):
        """A count that began, a teacher in evaluation mode, networks in both steps of a GAN and twice in one, micro-batches."""
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.g, self.d, self.teacher = (nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)) for _ in range(3))
                for i, net in enumerate((self.g, self.d, self.teacher)):
                    net[1].num_batches_tracked.fill_(7 + 1000 * i)
                self.train()

            def train(self, mode=True):
                super().train(mode)
                self.teacher.eval()
                return self

        class Of(nn.Module):
            def __init__(self, both, is_g):
                super().__init__()
                self.both, self.is_g = both, is_g

            def forward(self, x):
                made = self.both.g(x)
                if self.is_g:
                    return (self.both.d(made) - self.both.teacher(x)).square().mean()
                return (self.both.d(made.detach()) - self.both.d(x)).square().mean()

        both, model, x = Both(), weft.Model("gan"), torch.randn(4, 5)
        reference = copy.deepcopy(both)
        for name in "gd":
            model.from_torch(name, Of(both, name == "g"), (x,), minimize={f"both/{name}": weft.SGD(0.01)})
        store = model.compile().store()
        with store.session() as s:
            for i in range(5):
                s.run("g" if i < 2 else "d", x=x)
                Of(reference, i < 2)(x)
        for _ in range(2):  # it is no sum
            weft.to_torch(store, Of(both, True))
            self.assertEqual([int(n[1].num_batches_tracked) for n in (both.g, both.d, both.teacher)], [12, 1015, 2007])
        for name in "g d teacher".split():
            self.assertEqual(getattr(both, name)[1].num_batches_tracked, getattr(reference, name)[1].num_batches_tracked)

        net, model, _ = train_and_eval({"image": {0: "batch"}, "label": {0: "batch"}})
        data = {"image": image(32).numpy(), "label": (torch.arange(32) % 5).numpy()}
        self.assertEqual(self.counted(weft.Trainer(model, train=data, batch=4, accumulate=4, epochs=1).fit().store, net), 8)


class Judging(unittest.TestCase):
    """The judge itself: which of PyTorch's runs it judges by."""

    def beyond(self, ours, *own):
        verdict, of = torch_judge.Verdict("x"), lambda x: {"x": torch.tensor([1.0, x], dtype=torch.float64)}
        torch_judge.compare("outputs", verdict, of(1.0), [of(x) for x in own], of(ours))
        return bool(verdict.beyond)

    def test_by_the_runs_that_are_finite(self):
        inf, nan = float("inf"), float("nan")
        for other in (inf, nan):
            self.assertTrue(self.beyond(1.1, 1.001, 1.0, other))
            self.assertTrue(self.beyond(nan, 1.001, 1.0, other))
            self.assertFalse(self.beyond(1.003, 1.001, 1.0, other))
            self.assertFalse(self.beyond(nan, other, 1.0, 1.0))
        self.assertTrue(self.beyond(1.1, 1.001))

    def test_the_number_of_runs_does_not_grow(self):
        step, batches = torch_judge.Step(nn.Linear(3, 2)), [(torch.randn(4, 3),)] * torch_judge.STEPS
        self.assertEqual([len(list(torch_judge.own_runs(step, batches, attempt))) for attempt in range(4)], [3, 8, 8, 8])


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Negated(torch.autograd.Function):
    """A gradient that is not that of forward()."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Clipped(torch.autograd.Function):
    """A gradient that is that of forward() where it is small."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


class FastSwish(torch.autograd.Function):
    """The gradient that autograd derives, in fewer steps."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        s = x.sigmoid()
        return gradient * (s + x * s * (1 - s))


class FastScale(torch.autograd.Function):
    """The same for two operands, and a context that is set up apart."""

    @staticmethod
    def forward(x, w, k):
        return x * w * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.k = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient * w * ctx.k, (gradient * x).sum(0) * ctx.k, None


class Regions(unittest.TestCase):
    """Checkpoints, autocast, and no_grad() within it: gradients as PyTorch's, and the names of scopes."""

    def gradients(self, module, x, rtol=1e-5):
        """The model, after its gradients by all parameters were compared."""
        model = weft.Model("m")
        model.from_torch("g", module, (x,), minimize=weft.SGD(0.1))
        module.zero_grad()
        module(x).backward()
        store = model.compile(manual=True).store()
        with store.session() as s:
            s.run("g", x=x)
            for name, p in module.named_parameters():
                path = name.replace(".", "/")
                if p.grad is None:
                    with self.assertRaisesRegex(weft.Error, "trains no parameter|has no value"):
                        s.gradient("g", path)
                else:
                    torch.testing.assert_close(torch.from_numpy(s.gradient("g", path)), p.grad, rtol=rtol, atol=rtol * float(p.grad.abs().max()))
        return model

    def test_a_checkpoint_keeps_its_gradient(self):
        from torch.utils.checkpoint import checkpoint
        for reentrant in (True, False):
            torch.manual_seed(1)
            self.gradients(Fn(lambda s, x, r=reentrant: checkpoint(s.second, s.first(x), use_reentrant=r).square().mean(), first=nn.Linear(3, 4), second=nn.Linear(4, 2)),
                           torch.randn(8, 3))

    def test_autocast_is_casts_in_the_modules_scope(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.norm, self.conv = nn.Linear(6, 8), nn.LayerNorm(8), nn.Conv1d(1, 2, 3)

            def forward(self, x):
                return self.conv(torch.softmax(self.norm(self.fc(x)), -1)[:, None])

        def half(s, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = s.two(x)
            return s.last(y.float()).square().mean()

        torch.manual_seed(2)
        module = Fn(half, two=Two(), last=nn.Linear(6, 3))
        model = self.gradients(module, torch.randn(16, 6), rtol=0.02)
        text = model.text()
        for line in (r"bf16\[16,8\] = linear\(.* in two/fc", r"layer_norm\(.* in two/norm", r"bf16\[16,2,6\] = \w+\(.* in two/conv", r"f32\[16,2,3\] = linear\(.* in last"):
            self.assertRegex(text, line)
        store = model.compile().store()
        with store.session() as s:
            loss = float(s.run("g", fetch="output", x=torch.ones(16, 6))["output"])
        self.assertAlmostEqual(loss, float(module(torch.ones(16, 6)).detach()), delta=0.01 * loss)

    def test_numbers_of_autocast_are_pytorchs(self):
        """Each op rounds as PyTorch's does, but for a sum in another order: of a hundred numbers one may be the next of bf16."""
        def cast(function):
            def forward(s, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return function(s, x).float()
            return forward

        def nested(s, x):
            y = s.fc(x)
            with torch.autocast("cpu", enabled=False):
                return s.fc(x.float()) + y.float()

        torch.manual_seed(5)
        rows, images = torch.randn(16, 64), torch.randn(4, 8, 12, 12)
        for function, parts, x in ((lambda s, x: s.fc(x), dict(fc=nn.Linear(64, 32)), rows), (lambda s, x: s.norm(s.fc(x)), dict(fc=nn.Linear(64, 32), norm=nn.LayerNorm(32)), rows),
                                   (lambda s, x: torch.softmax(s.fc(x), -1), dict(fc=nn.Linear(64, 32)), rows), (lambda s, x: nn.functional.gelu(s.fc(x)), dict(fc=nn.Linear(64, 32)), rows),
                                   (lambda s, x: s.norm(s.conv(x)), dict(conv=nn.Conv2d(8, 16, 3), norm=nn.GroupNorm(4, 16)), images),
                                   (lambda s, x: s.norm(s.conv(x)), dict(conv=nn.Conv2d(8, 16, 3), norm=nn.BatchNorm2d(16)), images), (nested, dict(fc=nn.Linear(64, 32)), rows)):
            module = Fn(cast(function), **parts)
            with torch.no_grad():
                expected = module(x)
            model = weft.Model("m")
            model.from_torch("g", module, (x,))
            with model.compile(unoptimized=True).store().session() as s:
                made = torch.from_numpy(s.run("g", x=x)["output"])
            self.assertLessEqual(int((made != expected).sum()), made.numel() // 100, list(parts))
            torch.testing.assert_close(made, expected, rtol=2.0**-7, atol=2.0**-8 * float(expected.abs().max()))

    def test_no_grad_within_autocast_has_no_gradient(self):
        def step(s, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = s.a(x)
                with torch.no_grad():
                    target = s.b(s.a(x))
                made = s.c(y)
            return (made.float() - target.float()).square().mean()

        torch.manual_seed(3)
        self.gradients(Fn(step, a=nn.Linear(3, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 4)), torch.randn(16, 3), rtol=0.03)

    def test_autocast_within_no_grad(self):
        def step(s, x):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                target = s.b(x)
            return (s.a(x) - target.float()).square().mean()

        torch.manual_seed(4)
        self.gradients(Fn(step, a=nn.Linear(3, 4), b=nn.Linear(3, 4)), torch.randn(16, 3), rtol=0.02)

    def no_grad_step(self, way):
        """A step whose no_grad() region is written in one of the ways that PyTorch's own pass forgets."""
        half = torch.autocast("cpu", torch.bfloat16)

        def target(s, x):
            with torch.no_grad():
                return s.a(x)

        def taken(s, x):
            return s.a(x) * target(s, x)

        def taken_half(s, x):
            with half:
                return (s.a(x) * target(s, x)).float()

        def step(s, x):
            if way == "within a branch":
                y = torch.cond(s.flag, lambda x: taken(s, x), lambda x: s.a(x), (x,))
            elif way == "within autocast in a branch":
                y = torch.cond(s.flag, lambda x: taken_half(s, x), lambda x: s.a(x), (x,))
            elif way == "around a branch":
                with torch.no_grad():
                    z = torch.cond(s.flag, lambda x: s.a(x), lambda x: s.b(x), (x,)) * s.b(x)
                y = s.a(x) * z
            else:
                with torch.no_grad(), half:
                    z = s.b(x)
                    with torch.enable_grad():
                        y = s.a(x)
                    z = z + s.b(y)
                y = y.float() * z.float()
            return s.c(y).square().mean()
        return step

    def test_no_grad_and_branches_and_autocast(self):
        for way in ("within a branch", "within autocast in a branch", "around a branch", "autocast with enable_grad() within"):
            with self.subTest(way):
                torch.manual_seed(6)
                module = Fn(self.no_grad_step(way), a=nn.Linear(3, 4), b=nn.Linear(3, 4), c=nn.Linear(4, 2))
                if "enable" in way:
                    module.b = nn.Linear(4, 4)
                    module.a = nn.Linear(4, 4)
                module.register_buffer("flag", torch.tensor(True))
                self.gradients(module, torch.randn(16, module.a.in_features), rtol=0.03 if "autocast" in way else 1e-5)

    def test_a_write_under_no_grad(self):
        """Into a buffer it has no gradient; into a view of a tensor with a gradient it is refused, but where nothing trains."""
        def queue(s, x):
            y = s.a(x)
            with torch.no_grad():
                s.queue[:, 1].copy_(y[:, 0])
            return (s.queue * y).square().mean()

        def scaled(s, x):
            y = s.a(x)
            with torch.no_grad():
                y[:, 0].mul_(2)
            return y.square().mean()

        torch.manual_seed(7)
        module, x = Fn(queue, a=nn.Linear(3, 4)), torch.randn(8, 3)
        module.register_buffer("queue", torch.ones(8, 4))
        model = weft.Model("m")
        model.from_torch("g", module, (x,), minimize=weft.SGD(0.1))
        with model.compile(manual=True).store().session() as s:
            s.run("g", x=x)
            made = s.gradient("g", "a/weight")
        module.queue.fill_(1)
        with torch.no_grad():
            kept = module.queue.clone()
            kept[:, 1] = module.a(x)[:, 0]
        (kept * module.a(x)).square().mean().backward()
        np.testing.assert_allclose(made, module.a.weight.grad, rtol=1e-5, atol=1e-6)
        module = Fn(scaled, a=nn.Linear(3, 4))
        with self.assertRaisesRegex(weft.Error, rf"^from_torch: aten.mul_.Tensor \(.*{HERE}:\d+\): a write under no_grad\(\).*write x = x \+ \(new - x\).detach\(\)"):
            weft.Model("m").from_torch("g", module, (x,))
        model = weft.Model("m")
        model.from_torch("g", module, (x,), train=False)
        with model.compile().store().session() as s:
            np.testing.assert_allclose(s.run("g", x=x)["output"], module(x).detach().numpy(), rtol=1e-5)

    def test_a_write_through_detach(self):
        """Functional programs have no such writes: refused where a gradient would be lost."""
        def into_target(s, x):
            with torch.no_grad():
                y = s.a(x)
            y.add_(s.b(x))
            return y.square().mean()

        def below(s, x):
            y = s.a(x)
            y.detach().mul_(2)
            return (y * s.b(x)).square().mean()

        def of_a_copy(s, x):
            y = s.a(x).detach()
            y.mul_(2)
            return (y * s.b(x)).square().mean()

        torch.manual_seed(9)
        parts, x = dict(a=nn.Linear(3, 4), b=nn.Linear(3, 4)), torch.randn(8, 3)
        for forward, says in ((into_target, "a write of a value with a gradient into a tensor that was detached"), (below, r"a write through detach\(\)")):
            with self.assertRaisesRegex(weft.Error, rf"^from_torch: aten.*_.Tensor \(.*{HERE}:\d+\): {says}"):
                weft.Model("m").from_torch("g", Fn(forward, **parts), (x,))
        self.gradients(Fn(of_a_copy, **parts), x)

    def test_a_write_under_no_grad_into_a_detached_tensor(self):
        """It is taken where nothing with a gradient reads the tensor afterwards: values and gradients are PyTorch's."""
        def scaled(s, x):
            y = s.a(x)
            before = y.sum()
            with torch.no_grad():
                k = y.detach()
                k.mul_(2)
                k.add_(1)
                seen = y + 1
            return (k * s.b(x) + seen).square().mean() + before

        def detached_before(s, x):
            y = s.a(x)
            k = y.detach()
            with torch.no_grad():
                k[:, 1:].mul_(3)
            return (y.detach() * s.b(x)).square().mean() + (k * s.b(x)).mean()

        def of_a_part(s, x):
            first, second = s.a(x).split(2, 1)
            sum_of_first = first.sum()
            with torch.no_grad():
                k = second.detach()
                k.copy_(s.b(x)[:, :2])
            return (k * s.b(x)[:, 2:]).square().mean() + sum_of_first

        def read_later(s, x):
            y = s.a(x)
            with torch.no_grad():
                k = y.detach()
                k.mul_(2)
            return (k * s.b(x) * y).square().mean()

        def view_read_later(s, x):
            y = s.a(x)
            view = y[:, 0]
            with torch.no_grad():
                y.detach().mul_(2)
            return (view * s.b(x)[:, 0]).sum()

        def whole_read_later(s, x):
            y = s.a(x)
            with torch.no_grad():
                y[:, :2].detach().mul_(2)
            return (y * s.b(x)).sum()

        def in_a_branch_later(s, x):
            y = s.a(x)
            with torch.no_grad():
                k = y.detach()
                k.mul_(2)
            return torch.cond(s.flag, lambda y: y * 1.0, lambda y: y * 2, (y,)).sum() * s.b(x).sum() + k.sum()

        def of_a_parameter(s, x):
            with torch.no_grad():
                k = s.a.weight.detach()
                k.mul_(2)
            return s.b(x).sum() + k.sum()

        def itself(s, x):
            y = s.a(x)
            with torch.no_grad():
                y.mul_(2)
            return s.b(x).sum() + y.detach().sum()

        for forward in (scaled, detached_before, of_a_part, read_later, view_read_later, whole_read_later, in_a_branch_later, of_a_parameter, itself):
            torch.manual_seed(9)
            module, x = Fn(forward, a=nn.Linear(3, 4), b=nn.Linear(3, 4)), torch.randn(8, 3)
            module.register_buffer("flag", torch.tensor(True))
            with self.subTest(forward.__name__):
                if forward in (scaled, detached_before, of_a_part):
                    with self.gradients(module, x).compile().store().session() as s:
                        np.testing.assert_allclose(s.run("g", fetch="output", x=x)["output"], module(x).detach().numpy(), rtol=1e-5)
                else:
                    with self.assertRaisesRegex(weft.Error, rf"^from_torch: aten.mul_.Tensor \(.*{HERE}:\d+\): a write under no_grad\(\)"):
                        weft.Model("m").from_torch("g", module, (x,), minimize=weft.SGD(0.1))

    def test_indices_under_no_grad_reach_no_parameter(self):
        def forward(s, x):
            with torch.no_grad():
                best = s.a(x).max(1)
            return (s.b(x) * best.values[:, None]).square().mean() + best.indices.float().mean()
        torch.manual_seed(9)
        self.gradients(Fn(forward, a=nn.Linear(3, 4), b=nn.Linear(3, 4)), torch.randn(8, 3))

    def test_a_backward_that_is_autograds(self):
        """One written for speed: the graph has the gradient of forward(), which is the same. One that differs for large gradients alone is refused."""
        torch.manual_seed(8)
        fc, w, x = nn.Linear(3, 4), nn.Parameter(torch.randn(4)), torch.randn(8, 3)
        self.gradients(Fn(lambda s, x: FastSwish.apply(s.fc(x)).square().mean(), fc=fc), x)
        scaled = Fn(lambda s, x: FastScale.apply(s.fc(x), s.w, 3.0).square().mean(), fc=fc)
        scaled.w = w
        self.gradients(scaled, x)
        state = torch.random.get_rng_state()
        with self.assertRaisesRegex(weft.Error, "Clipped .*would be lost"):
            weft.Model("m").from_torch("g", Fn(lambda s, x: Clipped.apply(s.fc(x)).square().mean(), fc=fc), (x,))
        self.assertTrue(torch.equal(state, torch.random.get_rng_state()))

    def test_a_backward_of_the_program(self):
        """It is refused where it trains; the way out that the refusal names has its gradient; where nothing trains forward() is all."""
        torch.manual_seed(8)
        fc, x = nn.Linear(3, 4), torch.randn(8, 3)
        plain = Fn(lambda s, x: Negated.apply(s.fc(x)).square().mean(), fc=fc)
        branch = Fn(lambda s, x: torch.cond(s.flag, lambda x: Negated.apply(s.fc(x)), lambda x: s.fc(x), (x,)), fc=fc)
        branch.register_buffer("flag", torch.tensor(True))
        for module, name in ((plain, "torch.autograd.Function Negated"), (branch, r"a torch.autograd.Function within torch.cond\(\)"), (Outer(plain), "Negated in inner")):
            with self.assertRaisesRegex(weft.Error, rf"^from_torch: .*{name}.*{HERE}:\d+\): its own backward\(\) would be lost: .*x \+ \(y - x\).detach\(\), .*2 \* x.detach\(\) - x"):
                weft.Model("m").from_torch("g", module, (x,))
        model = weft.Model("m")
        model.from_torch("g", plain, (x,), train=False)
        with model.compile().store().session() as s:
            self.assertAlmostEqual(float(s.run("g", x=x)["output"]), float(plain(x).detach()), places=5)

        def within_no_grad(s, x):
            with torch.no_grad():
                y = Negated.apply(s.fc(x))
            return (s.fc(x) * y).square().mean()
        self.gradients(Fn(within_no_grad, fc=fc), x)
        fc.zero_grad()
        plain(x).backward()
        wanted = fc.weight.grad.clone()
        reversed_by_parts = Fn(lambda s, x: (lambda y: 2 * y.detach() - y)(s.fc(x)).square().mean(), fc=fc)
        self.gradients(reversed_by_parts, x)
        torch.testing.assert_close(fc.weight.grad, wanted)

    def test_parameters_of_a_long_list(self):
        """One optimizer for parameters that no short pattern covers."""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.main, self.side = nn.Linear(4, 4), nn.Linear(4, 4)

        def both(s, x):
            for block in s.net:
                x = block.main(x) + block.side(x)
            return x.square().mean()

        def side(s, x):
            for block in s.net:
                x = block.side(x)
            return x.square().mean()

        net, x, model = nn.ModuleList(Block() for _ in range(30)), torch.randn(2, 4), weft.Model("m")
        for forward in (both, side):
            model.from_torch(forward.__name__, Fn(forward, net=net), (x,), minimize=weft.SGD(0.1))
        store = model.compile().store()
        self.assertEqual(sorted(store.steps()), ["sgd:all", "sgd:side"])
        with store.session() as s:
            s.run("side", x=x)
        self.assertEqual(store.steps()["sgd:side"], 1)

    def test_pytorch_is_left_as_it_was(self):
        import importlib
        import threading
        from torch.utils import checkpoint
        passes = importlib.import_module("torch._export.passes.replace_set_grad_with_hop_pass")

        def held():
            return passes.replace_set_grad_with_hop_pass, vars(torch.autograd.Function)["apply"], "apply" in vars(checkpoint.CheckpointFunction), sys.stderr
        before, failed = held(), []

        def convert():
            try:
                for _ in range(3):
                    weft.Model("m").from_torch("g", Loss(), (torch.randn(4, 3),))
            except Exception as why:
                failed.append(why)
        threads = [threading.Thread(target=convert) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failed, held()), ([], before))
        self.assertFalse(before[2])


class Quiet(unittest.TestCase):
    """What torch.export says to PyTorch's developers stays out; what is said to the program's author comes."""

    def said(self, module, x):
        """Warnings, what was logged, and what was printed."""
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(printed), self.assertLogs() as logs:
            warnings.simplefilter("always")
            logging.getLogger("mine").warning("so that there is one")
            with contextlib.suppress(weft.Error):
                weft.Model("m").from_torch("g", module, (x,))
        return [str(w.message) for w in caught] + logs.output[1:] + ([printed.getvalue()] if printed.getvalue() else [])

    def test_nothing_of_tracing_is_heard(self):
        from torch.utils.checkpoint import checkpoint
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old = nn.utils.weight_norm(nn.Linear(3, 3))
        for module, x in ((Fn(lambda s, x: x * 2 if x.sum() > 0 else x), torch.randn(4, 3)), (Fn(lambda s, x: x * int(x.sum())), torch.randn(4, 3)),
                          (Fn(lambda s, x: s.inner(x)[0], inner=nn.LSTM(3, 4)), torch.randn(5, 2, 3)), (Fn(lambda s, x: s.inner(x), inner=old), torch.randn(4, 3)),
                          (Fn(lambda s, x: checkpoint(s.inner, s.inner(x)), inner=nn.Linear(3, 3)), torch.randn(4, 3)),
                          (Fn(lambda s, x: s.inner(x), inner=nn.utils.spectral_norm(nn.Linear(3, 3))), torch.randn(4, 3))):
            self.assertEqual(self.said(module, x), [])

    def test_the_programs_own_words_are(self):
        def forward(s, x):
            warnings.warn("of the program")
            sys.stderr.write("printed")
            s.kept = x
            return x + 1
        said = self.said(Fn(forward), torch.randn(4, 3))
        self.assertIn("of the program", said)
        self.assertIn("printed", said)
        self.assertTrue(any("self.kept was assigned" in w for w in said), said)

    def test_what_changes_a_training_is(self):
        from torch.utils.checkpoint import checkpoint

        def moving(s, x):
            s.weight = s.weight * 0.9 + x.mean(0)
            return x + s.weight
        module = Fn(moving)
        module.weight = torch.zeros(3)
        self.assertTrue(any("self.weight was assigned" in w for w in self.said(module, torch.randn(4, 3))))
        first = Fn(lambda s, x: checkpoint(s.inner, x, use_reentrant=True), inner=nn.Linear(3, 3))
        self.assertTrue(any("None of the inputs have requires_grad" in w for w in self.said(first, torch.randn(4, 3))))


class Refused(unittest.TestCase):
    def refused(self, forward, *args):
        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, *args):
                return self.inner(*args)

        class Inner(nn.Module):
            def forward(self, *args):
                return forward(*args)

        with self.assertRaises(weft.Error) as caught:
            weft.Model("m").from_torch("g", Module(), args)
        self.assertEqual(caught.exception.status, "unsupported")
        return str(caught.exception)

    def test_an_op_by_its_name_module_and_line(self):
        said = self.refused(lambda x: torch.linalg.svd(x)[1], torch.randn(4, 4))
        self.assertRegex(said, rf"^from_torch: aten\._linalg_svd\.default in inner \(.*{HERE}:\d+\): Weft has no such op")

    def test_an_index_by_a_mask(self):
        said = self.refused(lambda x: (x[x > 0] * 2).sum(), torch.randn(4, 4))
        self.assertIn("mask", said)
        self.assertIn("where()", said)

    def test_a_branch_by_numbers(self):
        said = self.refused(lambda x: x * 2 if x.sum() > 0 else x, torch.randn(4, 4))
        self.assertIn("a static graph needs shapes that follow from shapes", said)

    def test_a_batch_that_became_a_number(self):
        with self.assertRaisesRegex(weft.Error, r"makes the batch of the examples a number.*write x\.shape\[0\] or -1, or leave `dynamic` out"):
            weft.Model("m").from_torch("g", Outer(nn.Unflatten(0, (8, 1))), (torch.randn(8, 3),), dynamic={"x": {0: "batch"}})

    def test_a_cond_by_numbers(self):
        said = self.refused(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.sin(), (x,)), torch.randn(4, 4))
        self.assertRegex(said, rf"cond in inner \(.*{HERE}:\d+\): its condition is computed when the graph runs: compute both branches, and take one")

    def test_a_cond_that_writes(self):
        module = Fn(lambda s, x: torch.cond(s.flag, lambda x: s.bn(x), lambda x: x * 2, (x,)), bn=nn.BatchNorm1d(4))
        module.register_buffer("flag", torch.tensor(True))
        with self.assertRaisesRegex(weft.Error, rf"Encountered input mutation .*Explanation: .*\(.*{HERE}:\d+\)"):
            weft.Model("m").from_torch("g", module, (torch.randn(6, 4),))

    def test_a_cond_by_the_batch(self):
        module, dynamic = Fn(lambda s, x: torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x.sin(), (x,))), {"x": {0: "batch"}}
        with self.assertRaisesRegex(weft.Error, rf"cond \(.*{HERE}:\d+\): its condition .* > 4 depends on the batch"):
            weft.Model("m").from_torch("g", module, (torch.randn(6, 4),), dynamic=dynamic)
        model, x = weft.Model("m"), torch.randn(6, 4)
        model.from_torch("g", module, (x,))
        with model.compile().store().session() as s:
            np.testing.assert_allclose(s.run("g", x=x)["output"], x.numpy() * 2)

    def test_a_graph_that_failed_is_not_finished(self):
        model, x = weft.Model("m"), torch.randn(4, 4)
        for says in ("no such op", "a call that failed has left the graph g unfinished: begin again with a new weft.Model"):
            with self.assertRaisesRegex(weft.Error, says):
                model.from_torch("g", Fn(lambda s, x: torch.linalg.svd(x)[1]), (x,))
        for use in (lambda: model.from_torch("h", nn.Linear(4, 2), (x,)), model.compile, lambda: weft.Trainer(model, train={"x": x}, batch=4)):
            with self.assertRaisesRegex(weft.Error, "has left the graph g unfinished: begin again"):
                use()

    def test_what_fails_before_the_graph_is_made_leaves_nothing(self):
        def raising(s, x):
            raise ValueError("no")

        model, x = weft.Model("m"), torch.randn(4, 3)
        for module, options in ((Fn(raising), {}), (Loss(), dict(outputs=["a", "b"])), (Loss(), dict(dynamic={"x": {7: "batch"}}))):
            with self.assertRaises(weft.Error):
                model.from_torch("g", module, (x,), **options)
        self.assertEqual(list(model.graphs), [])
        model.from_torch("g", Loss(), (x,))
        model.compile()

    def test_what_the_module_raises(self):
        """A line with the type, the text, the part and the line of the program, and no frame of PyTorch's."""
        def raising(s, x):
            raise ValueError("no such mode\nand more")

        for forward, says in ((raising, "ValueError: no such mode"), (lambda s, x: s.nothing(x), "AttributeError: 'Fn' object has no attribute 'nothing'"),
                              (lambda s, x: {"a": x}["b"], "KeyError: 'b'")):
            with self.subTest(says), self.assertRaises(weft.Error) as caught:
                weft.Model("m").from_torch("g", Outer(Fn(forward)), (torch.randn(4, 3),))
            self.assertRegex(str(caught.exception), rf"^from_torch: the module raised {says} in inner \(.*{HERE}:\d+\)$")
            printed = "".join(traceback.format_exception(caught.exception))
            self.assertNotIn(os.sep + os.path.join("torch", "export"), printed)
            self.assertIn("in forward", printed)
            self.assertLess(len(printed.splitlines()), 30)

    def test_what_pytorch_raises(self):
        """Of shapes that do not fit: one line, and no traceback is logged."""
        with self.assertNoLogs("torch._subclasses.fake_tensor"), self.assertRaises(weft.Error) as caught:
            weft.Model("m").from_torch("g", Outer(nn.Linear(5, 2)), (torch.randn(4, 3),))
        self.assertRegex(str(caught.exception), "^from_torch: torch.export: RuntimeError: a and b must have same reduction dim")
        self.assertIsNone(caught.exception.__cause__)
        self.assertTrue(caught.exception.__suppress_context__)

    def test_an_op_that_is_not_there_has_a_way_out(self):
        x = torch.eye(4) + torch.rand(4, 4)
        for forward in (torch.inverse, torch.logdet, torch.lgamma, torch.erfinv, lambda x: torch.linalg.qr(x)[0], torch.linalg.cholesky):
            self.assertIn("Weft has no such op: write it by other ops; or, where it depends on no parameter, compute it outside of the graph", self.refused(forward, x))
        for forward, instead, wanted in (
                (lambda x: x.median(0)[0], "x.sort(dim).values.select(dim, (n - 1) // 2)", lambda x: x.sort(0).values.select(0, (4 - 1) // 2)),
                (lambda x: x.kthvalue(2, 1)[0], "x.sort(dim).values.select(dim, k - 1)", lambda x: x.sort(1).values.select(1, 1)),
                (lambda x: torch.hypot(x, x + 1), "(x * x + y * y).sqrt()", lambda x: (x * x + (x + 1) * (x + 1)).sqrt()),
                (lambda x: torch.cdist(x, x + 1), "(x[:, None] - y).square().sum(-1).sqrt()", lambda x: (x[:, None] - (x + 1)).square().sum(-1).sqrt()),
                (lambda x: torch.fft.fft(x).real, "a product with the DFT's matrix", lambda x: x @ torch.cos(2 * torch.pi / 4 * torch.outer(torch.arange(4), torch.arange(4))))):
            self.assertIn(instead, self.refused(forward, x))
            model, module = weft.Model("m"), Fn(lambda s, x, wanted=wanted: wanted(x))
            model.from_torch("g", module, (x,))
            with self.subTest(instead), model.compile().store().session() as s:
                np.testing.assert_allclose(s.run("g", x=x)["output"], forward(x), rtol=1e-4, atol=1e-5)

    def test_a_number_of_a_tensor(self):
        for forward in (lambda x, i: x[i.item()], lambda x, i: x + x.sum().item()):
            said = self.refused(forward, torch.randn(4, 4), torch.tensor(1))
            self.assertRegex(said, r"it needs the item\(\) of a tensor, which is known when the graph runs: keep it a tensor")

    def test_a_further_result_of_a_norm(self):
        said = self.refused(lambda x: torch.native_layer_norm(x, [4], None, None, 1e-5)[1] * 2, torch.randn(4, 4))
        self.assertIn("it needs a further result of aten.native_layer_norm.default", said)

    def test_windows_along_the_batch(self):
        with self.assertRaisesRegex(weft.Error, "windows along the batch"):
            weft.Model("m").from_torch("g", Fn(lambda s, x: x.unfold(0, 2, 1)), (torch.randn(8, 3),), dynamic={"x": {0: "batch"}})

    def test_axes_that_are_not_there(self):
        x, batch = torch.randn(4, 3), {0: "batch"}
        for args, axes, says in (((x,), {5: "batch"}, "5 is no axis of it: the example has the axes 0 to 1, or -2 to -1 from the end"), ((x,), {-3: "batch"}, "-3 is no axis"),
                                 ((x,), {"0": "batch"}, "'0' is no axis"), ((x,), {True: "batch"}, "True is no axis"), ((x,), {0: {0: "batch"}}, "only the batch may be dynamic"),
                                 (((x, x),), batch, "the argument is a tuple of 2: a list of 2 is needed"), (([x, x],), [batch], "the argument is a list of 2"),
                                 (([x, x],), [batch, {7: "batch"}], r"x\[1\]=.*7 is no axis"), (({"a": x},), batch, "the argument is a dict of a: a dict of these"),
                                 ((2.0,), batch, "x, a float, which has no axes")):
            with self.subTest(says), self.assertRaisesRegex(weft.Error, rf"^from_torch: dynamic .*{says}"):
                weft.Model("m").from_torch("g", Fn(lambda s, x: x), args, dynamic={"x": axes})
        model = weft.Model("m")
        self.assertTrue(model.from_torch("g", Loss(), (x,), dynamic={"x": {-2: "batch"}}).inputs()[0].has_batch)

    def test_a_loss_that_is_not_there(self):
        with self.assertRaisesRegex(weft.Error, "let the module return its loss"):
            weft.Model("m").from_torch("g", nn.Linear(3, 2), (torch.randn(4, 3),), minimize=weft.SGD(0.1))

    def test_what_is_forgotten_has_a_way_out(self):
        linear, x = nn.Linear(3, 2), torch.randn(4, 3)
        for says, mistake in [("only the batch may be dynamic", lambda m: m.from_torch("g", linear, (x,), dynamic={"input": {0: "time"}})),
                              ("module.float()", lambda m: m.from_torch("g", linear.double(), (x.double(),))),
                              ("no optimizer of Weft's", lambda m: m.from_torch("g", Loss(), (x,), minimize=torch.optim.SGD(linear.parameters(), 0.1)))]:
            with self.assertRaisesRegex(weft.Error, says):
                mistake(weft.Model("m"))

    def test_tuples_of_a_data_set_need_names(self):
        model = weft.Model("m", batch=4)
        model.from_torch("g", Loss(), (torch.randn(4, 3),), minimize=weft.SGD(0.1), dynamic={"x": {0: "batch"}})
        pairs = torch.utils.data.TensorDataset(torch.randn(8, 3))
        with self.assertRaisesRegex(weft.Error, "names="):
            weft.Trainer(model, train=pairs, batch=4)
        weft.Trainer(model, train=weft.samples(pairs, names=["x"]), batch=4, epochs=1).fit()

    def test_what_a_newcomer_forgets(self):
        def step(**options):
            model = weft.Model("m", batch=8)
            model.from_torch("train", Trained(Net()), (image(), torch.arange(8) % 5), **{"minimize": weft.SGD(0.1), **options})
            return model

        def packed(s, x):
            return s.rnn(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True))[0].data

        data = {"image": image(), "label": torch.arange(8) % 5}
        pairs = torch.utils.data.TensorDataset(image(), torch.arange(8) % 5)
        for says, mistake in (
                (r'each argument .* needs {0: "batch"} in dynamic, and label has none', lambda: step(dynamic={"image": {0: "batch"}})), ("dynamic=True: a dict", lambda: step(dynamic=True)),
                (r"^from_torch: dynamic has image=0", lambda: step(dynamic={"image": 0})), ("no graph of the model trains", lambda: weft.Trainer(step(minimize=None), train=data)),
                ("run the padded ones, and mask", lambda: weft.Model("m").from_torch("g", Fn(packed, rnn=nn.LSTM(3, 4, batch_first=True)), (torch.randn(2, 3, 3),))),
                ("is no torch.nn.Module", lambda: weft.Model("m").from_torch("g", torch.relu, (image(),))),
                (r"do not fit Linear.forward\(input", lambda: weft.Model("m").from_torch("g", nn.Linear(3, 2), (), dynamic={"input": {0: "batch"}})),
                ("begin with 'net.': give the module that holds it as 'net'", lambda: weft.to_torch(step().compile().store(), Net())),
                ("loader.dataset, and batch=", lambda: weft.Trainer(step(), train=torch.utils.data.DataLoader(pairs, batch_size=4)))):
            with self.subTest(says), self.assertRaisesRegex(weft.Error, says):
                mistake()

    def test_examples_are_tensors_arrays_or_one_alone(self):
        for args in (torch.randn(4, 3), np.zeros((4, 3), "f4"), [np.zeros((4, 3), "f4")]):
            model = weft.Model("m")
            self.assertEqual(model.from_torch("g", Loss(), args, outputs="loss").inputs()[0].shape, (4, 3))

    def test_a_batch_that_the_examples_fix(self):
        net, model, label = train_and_eval()
        data = {"image": image(32).numpy(), "label": (torch.arange(32) % 5).numpy()}
        for use in (lambda: weft.Trainer(model, train=data, batch=16), lambda: model.compile(batch=16)):
            with self.assertRaisesRegex(weft.Error, r'examples\' batch of 8 alone: from_torch\(..., dynamic={"image": {0: "batch"}, "label": {0: "batch"}}\)'):
                use()
        weft.Trainer(model, train=data, batch=8, epochs=1).fit()
        other = weft.Model("m", batch=4)
        other.from_torch("g", Loss(), (torch.randn(2, 3),), minimize=weft.SGD(0.1))
        with self.assertRaisesRegex(weft.Error, "batch=4: graph g"):
            weft.Trainer(other, train={"x": np.zeros((8, 3), "f4")})

    def test_a_tensor_of_a_device_has_one_text(self):
        net, model, label = train_and_eval()
        away = image().to("meta")
        store = model.compile().store()
        for use in (lambda: store.session().run("train", image=away, label=label), lambda: weft.Trainer(model, train={"image": away, "label": label}, batch=8),
                    lambda: weft.samples([{"image": away}]), lambda: weft.arrays(image=away), lambda: store.load_state_dict({"net.fc.bias": away}, strict=False)):
            with self.assertRaisesRegex(weft.Error, r"(image|net/fc/bias): a tensor on meta, and memory of the host is taken: write tensor.cpu\(\)"):
                use()

    def test_a_dynamic_argument_that_is_not_there(self):
        with self.assertRaisesRegex(weft.Error, "dynamic names images"):
            weft.Model("m").from_torch("g", nn.Linear(3, 2), (torch.randn(4, 3),), dynamic={"images": {0: "batch"}})


if __name__ == "__main__":
    unittest.main()
