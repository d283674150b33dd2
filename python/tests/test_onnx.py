"""ONNX files from Python: a file becomes graphs that train, a graph a file, and that a graph again. Numbers of small.onnx are onnxruntime's."""
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

import weft

SMALL = Path(__file__).resolve().parents[2] / "tests/onnx/small.onnx"
IMAGE = ((np.arange(32, dtype="f").reshape(2, 1, 4, 4) - 16) / 8)
WANTED = np.array([[4.59375, 1.46875, 5.21875], [0.78125, 1.7109375, -1.5234375]], "f")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = lambda name: os.path.join(self.folder.name, name)

    def imported(self, path, batch=2, **options):
        """The model, and a store with the file's values."""
        model = weft.Model("small", batch=batch)
        with weft.Onnx(path) as file:
            file.graph(model, "predict", **options)
            file.weights(self.path("w.safetensors"))
        store = model.compile().store()
        store.load(self.path("w.safetensors"))
        return model, store

    def run_it(self, store, image):
        with store.session() as s:
            return s.run("predict", image=image)["logits"]

    def test_a_graph_gives_the_files_numbers(self):
        _, store = self.imported(SMALL)
        np.testing.assert_array_equal(self.run_it(store, IMAGE), WANTED)

    def test_there_and_back(self):
        model, store = self.imported(SMALL)
        weft.export_onnx(model.graphs["predict"], self.path("again.onnx"), store)
        weft.export_onnx(model.graphs["predict"], self.path("apart.onnx"), self.path("w.safetensors"), external_data=True)
        for name in ("again.onnx", "apart.onnx"):
            _, store = self.imported(self.path(name), batch=1)
            with store.session() as s:
                for i in range(2):
                    np.testing.assert_allclose(s.run("predict", image=IMAGE[i:i + 1])["logits"], WANTED[i:i + 1], rtol=1e-6)

    def test_it_trains(self):
        model = weft.Model("small", batch=2)
        with weft.Onnx(SMALL) as file:
            g = file.graph(model, "train", train=True)
            self.assertIsNone(file.value("nothing"))
            self.assertEqual(file.notes(), [])  # nothing is folded or stored once
            label = g.input("label", "i64", ["batch"])
            loss = weft.cross_entropy(file.value("logits"), label)
            model.minimize(loss, optimizer=weft.Adam(1e-2))
            loss.output("loss")
            file.weights(self.path("w.safetensors"))
        store = model.compile().store()
        store.load(self.path("w.safetensors"))
        with store.session() as s:
            losses = [float(s.run("train", image=IMAGE, label=np.array([0, 1]))["loss"]) for _ in range(30)]
        self.assertLess(losses[-1], losses[0] / 2)

    def test_axes_and_constants(self):
        model = weft.Model("small")
        with weft.Onnx(SMALL) as file:
            g = file.graph(model, "five", axes={"batch": 5})
            self.assertEqual([p.shape for p in g.inputs()], [(5, 1, 4, 4)])
            self.assertEqual(file.graph(model, "known", constants={"image": IMAGE}).inputs(), [])

    def test_what_is_wrong_is_an_error(self):
        with self.assertRaisesRegex(weft.Error, "nothing.onnx: cannot be opened"):
            weft.Onnx("nothing.onnx")
        with weft.Onnx(SMALL) as file, self.assertRaisesRegex(weft.Error, "axis 'batch'"):
            file.graph(weft.Model("m"), axes={"batch": 0})
        model, store = self.imported(SMALL)
        with self.assertRaisesRegex(weft.Error, "nowhere/x.onnx"):
            weft.export_onnx(model.graphs["predict"], self.path("nowhere/x.onnx"), store)

    def test_a_head(self):
        model = weft.Model("small")
        with weft.Onnx(SMALL) as file:
            g = file.graph(model, "predict", head=("logits", 10))
            self.assertEqual(file.value("logits").shape, (1, 10))
            with self.assertRaisesRegex(weft.Error, "there is no linear layer that makes 'x'; there is logits"):
                file.graph(weft.Model("m"), head=("x", 10))
        self.assertEqual(model.parameters()["fc/weight"].shape, (10, 8))
        self.assertEqual(g.name, "predict")


if __name__ == "__main__":
    unittest.main()
