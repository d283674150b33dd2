"""Models from Python: values, operators, layers, scopes, options, errors with the program's line."""
import gc
import inspect
import json
import os
import re
import tempfile
import unittest

import numpy as np
import weft


def line():
    return inspect.currentframe().f_back.f_lineno


class Values(unittest.TestCase):
    def setUp(self):
        self.m = weft.Model("net", batch=4)
        self.g = self.m.graph("g")
        self.x = self.g.input("x", "f32", ["batch", 6])

    def run_it(self, value, x):
        value.output("y")
        plan = self.m.compile(batch=len(x), threads=1)
        with plan.store().session() as s:
            return s.run("g", x=x)["y"]

    def test_operators_are_numpys(self):
        x = np.random.default_rng(1).uniform(0.5, 2, (4, 6)).astype("f4")
        for i, f in enumerate([lambda v: v + 1 - v * 2, lambda v: 1 - v, lambda v: 3 / v, lambda v: v / 3, lambda v: v**2, lambda v: v**0.5, lambda v: 2**v,
                               lambda v: -v + abs(v - 1), lambda v: v % 0.7, lambda v: v // 0.7, lambda v: v[1:3, -1], lambda v: v[..., None][:, 2:],
                               lambda v: v[0], lambda v: v[-2:, 1:-1]]):
            self.setUp()
            np.testing.assert_allclose(self.run_it(f(self.x), x), f(x), rtol=2e-6, err_msg=str(i))
        for f in (lambda v: v > 1, lambda v: v <= 1, lambda v: v == 1, lambda v: v != 1, lambda v: v < 1, lambda v: v >= 1):
            self.setUp()
            np.testing.assert_array_equal(self.run_it(f(self.x), x), f(x))

    def test_an_op_is_a_function_and_a_method(self):
        self.assertEqual(self.x.softmax(-1).shape, weft.softmax(self.x, -1).shape)
        self.assertIn("exp(x) / sum of exp(x)", weft.softmax.__doc__)
        self.assertEqual([v.shape for v in self.x.split([2, -1], 1)], [(4, 2), (4, 4)])
        values, places = self.x.topk(3)
        self.assertEqual((values.dtype, places.dtype), ("f32", "i64"))
        self.assertEqual(weft.concat([self.x, self.x], 1).shape, (4, 12))
        self.assertEqual(weft.einsum("bi,bi->b", [self.x, self.x]).shape, (4,))

    def test_options_are_keywords(self):
        y = self.g.input("image", "f32", ["batch", 3, 8, 8]).conv2d(out=5, kernel=(1, 3), pad=(0, 1), name="c")
        self.assertEqual(y.shape, (4, 5, 8, 8))
        self.assertEqual(y.max_pool2d(kernel=2, stride=(2, 1)).shape, (4, 5, 4, 7))
        self.assertEqual([p.shape for p in self.m.parameters("c").values()], [(5, 3, 1, 3), (5,)])
        self.assertEqual(self.x.linear(3, "fc", weight=("normal", 0, 0.02), no_bias=True).shape, (4, 3))
        with self.assertRaisesRegex(TypeError, "kernal"):
            y.max_pool2d(kernal=2)
        loss = weft.cross_entropy(self.x, self.g.input("label", "i64", ["batch"]), label_smoothing=0.1, reduction="sum")
        self.assertEqual(loss.shape, ())

    def test_a_true_zero_is_no_default(self):
        self.x.layer_norm_op(eps=0).output("none")
        self.x.layer_norm_op().output("usual")
        self.assertEqual(self.m.text().count("eps=1e-05"), 1)  # a true 0 is not written

    def test_an_error_has_the_programs_line_and_the_model_stays(self):
        with self.assertRaises(weft.Error) as caught, self.g.scope("head"):
            at = line() + 1
            weft.relu(self.x + self.g.tensor([1.0, 2.0]))
        self.assertEqual(caught.exception.status, "shape")
        self.assertRegex(str(caught.exception), rf"^test_build.py:{at}: in head: add: f32\[4,6\] and f32\[2\] do not broadcast")
        self.assertEqual(self.run_it(self.x.relu(), np.zeros((2, 6), "f4")).shape, (2, 6))

    def test_mistakes_have_a_way_out(self):
        for mistake, says in [(lambda: weft.Adam(1e-3, bata1=3), "did you mean beta1"), (lambda: self.m.compile(bach=3), "did you mean batch"),
                              (lambda: weft.SGD(1, groups=[dict(kinds="biases")]), "not one of norm, bias"),
                              (lambda: self.g.input("z", "f32", [2.5]), "2.5 is not a whole number"), (lambda: self.x[True], "[True]"),
                              (lambda: self.g.input("z", True, [1]), "f32"),
                              (lambda: self.g.input("z", "float33", [1]), "f32, f64, bf16, f16"), (lambda: bool(self.x > 0), "where"),
                              (lambda: list(self.x), "unbind"), (lambda: self.m.minimize(self.x.sum(), "head"), "eval mode"),
                              (lambda: weft.cross_entropy(self.x, self.x, reduction="men"), "mean"), (lambda: weft.load("/nowhere.bin"), "nowhere"),
                              (lambda: weft.concat([1, 2]), "a list of values has a int"), (lambda: weft.einsum("i->i", []), "no value"),
                              (lambda: self.m.compile(isa="avx9"), "avx2")]:
            with self.assertRaises(weft.Error) as caught:
                mistake()
            self.assertIn(says, str(caught.exception))

    def test_scopes_name_parameters_and_share_them(self):
        for _ in range(2):
            with self.g.scope("a"), self.g.scope("b/c"):
                self.x.linear(2, "fc")
        self.assertEqual(list(self.m.parameters()), ["a/b/c/fc/weight", "a/b/c/fc/bias"])
        with self.assertRaises(ZeroDivisionError), self.g.scope("left"):
            1 / 0
        self.x.linear(2, "top")
        self.assertIn("top/weight", self.m.parameters())

    def test_models_are_saved_and_read(self):
        loss = self.x.linear(2, "fc").square().mean().output("loss")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.bin")
            self.m.save(path)
            self.assertEqual(weft.load(path).text(), self.m.text())
        again = weft.parse(self.m.text())
        self.assertEqual([p.path for p in again.parameters().values()], ["fc/weight", "fc/bias"])
        self.assertEqual(again.graphs["g"].value("fc").shape, (4, 2))
        self.assertEqual(loss.graph.inputs()[0].shape, (4, 6))

    def test_arrays_beside_values(self):
        x = np.arange(24, dtype="f4").reshape(4, 6)
        for f in (lambda v, a: a * v, lambda v, a: v + a, lambda v, a: a - v):
            self.setUp()
            np.testing.assert_array_equal(self.run_it(f(self.x, x[0]), x), f(x, x[0]))
        self.assertEqual(self.x.var(1).shape, (4,))

    def test_fields_of_c_are_not_overrun(self):
        for mistake in (lambda: weft.SGD(1, schedule=[dict(kind="constant", begin=i) for i in range(60)]),
                        lambda: weft.SGD(1, groups=[dict(pattern="*", numbers=dict.fromkeys("abcdefgh", 1))]),
                        lambda: self.x.graph.input("im", "f32", [1, 1, 4, 4]).max_pool2d(kernel=[1] * 9)):
            with self.assertRaisesRegex(weft.Error, "are the most"):
                mistake()

    def test_what_is_closed_says_so(self):
        self.m.close()
        for use in (lambda: self.x + 1, lambda: self.m.text(), lambda: self.m.graph("other")):
            with self.assertRaisesRegex(weft.Error, "closed"):
                use()

    def test_constants_are_arrays(self):
        for array, dtype in [(np.arange(6, dtype="i8"), "i64"), ([[1, 2], [3, 4]], None), (np.eye(3, dtype="f8").T[:, ::2], None), (2.5, "f32")]:
            self.g.tensor(array, dtype)


