"""Stores and sessions from Python: arrays in and out without copies, state_dict, manual steps."""
import os
import tempfile
import unittest

import numpy as np
import weft


def net(batch=4):
    m = weft.Model("net", batch=batch)
    g = m.graph("train", train=True)
    x = g.input("x", "f32", ["batch", 3])
    loss = (x.linear(2, "fc") - g.input("t", "f32", ["batch", 2])).square().mean().output("loss")
    m.minimize(loss, optimizer=weft.SGD(0.1))
    return m


class Sessions(unittest.TestCase):
    def setUp(self):
        self.plan = net().compile(threads=1)
        self.store = self.plan.store(seed=3)
        self.x, self.t = np.ones((4, 3), "f4"), np.zeros((4, 2), "f4")

    def test_a_step_is_sgds(self):
        w, b = self.store["fc/weight"], self.store["fc/bias"]
        with self.store.session() as s:
            loss = s.run("train", x=self.x, t=self.t)["loss"]
        y = self.x @ w.T + b
        np.testing.assert_allclose(loss, (y**2).mean(), rtol=1e-6)
        np.testing.assert_allclose(self.store["fc/bias"], b - 0.1 * (2 * y / y.size).sum(0), rtol=1e-5)

    def test_mistakes_name_the_input(self):
        with self.store.session() as s:
            for feeds, says in [(dict(x=self.x), "t"), (dict(x=self.x, t=self.t, z=self.t), "'z'"), (dict(x=self.x.astype("f8"), t=self.t), "float64"),
                                (dict(x=self.x[:3], t=self.t), r"\[3, 3\]")]:
                with self.assertRaisesRegex(weft.Error, says):
                    s.run("train", **feeds)
            with self.assertRaisesRegex(weft.Error, "los"):
                s.run("train", fetch="los", x=self.x, t=self.t)
            with self.assertRaisesRegex(weft.Error, "trian"):
                s.run("trian", x=self.x, t=self.t)

    def test_any_iterable_of_names_is_fetched(self):
        with self.store.session() as s:
            for fetch in ("loss", ["loss"], ("loss",), {"loss"}, frozenset(["loss"]), {"loss": 0}.keys(), (n for n in ["loss"]), iter(["loss"]), np.array(["loss"]).tolist()):
                self.assertEqual(list(s.run("train", fetch=fetch, x=self.x, t=self.t)), ["loss"])
            for fetch in (3, [3], self.x, object()):
                with self.subTest(fetch), self.assertRaisesRegex(weft.Error, "fetch is a .*: it is the name of an output"):
                    s.run("train", fetch=fetch, x=self.x, t=self.t)

    def test_results_go_into_the_callers_memory(self):
        into = np.full((), 7, "f4")
        with self.store.session() as s:
            result = s.run("train", fetch={"loss": into}, x=self.x, t=self.t)
            self.assertIs(result["loss"], into)
            self.assertNotEqual(into, 7)
            with self.assertRaisesRegex(weft.Error, "float64"):
                s.run("train", fetch={"loss": np.empty((), "f8")}, x=self.x, t=self.t)
            frozen = np.empty((), "f4")
            frozen.flags.writeable = False
            with self.assertRaisesRegex(weft.Error, "writable"):
                s.run("train", fetch={"loss": frozen}, x=self.x, t=self.t)

    def test_lists_numbers_views_and_dlpack_are_arrays(self):
        class Foreign:  # what has DLPack alone
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        losses = []
        for x in (self.x, self.x.tolist(), np.ones((3, 4), "f4").T, Foreign(self.x)):
            self.setUp()
            with self.store.session() as s:
                losses.append(float(s.run("train", x=x, t=self.t)["loss"]))
        self.assertEqual(len(set(losses)), 1)

    def test_16_bits_are_fed_as_they_are(self):
        m = weft.Model("net")
        m.graph("g").input("x", "bf16", [2]).cast("f32").output("y")
        with m.compile().store().session() as s:
            np.testing.assert_array_equal(s.run("g", x=np.array([0x3f80, 0xc000], "u2"))["y"], [1, -2])

    def test_numbers_are_converted_to_what_holds_them(self):
        m = weft.Model("net")
        g = m.graph("g")
        for dtype in ("i64", "u8", "bf16", "f32"):
            g.input(dtype, dtype, [2]).cast("f64").output(f"of_{dtype}")
        with m.compile().store().session() as s:
            fine = dict(i64=[1, -2], u8=[0, 255], bf16=[1.5, -2.0], f32=[0.5, 3])
            y = s.run("g", **fine)
            for name, numbers in fine.items():
                np.testing.assert_array_equal(y[f"of_{name}"], numbers)
            for name, wrong in (("i64", [1.7, 0]), ("u8", [300, 0]), ("u8", [-1, 0]), ("f32", ["1", "2"])):
                with self.assertRaisesRegex(weft.Error, name):
                    s.run("g", **(fine | {name: wrong}))
            with self.assertRaisesRegex(weft.Error, "not into a list"):
                s.run("g", fetch={"of_f32": [0.0, 0.0]}, **fine)
            with self.assertRaisesRegex(weft.Error, "u16"):
                s.run("g", **(fine | {"f32": np.zeros(2, "u2")}))

    def test_inputs_may_have_any_name(self):
        m = weft.Model("net")
        g = m.graph("g")
        (g.input("graph", "f32", [2]) + g.input("fetch", "f32", [2]) + g.input("self", "f32", [2])).output("y")
        with m.compile().store().session() as s:
            np.testing.assert_array_equal(s.run("g", feeds={"fetch": [1, 2]}, graph=[1, 1], self=[1, 1])["y"], [3, 4])

    def test_a_state_dict_is_loaded_whole_or_not(self):
        before = self.store["fc/weight"]
        with self.assertRaisesRegex(weft.Error, "fc/bias"):
            self.store.load_state_dict({"fc.weight": before + 1, "fc.bias": np.zeros(3, "f4")})
        np.testing.assert_array_equal(self.store["fc/weight"], before)

    def test_names_with_nul_are_refused(self):
        with self.assertRaisesRegex(weft.Error, "NUL"):
            self.store["fc/bias\0zz"]

    def test_state_dicts_have_pytorchs_names(self):
        state = self.store.state_dict()
        self.assertEqual(list(state), ["fc.weight", "fc.bias"])
        state["fc.bias"] = state["fc.bias"] + 1
        self.store.load_state_dict(dict(state, **{"bn.num_batches_tracked": 3}))
        np.testing.assert_array_equal(self.store["fc/bias"], state["fc.bias"])
        with self.assertRaisesRegex(weft.Error, "lacks fc.weight"):
            self.store.load_state_dict({"fc.bias": state["fc.bias"]})
        self.assertEqual(self.store.load_state_dict({"fc.bias": state["fc.bias"], "other": 1}, strict=False), (["fc.weight"], ["other"]))
        with self.assertRaisesRegex(weft.Error, "did you mean fc/bias"):
            self.store["fc/bais"]
        with self.assertRaisesRegex(weft.Error, r"\[2\], not \[3\]"):
            self.store["fc/bias"] = np.zeros(3, "f4")

    def test_weights_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w.safetensors")
            self.store.save(path)
            other = self.plan.store(seed=9)
            self.assertEqual(other.load(path), ([], []))
            np.testing.assert_array_equal(other["fc/weight"], self.store["fc/weight"])
            with self.assertRaisesRegex(weft.Error, "nowhere"):
                other.load(os.path.join(folder, "nowhere"))

    def test_steps_by_hand(self):
        manual = net().compile(threads=1, manual=True, accumulate=2)
        store, whole = manual.store(seed=3), self.store
        with store.session() as s, whole.session() as w:
            for _ in range(2):
                s.run("train", x=self.x, t=self.t)
            gradient = s.gradient("train", "fc/bias")
            s.update("train")
            w.run("train", x=self.x, t=self.t)
        self.assertEqual(gradient.shape, (2,))
        np.testing.assert_allclose(store["fc/bias"], whole["fc/bias"], rtol=1e-6)

    def test_rates_and_kinds(self):
        self.store.set_lr(0.5)
        self.assertEqual(list(self.store.lrs().values()), [0.5])
        self.assertEqual(self.store.paths("parameter"), ["fc/weight", "fc/bias"])

    def test_torch_tensors_in_and_out(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        with self.store.session() as s:
            into = torch.zeros(())
            s.run("train", fetch={"loss": into}, x=torch.ones(4, 3), t=torch.zeros(4, 2, requires_grad=True))
            self.assertGreater(float(into), 0)
        self.store["fc/weight"] = torch.full((2, 3), 1.5, dtype=torch.bfloat16)
        np.testing.assert_array_equal(self.store["fc/weight"], np.full((2, 3), 1.5, "f4"))
        m = torch.nn.Module()
        m.fc = torch.nn.Linear(3, 2)
        self.store.load_state_dict(m.state_dict())
        np.testing.assert_array_equal(self.store["fc/weight"], m.fc.weight.detach().numpy())


if __name__ == "__main__":
    unittest.main()
