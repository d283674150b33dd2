"""weft.from_torch: 27 small modules of the list judged by f64, and what graphs of one model share. Skipped where torch is not here."""
import os
import sys
import unittest

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
        self.assertEqual((verdict.status, verdict.why, verdict.beyond), ("converts", "", []))
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

    def test_stores_begin_with_the_modules_values(self):
        net, model, label = train_and_eval()
        with torch.no_grad():
            net.bn.running_mean.fill_(0.3)
        data = {"image": image().numpy(), "label": label.numpy()}
        for store in (model.compile().store(seed=5), weft.Trainer(model, train=data, batch=8).store):
            for name, tensor in Trained(net).state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    np.testing.assert_array_equal(store[name.replace(".", "/")], tensor.numpy(), err_msg=name)

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

    def test_a_dynamic_argument_that_is_not_there(self):
        with self.assertRaisesRegex(weft.Error, "dynamic names images"):
            weft.Model("m").from_torch("g", nn.Linear(3, 2), (torch.randn(4, 3),), dynamic={"images": {0: "batch"}})


if __name__ == "__main__":
    unittest.main()