class Plans(unittest.TestCase):
    def test_a_plan_is_read_before_it_runs(self):
        m = weft.Model("net")
        g = m.graph("train", train=True)
        loss = g.input("x", "f32", ["batch", 8]).linear(4, "fc").square().mean().output("loss")
        m.minimize(loss, optimizer=weft.AdamW(1e-3, schedule=[dict(kind="cosine", end=100)], groups=[dict(kinds="bias norm", decay_scale=0)]))
        plan = m.compile(batch=16, threads=1, world=2, zero=1)
        self.assertGreater(plan.memory["total"], plan.memory["parameters"])
        self.assertEqual(plan.batch, 16)
        self.assertEqual([(p.name, p.dtype, p.shape, p.has_batch) for p in plan.inputs("train")], [("x", "f32", (16, 8), True)])
        self.assertIn("adam_update", plan.text())
        self.assertIn("reduce_scatter", json.dumps(plan.json()))
        self.assertIn("threads", plan.settings)
        plan.verify()
        self.assertIn("autodiff", weft.passes())


    def test_pictures_are_graphtools(self):
        m = weft.Model("net")
        x = m.graph("g").input("x", "f32", ["batch", 8])
        with x.scope("head"):
            x.linear(4, "fc").output("y")
        for picture in (m.view("g"), m.compile(batch=3, threads=1).view("g"), m.compile(batch=3).view("g", what="plan")):
            self.assertTrue(picture._repr_svg_().lstrip().startswith("<?xml"))
        with self.assertRaisesRegex(weft.Error, "no graph.*nowhere"):
            m.view("nowhere")


