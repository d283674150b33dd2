"""Trainers from Python: data, hooks, evaluators and steps that are Python functions; what they raise; Ctrl-C; ranks."""
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import weakref

import numpy as np
import weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
X = np.random.default_rng(0).normal(size=(200, 20)).astype("f4")
Y = (X @ np.random.default_rng(1).normal(size=(20, 5))).argmax(1)


def classifier():
    m = weft.Model("net", batch=20)
    for name in ("train", "val"):
        g = m.graph(name, train=name == "train")
        logits = g.input("x", "f32", ["batch", 20]).linear(5, "fc").output("logits")
        loss = weft.cross_entropy(logits, g.input("y", "i64", ["batch"])).output("loss")
        if name == "train":
            m.minimize(loss, optimizer=weft.Adam(1e-2))
    return m


class Rows:
    """A data set of Python."""

    def __init__(self, bad=None):
        self.bad = bad

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError(f"no sample {i}")
        return {"x": X[i], "y": int(Y[i])}


class Trainers(unittest.TestCase):
    def trainer(self, **options):
        options = dict(train={"x": X, "y": Y}, batch=20, threads=1, epochs=2) | options
        return weft.Trainer(classifier(), **options)

    def test_arrays_objects_and_files_give_the_same_training(self):
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "x.npy"), X)
            np.save(os.path.join(folder, "y.npy"), Y)
            files = {n: os.path.join(folder, f"{n}.npy") for n in "xy"}
            weights = [self.trainer(train=data).fit().store["fc/weight"] for data in ({"x": X, "y": Y}, Rows(), files, weft.arrays(x=X, y=Y))]
        for w in weights[1:]:
            np.testing.assert_array_equal(w, weights[0])

    def test_hooks_are_functions_and_objects(self):
        seen, steps = [], []

        class Steps(weft.Hook):
            def after_iteration(self, trainer):
                steps.append(trainer.progress.train["loss"])
                if len(steps) == 13:
                    trainer.stop()

        t = self.trainer(hooks=[Steps(), lambda trainer, point: seen.append(point)]).fit()
        self.assertEqual((len(steps), t.progress.iteration, t.progress.epoch), (13, 13, 1))
        self.assertLess(steps[-1], steps[0])
        self.assertEqual((seen[0], seen[-1], seen.count("before_iteration")), ("before_run", "after_run", 13))
        with self.assertRaisesRegex(weft.Error, "no hook"):
            self.trainer(hooks=[3])

    def test_what_python_raises_reaches_the_program(self):
        def bad(trainer, point):
            if point == "after_iteration" and trainer.progress.iteration == 3:
                raise KeyError("mine")

        def step(trainer):
            trainer.run("train")
            raise OverflowError("step")

        for options, kind, says in [(dict(hooks=[bad]), KeyError, "mine"), (dict(train=Rows(bad=57)), KeyError, "no sample 57"),
                                    (dict(train_step=step, iterations=2), OverflowError, "step")]:
            with self.assertRaisesRegex(kind, says):
                self.trainer(**options).fit()
            try:
                self.trainer(**options).fit()
            except kind as why:
                self.assertIn(traceback.extract_tb(why.__traceback__)[-1].name, ("bad", "__getitem__", "step"))

    def test_an_exception_reaches_the_program_whatever_its_text(self):
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        def raises(why):
            def hook(trainer, point):
                raise why
            return hook

        for why in (Odd(), ValueError("\udcff"), ValueError("a\0b"), ValueError("ö" * 400), KeyboardInterrupt(), SystemExit(3)):
            with self.assertRaises(type(why)) as caught:
                self.trainer(hooks=[raises(why)]).fit()
            self.assertIs(caught.exception, why)

    def test_a_signal_in_a_callback_is_not_lost(self):
        """Python runs a signal's handler at the first instruction of the function that C calls."""
        for _ in range(5):
            t = self.trainer(epochs=10**6, hooks=[lambda trainer, point: None])
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                t.fit()

    def test_each_trainer_raises_its_own_exception(self):
        for i in (1, 12, 3):
            with self.assertRaisesRegex(KeyError, f"no sample {i}'"):
                self.trainer(train=Rows(bad=i), in_order=True).fit()

    def test_samples_are_taken_by_their_names(self):
        class Turned(Rows):
            def __getitem__(self, i):
                sample = super().__getitem__(i)
                return dict(reversed(sample.items())) if i % 2 else sample

        class Short(Rows):
            def __getitem__(self, i):
                return {"x": X[i]} if i == 7 else super().__getitem__(i)

        np.testing.assert_array_equal(self.trainer(train=Turned()).fit().store["fc/weight"], self.trainer(train=Rows()).fit().store["fc/weight"])
        with self.assertRaisesRegex(weft.Error, "sample 7 has x; sample 0 has x, y"):
            self.trainer(train=Short()).fit()
        with self.assertRaisesRegex(weft.Error, "2 arrays, and the names x"):
            weft.samples([(X[0], Y[0])], names=["x"])

    def test_what_is_closed_early_is_freed_late(self):
        sources = weft.arrays(x=X, y=Y)
        t = self.trainer(train=sources, hooks=[lambda trainer, point: trainer.close() if point == "after_epoch" else None])
        for source in sources:
            source.close()
        plan, store = t.plan, t.store
        t.fit()
        for use in (t.fit, lambda: t.plan, lambda: len(sources[0])):
            with self.assertRaisesRegex(weft.Error, "is closed"):
                use()
        self.assertGreater(plan.memory["total"], 0)
        self.assertEqual(store["fc/bias"].shape, (5,))

    def test_a_fit_within_a_step_leaves_ctrl_c_to_the_outer_one(self):
        inner = self.trainer()

        def step(trainer):
            trainer.run("train")
            if trainer.progress.iteration == 0:
                inner.fit()

        t = self.trainer(train_step=step, iterations=10**6, epochs=10**6)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            t.fit()

    def test_rows_have_the_width_of_the_evaluator(self):
        class Short(weft.Evaluator):
            name, reads, width = "short", ("logits",), 4

            def batch(self, tally, logits):
                tally.row([1.0])

            def report(self, tally):
                pass

        with self.assertRaisesRegex(weft.Error, "1 numbers, and the evaluator's width is 4"):
            self.trainer(val={"x": X, "y": Y}, evaluators=[Short()]).fit()

    def test_evaluators_count_in_python(self):
        class Right(weft.Evaluator):
            name, reads, counts, sums, width = "right", ("logits", "y"), 2, 1, 2

            def batch(self, tally, logits, y):
                tally.count(0, int((logits.argmax(1) == y).sum()))
                tally.count(1, len(y))
                tally.add(0, float(logits.sum()))
                for row, label in zip(logits, y):
                    tally.row([row[0], label])

            def report(self, tally):
                tally.report(tally.counted(0) / tally.counted(1))
                tally.report(len(tally.rows()), "rows")

        t = self.trainer(val={"x": X, "y": Y}, evaluators=[Right(), weft.evaluators.accuracy("logits", "y")]).fit()
        found = t.validate()
        self.assertEqual(found["right"], found["accuracy"])
        self.assertEqual(found["right/rows"], len(X))
        logits = t.predict({"x": X, "y": Y}, graph="val", output="logits")
        self.assertEqual(float((logits.argmax(1) == Y).mean()), found["right"])

    def test_checkpoints_resume(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = self.trainer(epochs=2).fit().store["fc/weight"]
            self.trainer(epochs=1, checkpoints=dict(folder=folder, every=3)).fit()
            with self.trainer(checkpoints=dict(folder=folder, resume="auto")), self.assertRaisesRegex(weft.Error, r"writes its checkpoints there: .* close\(\) it"):
                self.trainer(checkpoints=dict(folder=folder, resume="auto"))
            resumed = self.trainer(epochs=2, checkpoints=dict(resume=folder)).fit()
            np.testing.assert_array_equal(resumed.store["fc/weight"], whole)

    def test_mistakes(self):
        for options, says in [(dict(epoch=3), "did you mean epochs"), (dict(train={"x": X, "label": Y}), "label"), (dict(train=3), "not a dict"),
                              (dict(checkpoints=dict(ever=3)), "did you mean every")]:
            with self.assertRaisesRegex(weft.Error, says):
                self.trainer(**options)

    def test_a_trainer_dies_with_the_hooks_that_refer_to_it(self):
        """Hooks, evaluators, steps and samplers that have their trainer; `close` frees it before."""
        class Right(weft.Evaluator):
            name, reads = "right", ("logits",)

            def batch(self, tally, logits):
                self.trainer.progress

            def report(self, tally):
                tally.report(1.0)

        class Steps(weft.Hook):
            def after_iteration(self, trainer):
                self.seen = self.trainer is trainer

        for close in (False, True):
            held, steps, right = [], Steps(), Right()

            def step(trainer, held=held):
                held[0].run("train")

            t = self.trainer(hooks=[steps, lambda trainer, point, held=held: held], evaluators=[right], train_step=step, iterations=3, val={"x": X, "y": Y},
                             sampler=lambda epoch, n, held=held: range(n))
            held.append(t)
            steps.trainer = right.trainer = t
            t.fit()
            self.assertTrue(steps.seen)
            if close:
                t.close()
            gone, owned = weakref.ref(t), weakref.ref(t._owned) if t._owned else None
            del t, held, steps, right, step
            gc.collect()
            self.assertIsNone(gone())
            self.assertIsNone(owned and owned())

    def test_a_trainer_is_a_context(self):
        with self.trainer() as t:
            t.fit()
        with self.assertRaisesRegex(weft.Error, "this Trainer is closed"):
            t.fit()

    def test_a_function_gives_the_order_of_samples(self):
        seen = []

        def backwards(epoch, n):
            seen.append((epoch, n))
            return np.arange(n)[::-1]

        turned = {"x": X[::-1].copy(), "y": Y[::-1].copy()}
        np.testing.assert_array_equal(self.trainer(sampler=backwards).fit().store["fc/weight"], self.trainer(train=turned, in_order=True).fit().store["fc/weight"])
        self.assertIn((1, 200), seen)
        few = self.trainer(sampler=lambda epoch, n: [7] * n, sampler_count=40, epochs=1).fit()
        self.assertEqual(few.progress.iteration, 2)

        for sampler, kind, says in [(lambda e, n: 1 / 0, ZeroDivisionError, "division"), (lambda e, n: range(n - 1), weft.Error, "200 numbers of samples"),
                                    (lambda e, n: [10**6] * n, weft.Error, "names sample 1000000, there are 200"), (lambda e, n: [0.5] * n, weft.Error, "sampler")]:
            with self.assertRaisesRegex(kind, says):
                self.trainer(sampler=sampler).fit()

    def test_a_sampler_that_failed_says_so_and_none_trains_within(self):
        calls = []

        def late(epoch, n):
            calls.append(epoch)
            return range(n) if epoch < 2 else 1 / 0

        t = self.trainer(sampler=late, epochs=5)
        with self.assertRaises(ZeroDivisionError):
            t.fit()
        for again in (t.fit, t.step):
            with self.assertRaisesRegex(weft.Error, r"sampler: it failed for epoch 2 \(ZeroDivisionError: .*make a new trainer"):
                again()
        self.assertEqual(calls[-1], 2)
        for name in ("fit", "step"):
            box = []
            t = self.trainer(sampler=lambda epoch, n, box=box, name=name: getattr(box[0], name)() if box and epoch else range(n), epochs=3)
            box.append(t)
            with self.assertRaisesRegex(weft.Error, rf"sampler: it calls {name}\(\) of its trainer"):
                t.fit()

    def test_what_hooks_raise_keeps_no_trainer(self):
        """A hook that raises at each point: C says the first alone."""
        from weft import _lib

        class Bad(weft.Hook):
            def after_iteration(self, trainer):
                raise ValueError("method")

        def bad(trainer, point):
            raise ValueError("point")

        _lib._raised.clear()  # a loader that read ahead may have raised after the test before this one had its exception
        for hook in (bad, Bad()):
            with tempfile.TemporaryDirectory() as folder:
                for _ in range(2):  # the folder of the first is free again
                    t = self.trainer(hooks=[hook], checkpoints=dict(folder=folder, every=1))
                    with self.assertRaisesRegex(ValueError, "method|point"):
                        t.fit()
                    gone = weakref.ref(t)
                    del t
                    gc.collect()
                    self.assertIsNone(gone())
                    self.assertEqual(_lib._raised, {})

    def test_hooks_take_none_for_the_default_and_no_class(self):
        with tempfile.TemporaryDirectory() as folder:
            hooks = [getattr(weft.hooks, n)(os.path.join(folder, n + end), every=None) for n, end in (("json", ".json"), ("csv", ".csv"), ("tensorboard", ""), ("curves", ".svg"))]
            with open(os.path.join(folder, "text"), "w") as log:
                self.trainer(hooks=[*hooks, weft.hooks.text(log, every=None)], epochs=1).fit()
            self.assertGreater(len(os.listdir(folder)), 4)

        class H(weft.Hook):
            def after_iteration(self, trainer):
                pass

        for says, mistake in (("every='3': a whole number", lambda: weft.hooks.csv("x", every="3")), (r"H is a class: give an object of it, H\(\)", lambda: self.trainer(hooks=[H])),
                              (r"Evaluator is a class: give an object of it, Evaluator\(\)", lambda: self.trainer(evaluators=[weft.Evaluator], val={"x": X, "y": Y}))):
            with self.assertRaisesRegex(weft.Error, says):
                mistake()

    def test_ctrl_c_ends_a_training(self):
        t = self.trainer(epochs=10**6)
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            t.fit()
        self.assertGreater(t.progress.iteration, 0)
        t.step()  # it is as good as before

    def test_two_ranks_have_the_same_weights(self):
        graphtool = os.environ.get("WEFT_GRAPHTOOL")
        if not graphtool:
            self.skipTest("WEFT_GRAPHTOOL names no graphtool")
        launch, lib = [graphtool, "launch", "-n", "2", "--"], os.path.join(os.path.dirname(weft.__file__), "lib")
        ways = {"local": launch}
        if any("weft_ucx" in name for name in os.listdir(lib)):
            ways["ucx"] = launch
        if shutil.which("mpirun") and any("weft_mpi" in name for name in os.listdir(lib)):
            ways["mpi"] = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "-x", "PYTHONPATH"]
        bits = set()
        for way, start in ways.items():
            out = subprocess.run([*start, sys.executable, os.path.abspath(__file__), "ranks", way], capture_output=True, text=True, timeout=120)
            self.assertEqual(out.returncode, 0, f"{way}: {out.stderr}")
            self.assertEqual(len(out.stdout.split()), 2, out.stdout)
            bits |= set(out.stdout.split())
        self.assertEqual(len(bits), 1)

    def test_ctrl_c_ends_the_wait_for_another_rank(self):
        graphtool = os.environ.get("WEFT_GRAPHTOOL")
        if not graphtool:
            self.skipTest("WEFT_GRAPHTOOL names no graphtool")
        began = time.monotonic()
        out = subprocess.run([graphtool, "launch", "-n", "2", "--grace", "5", "--", sys.executable, os.path.abspath(__file__), "waits"],
                             capture_output=True, text=True, timeout=120)
        self.assertIn("interrupted", out.stdout, out.stderr)
        self.assertLess(time.monotonic() - began, 60)


def one_of_two(way):
    comm = weft.world(way)
    t = weft.Trainer(classifier(), train={"x": X, "y": Y}, batch=20, threads=1, epochs=2, comm=comm).fit()
    sys.stdout.write(t.store["fc/weight"].tobytes().hex()[:64] + "\n")


def one_that_waits():
    comm = weft.world()
    m = classifier()
    plan = m.compile(batch=20, threads=1, world=2, rank=comm.rank, graph="train")
    with plan.store().session(comm=comm) as s:
        s.run("train", x=X[:20], y=Y[:20])
        if comm.rank == 1:
            time.sleep(600)
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            s.run("train", x=X[:20], y=Y[:20])
        except KeyboardInterrupt:
            sys.stdout.write("interrupted\n")
            sys.stdout.flush()
    os._exit(1)  # the launcher ends the other rank


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        one_of_two(sys.argv[2])
    elif sys.argv[1:2] == ["waits"]:
        one_that_waits()
    else:
        unittest.main()
