"""The examples in Python are those in C: the same weights to the bit, the same losses."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import weft

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOOLS = Path(os.environ["WEFT_GRAPHTOOL"]).resolve().parent if "WEFT_GRAPHTOOL" in os.environ else None
sys.path.insert(0, str(EXAMPLES))


@unittest.skipUnless(TOOLS, "WEFT_GRAPHTOOL names no graphtool, beside which the examples in C are")
class Examples(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)

    def run_it(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_gan(self):
        images = self.folder / "images.npy"
        np.save(images, np.random.default_rng(0).integers(0, 256, (256, 28, 28), dtype="u1"))
        for name, program in (("c", [TOOLS / "weft-gan"]), ("py", [sys.executable, EXAMPLES / "gan.py"])):
            self.run_it(*program, images, self.folder / name, 3)
        self.assertEqual((self.folder / "c").read_bytes(), (self.folder / "py").read_bytes())

    def test_gpt_is_the_zoos(self):
        import gpt
        sizes = dict(layers=2, d=32, heads=2, ctx=16)
        binary = self.folder / "gpt.bin"
        self.run_it(TOOLS / "weft-zoo", "gpt", "-o", binary, "--vocab=65", *(f"--{k}={v}" for k, v in sizes.items()))
        rng = np.random.default_rng(0)
        tokens, target = (rng.integers(0, 65, (4, 16), dtype="int32") for _ in range(2))
        losses = []
        for m in (weft.load(binary), gpt.GPT(65, **sizes).model(weft.AdamW(3e-4, weight_decay=0.1))):
            with m.compile(batch=4, threads=1).store(seed=5).session() as s:
                losses.append([float(s.run("train", tokens=tokens, target=target)["loss"]) for _ in range(3)])
        self.assertEqual(losses[0][0], losses[1][0])
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)

    def test_dino_is_the_zoos(self):
        import dino
        binary = self.folder / "dino.bin"
        self.run_it(TOOLS / "weft-zoo", "dino", "-o", binary)
        rng = np.random.default_rng(0)
        crops = {f"crop{i}": rng.normal(size=(2, 3, *[32 if i < 2 else 16] * 2)).astype("f4") for i in range(6)}
        losses = []
        for m in (weft.load(binary), dino.DINO().model()):
            with m.compile(batch=2, threads=1).store(seed=5).session() as s:
                for _ in range(2):
                    s.run("teacher", momentum=np.float32(0.99))
                    losses.append(float(s.run("train", teacher_temp=np.float32(0.05), **crops)["loss"]))
        self.assertEqual(losses[0], losses[2])
        self.assertAlmostEqual(losses[1], losses[3], places=4)

    def test_gpt_writes(self):
        text = self.folder / "text"
        text.write_text("to be or not to be, that is the question. " * 40)
        out = self.run_it(sys.executable, EXAMPLES / "gpt.py", text, 5, 1, 16, 2, 8)
        self.assertIn("windows; a step takes", out)
        self.assertTrue(out.splitlines()[-1].startswith("to be or"), out)


if __name__ == "__main__":
    unittest.main()