class Documents(unittest.TestCase):
    OF_C = re.compile(r"\bNULL\b|\bWEFT_[A-Z]|\bweft_[a-z]|(^|[;:,] )0: ")
    # What Python does not have is called as in C.
    KEPT = re.compile(r"WEFT_(MAX_\w+|COMM_DEADLINE|TRAIN|ISA|PARAMS_\.\.\.|ARGUMENT|DATA|ORDER|SHAPE|NAME)|weft_(session_set_capture|hook_number|distribution|plateau_step|model_strategy|checkpoint_verify|launch|\w+_options)")

    def test_comments_of_the_headers_are_in_pythons_words(self):
        from weft import _fields, _ops
        seen = {f"weft.{n}": f.__doc__ for n, f in vars(_ops).items() if getattr(f, "__module__", "") == "weft._ops" and f.__doc__}
        seen |= {f"{of.__name__}.{n}": f.__func__.__doc__ for of in (weft.hooks, weft.evaluators) for n, f in vars(of).items() if isinstance(f, staticmethod)}
        for s in ("compile_options", "optimizer", "param_group", "schedule", "trainer_checkpoints", "trainer_options", "ddp_options", "plateau", "early_stop", "best", "samples"):
            seen |= {f"{s}.{n}": d for n, d in _fields.FIELDS[f"weft_{s}"].items()}
        self.assertGreater(len(seen), 300)
        wrong = {n: d for n, d in seen.items() if self.OF_C.search(self.KEPT.sub("", d))}
        self.assertEqual(wrong, {})
        self.assertIn("stride: None (default): 1", weft.conv2d.__doc__)
        for name, doc in seen.items():  # what Python returns is not asked for, and 0 is a true 0
            self.assertNotRegex(doc, r"not wanted|\*\w+ becomes?|\*indices|eps 0 means|field\.h|0 after an error|\boptions\.", name)
        for op, says in ((weft.layer_norm_op, "eps None means 1e-5, 0 a true 0"), (weft.lstm_op, "Returns a tuple of the result and c."), (weft.split, "Returns a list."),
                         (weft.batch_norm_op, "Returns a tuple of the result, mean and variance.")):
            self.assertIn(says, op.__doc__)
        self.assertIn("lr: learning rate; None (default): 1e-3", weft.Optimizer.__doc__)
        self.assertIn('output: [N,H,W] or [N,C,H,W], u8 or f32, C 1 or 3; None (default): the graph', weft.hooks.samples.__doc__)


class Lifetimes(unittest.TestCase):
    def test_any_order_of_dropping_is_fine(self):
        import itertools
        for order in itertools.permutations(range(4)):
            m = weft.Model("net")
            g = m.graph("g")
            g.input("x", "f32", [2]).relu().output("y")
            plan = m.compile()
            store = plan.store()
            held = [m, plan, store, store.session()]
            del m, g, plan, store
            for i in order:
                held[i] = None
                gc.collect()

    def test_pads_are_pairs(self):
        x = weft.Model("net").graph("g").input("x", "f32", [2, 3, 4])
        self.assertEqual(x.constant_pad([1, 2]).shape, (2, 3, 7))
        self.assertEqual(x.constant_pad([1, 2, 0, 1, 3, 0], 5).shape, (5, 4, 7))
        self.assertEqual(x.reflect_pad([1, 2]).shape, (2, 3, 7))
        with self.assertRaisesRegex(weft.Error, "not pairs"):
            x.constant_pad([1, 2, 3])

    def test_a_value_holds_its_model(self):
        x = weft.Model("net").graph("g").input("x", "f32", [2])
        gc.collect()
        self.assertEqual(x.relu().shape, (2,))


if __name__ == "__main__":
    unittest.main()
