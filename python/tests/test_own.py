"""Ops and optimizers of a program, as Python functions."""
import os
import tempfile
import traceback
import unittest

import numpy as np
import weft


def shrink(operands, results, threshold):
    x, = operands
    results[0][...] = np.sign(x) * np.maximum(np.abs(x) - np.float32(threshold), 0)


def shrink_gradient(g):
    return [g.result_gradients[0] * g.results[0].sign().abs()]


def the_ops():
    ops = weft.OpSet()
    ops.define("test.shrink", shrink, reals={"threshold": 0.5}, gradient=shrink_gradient)
    return ops


def curve(ops):
    m = weft.Model("curve", ops=ops)
    g = m.graph("train", train=True)
    h = weft.call_op("test.shrink", [g.input("x", "f32", [8, 1]).linear(4, "in")], threshold=0.1)
    loss = h.linear(1, "out").square().mean().output("loss")
    m.minimize(loss, optimizer=weft.SGD(0.1))
    return m


def raised_in(call):
    """The name of the function in which a call raised: the last of its traceback, which assertRaises() drops."""
    try:
        call()
    except Exception as why:
        return traceback.extract_tb(why.__traceback__)[-1].name


class Updates(unittest.TestCase):
    def test_what_no_update_reads_is_not_set(self):
        def trained(build):
            m = weft.Model("m")
            weft.own.define_optimizer(m, "mine", build, slots={"kept": 0}, numbers={"momentum": 0.9})
            g = m.graph("train", train=True)
            m.minimize(g.parameter("w", [3], "ones").square().mean().output("loss"), None, weft.Optimizer("mine", lr=0.5))
            store = m.compile(threads=1).store()
            with store.session() as s:
                s.run("train")
            return store["w"]

        def right(u):
            u.slots["kept"] = u.slots["kept"] + u.gradient
            u.parameter = u.parameter - u.scale(u.gradient, u.lr)

        np.testing.assert_allclose(trained(right), 1 - 0.5 * 2 / 3, rtol=1e-6)
        for says, name, value in (("no 'param': did you mean 'parameter'", "param", 1), ("u.lr: it is given", "lr", 3), ("u.gradient: it is given", "gradient", 3),
                                  ("u.slots: it takes one value at a time", "slots", {"kept": 1}), ("u.numbers: it is given", "numbers", {})):
            with self.subTest(name), self.assertRaisesRegex(weft.Error, says):
                trained(lambda u, name=name, value=value: setattr(u, name, value))
        with self.assertRaisesRegex(weft.Error, "momentum.*: it is given"):
            trained(lambda u: u.numbers.__setitem__("momentum", 3))


class Ops(unittest.TestCase):
    def losses(self, m, steps=5):
        with m.compile(threads=1).store(seed=1).session() as s:
            return [float(s.run("train", x=np.linspace(-1, 1, 8, dtype="f4")[:, None])["loss"]) for _ in range(steps)]

    def test_an_op_trains_and_is_read_back(self):
        ops = the_ops()
        m = curve(ops)
        losses = self.losses(m)
        self.assertLess(losses[-1], losses[0])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.bin")
            m.save(path)
            self.assertEqual(self.losses(weft.load(path, ops=ops)), losses)
            with self.assertRaisesRegex(weft.Error, "test.shrink"):
                weft.load(path)

    def test_types_are_inferred_and_results_several(self):
        ops = weft.OpSet()

        def both(operands, results):
            results[0][...] = operands[0].sum(1)
            results[1][...] = operands[0].argmax(1)

        def types(operands):
            (dtype, shape), = operands
            if len(shape) != 2:
                raise ValueError(f"x has {len(shape)} axes, and 2 are needed")
            return [(dtype, shape[:1]), ("i64", shape[:1])]

        ops.define("test.both", both, results=2, infer=types)
        m = weft.Model("m", ops=ops)
        x = m.graph("g").input("x", "f32", ["batch", 3])
        total, place = weft.call_op("test.both", [x])
        total.output("total"), place.output("place")
        self.assertEqual((place.dtype, place.shape), ("i64", (1,)))
        with self.assertRaisesRegex(ValueError, "2 are needed"):
            weft.call_op("test.both", [total])
        with m.compile(batch=2).store().session() as s:
            y = s.run("g", x=[[1, 5, 2], [7, 0, 1]])
        np.testing.assert_array_equal(y["total"], [8, 8])
        np.testing.assert_array_equal(y["place"], [1, 0])

    def test_what_a_kernel_raises_reaches_the_program(self):
        ops = weft.OpSet()

        def bad(operands, results):
            raise ZeroDivisionError("in the kernel")

        ops.define("test.bad", bad)
        m = weft.Model("m", ops=ops)
        weft.call_op("test.bad", [m.graph("g").input("x", "f32", [2])]).output("y")
        with m.compile().store().session() as s, self.assertRaisesRegex(ZeroDivisionError, "in the kernel"):
            s.run("g", x=[1, 2])

    def test_kernels_and_types_that_do_not_fill_their_results(self):
        ops = weft.OpSet()
        ops.define("test.returns", lambda operands, results: [operands[0] * 2])
        ops.define("test.few", lambda operands, results: None, results=2, infer=lambda types: types)
        m = weft.Model("m", ops=ops)
        x = m.graph("g").input("x", "f32", [2])
        weft.call_op("test.returns", [x]).output("y")
        with self.assertRaisesRegex(weft.Error, "1 types for 2 results"):
            weft.call_op("test.few", [x])
        with m.compile().store().session() as s, self.assertRaisesRegex(weft.Error, "returns something"):
            s.run("g", x=[1, 2])

    def test_mistakes(self):
        ops = the_ops()
        with self.assertRaisesRegex(weft.Error, "test.shrink"):
            ops.define("test.shrink", shrink)
        with self.assertRaisesRegex(weft.Error, "'shrink'"):
            ops.define("shrink", shrink)
        x = weft.Model("m", ops=ops).graph("g").input("x", "f32", [2])
        with self.assertRaisesRegex(weft.Error, "treshold"):
            weft.call_op("test.shrink", [x], treshold=0.1)

    def test_what_a_gradient_raises_comes_at_minimize(self):
        def bad(g):
            raise LookupError("no rule")

        for gradient, kind, says in ((bad, LookupError, "no rule"), (lambda g: 3, weft.Error, "gradient returns a int"), (lambda g: [3], weft.Error, "by operand 0: it is a int")):
            ops = weft.OpSet()
            ops.define("test.shrink", shrink, reals={"threshold": 0.5}, gradient=gradient)
            if kind is weft.Error:
                with self.assertRaisesRegex(kind, says):
                    curve(ops).compile()
            else:
                with self.assertRaisesRegex(kind, says):
                    curve(ops)
                self.assertEqual(raised_in(lambda ops=ops: curve(ops)), "bad")
        for what in ("kernel", "infer", "gradient"):
            with self.assertRaisesRegex(weft.Error, f"{what} is a int: a function"):
                weft.OpSet().define("test.x", **{"kernel": shrink, what: 3})


class Optimizers(unittest.TestCase):
    @staticmethod
    def signum(u):
        u.slots["momentum_buffer"] = u.gradient + u.scale(u.slots["momentum_buffer"] - u.gradient, u.numbers["momentum"])
        u.parameter = u.parameter - u.scale(u.slots["momentum_buffer"].sign(), u.lr)

    def net(self, build):
        m = weft.Model("net")
        weft.define_optimizer(m, "signum", build, slots={"momentum_buffer": 0}, numbers={"momentum": 0.9})
        g = m.graph("train", train=True)
        loss = (g.input("x", "f32", [4, 3]).linear(2, "fc") - 1).square().mean().output("loss")
        m.minimize(loss, optimizer=weft.Optimizer("signum", lr=0.01, momentum=0.5))
        return m

    def test_an_optimizer_is_a_function(self):
        store = self.net(self.signum).compile(threads=1).store(seed=1)
        before = store["fc/bias"]
        with store.session() as s:
            s.run("train", x=np.ones((4, 3), "f4"))
        np.testing.assert_allclose(np.abs(store["fc/bias"] - before), 0.01, rtol=1e-5)
        self.assertTrue(any("momentum_buffer" in p for p in store.paths("slot")))

    def test_what_it_raises_reaches_the_program(self):
        def bad(u):
            raise LookupError("no such rule")
        with self.assertRaisesRegex(LookupError, "no such rule"):
            self.net(bad)
        self.assertEqual(raised_in(lambda: self.net(bad)), "bad")
        with self.assertRaisesRegex(weft.Error, "do not broadcast"):
            self.net(lambda u: setattr(u, "parameter", u.parameter + u.parameter.graph.tensor([1.0] * 7)))

    def test_mistakes_of_a_build_function(self):
        def unknown(u):
            u.slots["momentum_bufer"] = u.gradient

        for build, says in ((3, "build is a int"), (unknown, "did you mean 'momentum_buffer'"), (lambda u: setattr(u, "parameter", np.zeros(3)), "u.parameter: it is a ndarray"),
                            (lambda u: u.slots.update() or u.slots.__setitem__("momentum_buffer", 3), "a value of the graph is needed"),
                            (lambda u: u.numbers["momentm"], "did you mean 'momentum'")):
            with self.assertRaisesRegex(weft.Error, says):
                self.net(build)


if __name__ == "__main__":
    unittest.main()
