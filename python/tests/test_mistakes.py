"""Mistakes in calls of the package: what the error says, and that it says it in words of Python: no option of graphtool, no name of C."""
import re
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
import weft
from weft._structs import fields_of
from weft._words import in_python

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
Y = np.zeros(40, "i8")
DATA = {"image": X, "label": Y}
FEEDS = {"image": X[:4], "label": Y[:4], "weight": 1.0}
OF_C = re.compile(r"--[a-z]|\bweft_|\bWEFT_(?!JOB_TOKEN|CUDA|MPI|UCX|ISA)|\bNULL\b|\boptions\.|graphtool: |\bcdata\b|\bctype\b")


def model():
    m = weft.Model("net", batch=4)
    for name in ("train", "val"):
        g = m.graph(name, train=name == "train")
        x = g.input("image", "f32", ["batch", 3])
        with g.scope("generator"):
            x = x.linear(5, "fc").output("logits")
        loss = weft.cross_entropy(x, g.input("label", "i64", ["batch"]))
        if name == "train":
            m.minimize((loss * g.input("weight", "f32", [])).output("loss"), "generator", weft.Adam(1e-3, name="opt"))
        else:
            loss.output("loss")
    return m


def trainer(**options):
    return weft.Trainer(model(), **{**dict(train=DATA, batch=4, set={"weight": 1}, iterations=1, threads=1), **options})


def session():
    return model().compile(threads=1).store().session()


def store():
    return model().compile(threads=1).store()


def minimize(pattern=None, optimizer=None, train=True, **fields):
    m = weft.Model("net", batch=4)
    g = m.graph("train", train=train)
    with g.scope("generator"):
        y = g.input("image", "f32", ["batch", 3]).linear(5, "fc")
    m.minimize(y.square().mean(), pattern, optimizer or (weft.SGD(**fields) if fields else None))
    return m


class Step(weft.Evaluator):
    name, reads = "step", ("logits",)


# A call, and what its error has.
CALLS = """
trainer(train={"imag": X, "label": Y})                              | data imag: .* did you mean 'image'
trainer(train={"image": X})                                         | input label .* is not fed: no data for it: train={"label": ...}, and val= for
trainer(train={"image": X.astype("f8"), "label": Y})                | or a file by weft.data\\("FILE:dtype=f32"\\)
trainer(train={"image": X[:, :2], "label": Y})                      | f32\\[40,2\\], graph train takes f32\\[4,3\\]
trainer(train={"image": X, "label": Y[:30]})                        | 30 samples
trainer(train={"image": X, "label": object()})                      | label is a object
trainer(train=3)                                                    | not a dict of arrays
trainer(train=None)                                                 | train={"image": ...}
trainer(train={"image": "nowhere.npy"})                             | nowhere.npy
trainer(set=None)                                                   | give it a number, set={"weight": NUMBER}
trainer(set={"weigth": 1})                                          | did you mean 'weight'
trainer(set="weight=a")                                             | it must be a number, a curve
trainer(set={"image": 3})                                           | \\(set=\\)
trainer(train={**DATA, "weight": np.zeros(40, "f4")})               | leave out one of them \\(set=\\)
trainer(epochs="3")                                                 | epochs='3'
trainer(epochs=-1)                                                  | \\(None, the default, is
trainer(batch=1000).fit()                                           | smaller batch
trainer(precision="f33")                                            | f32, f64, bf16
model().compile(precision="bf-16")                                  | 'bf-16' is not one of: f32, .*: did you mean bf16\\?
model().compile(precision="half")                                   | did you mean f16\\?
model().compile(device="cpuu")                                      | did you mean cpu\\?
trainer(flow="trian")                                               | flow 'trian'
trainer(val=DATA, val_graph="vall")                                 | did you mean 'val'
trainer(val_every=3)                                                | there is no option val_every
trainer(strategy="nope")                                            | there are single, ddp, separate_ddp, zero$
trainer(world=2)                                                    | comm=weft.world
trainer(manual=True)                                                | set train_step=, which calls Session.update\\(\\), or leave manual= out
trainer(checkpoints=3)                                              | a dict of folder
trainer(checkpoints=dict(every=3))                                  | without a folder
trainer(hooks=3)                                                    | a list of hooks
trainer(hooks=[3])                                                  | int is no hook
trainer(hooks=[weft.hooks.early_stop("loss")])                      | without val= no validation gives 'loss'
trainer(hooks=[weft.hooks.best("los", "/tmp/x")], val=DATA)         | did you mean 'loss'
trainer(hooks=[weft.hooks.early_stop("loss", patienc=1)])           | did you mean patience
trainer(hooks=[weft.hooks.text(3)])                                 | not an open file
trainer(hooks=[weft.hooks.json("/nowhere/x.json")]).fit()           | /nowhere/x.json
trainer(evaluators=[3], val=DATA)                                   | has a name, and reads
trainer(evaluators=[Step()])                                        | give val= or test=
trainer(evaluators=[weft.evaluators.accuracy("logit", "label")], val=DATA) | did you mean 'logits'
trainer(train_step=3)                                               | a function \\(trainer\\)
trainer(train_step=lambda t: t.run("trian")).fit()                  | did you mean 'train'
trainer(train_step=lambda t: t.run("train", batch="nxt")).fit()     | auto, next, same
trainer(sampler="shuffled")                                         | a function \\(epoch, n\\).*in_order=True
trainer(in_order=3)                                                 | True or False
trainer(comm=3)                                                     | weft.world\\(\\) is needed
trainer().validate()                                                | set val=
trainer().test()                                                    | set test=
trainer().run("train")                                              | within train_step=
trainer().predict(DATA)                                             | it has train, val
trainer().predict(DATA, graph="val", output="logit")                | did you mean 'logits'
weft.Trainer(3, train=DATA)                                         | a weft.Model is needed
session().run("trian", **FEEDS)                                     | did you mean 'train'\\? It has train, val
session().run("train", imagee=X[:4])                                | has no input 'imagee': did you mean 'image'\\? It has image, label, weight
session().run("train", image=X[:4], label=Y[:4])                    | input 'weight'
session().run("train", fetch="los", **FEEDS)                        | has no output 'los': did you mean 'loss'\\? It has logits, loss
session().run("train", fetch=3, **FEEDS)                            | a list of names
session().run("train", X, Y)                                        | inputs are by name: run\('train', image=..., label=..., weight=...\)
session().run("train", X)                                           | fetch is a ndarray: .* inputs are by name
trainer(train=X)                                                    | an array alone has no name
trainer(train=(X, Y))                                               | an array alone has no name
trainer(max_epochs=3)                                               | here it is epochs=
trainer(optimizer=weft.Adam(1))                                     | here it is minimize= of from_torch
session().run_loss("train", **FEEDS)                                | compile with manual=True
session().run_no_sync("train", **FEEDS)                             | compile with accumulate=
session().gradient("train", "generator/fc/weight")                  | compile with manual=True
session().use_averages()                                            | set ema=
session().ports("trian")                                            | did you mean 'train'
model().compile().inputs("trian")                                   | did you mean 'train'
model().compile(graph="trian")                                      | did you mean 'train'
model().compile(bach=3)                                             | did you mean batch
model().view("train", max_nodes=-4)                                 | max_nodes=-4
model().freeze("generatr")                                          | freeze: no parameter matches 'generatr': did you mean 'generator'
model().ddp("generatr", zero=1)                                     | ddp: no parameter matches 'generatr': did you mean 'generator'
model().ddp("generator", wire="f64")                                | "bf16", or 0
model().set_optimizer("lr=1", "optt")                               | did you mean 'opt'
model().graphs["val"].parameter("x", ["batch", 3])                  | axis 0 is "batch"
minimize("generatr")                                                | test_mistakes.py:\\d+: minimize: no parameter matches 'generatr': did you mean 'generator'\\? Scopes and
minimize("generator,discriminator")                                 | no parameter matches 'discriminator'
minimize({"generator": weft.SGD(1)})                                | no pattern of parameters
minimize("")                                                        | minimize: the pattern '' is empty
minimize(",")                                                       | minimize: the pattern ',' is empty
model().freeze("")                                                  | freeze: the pattern '' is empty
minimize(optimizer="adma")                                          | did you mean 'adam'.*or one of define_optimizer\\(\\)
minimize(momentm=1)                                                 | did you mean momentum
minimize(lr=-1)                                                     | \\(None means 0.001\\)
minimize(beta1=0.5)                                                 | sgd has none: leave it out
minimize(schedule=3)                                                | a text as "cosine
minimize(groups=[dict(pattrn="x")])                                 | did you mean pattern
minimize(train=False)                                               | train=True
store().set_lr(1.0, "optt")                                         | did you mean 'opt'
store()["generator/fc/wieght"]                                      | did you mean generator/fc/weight
store().load_state_dict({"generator.fc.wieght": X})                 | it has generator.fc.wieght
store().paths("sloot")                                              | slot
weft.data(3)                                                        | not a text
weft.samples([])                                                    | empty
weft.samples(3)                                                     | no len
weft.world("upc")                                                   | mpi, ucx, local
"""


class Texts(unittest.TestCase):
    def said(self, call):
        with self.assertRaises(weft.Error) as caught:
            eval(call)  # noqa: S307
        return str(caught.exception)

    def test_each_mistake_has_its_way_out_in_pythons_words(self):
        rows = [line.rsplit(" | ", 1) for line in CALLS.strip().splitlines()]
        for call, has in rows:
            with self.subTest(call):
                said = self.said(call)
                self.assertRegex(said, has.replace("\\\\", "\\"))
                self.assertNotRegex(said, OF_C)

    def test_what_the_user_gave_keeps_its_letters(self):
        for path in ("/nowhere/weft_run/weft_save.npy", "/nowhere/weft_run()/NULL/x.npy", "nowhere/options.batch", "weft_run.npy", "/nowhere/my weft_run and NULL/x.npy"):
            for call in (lambda p: weft.data(p), lambda p: store().load(p), lambda p: weft.load(p)):
                with self.subTest(path), self.assertRaises(weft.Error) as caught:
                    call(path)
                self.assertIn(path + ": ", str(caught.exception))
        self.assertEqual(in_python("input 'weft_run' of 'NULL' is not fed: weft_run() gives what a graph's own \"WEFT_BATCH\" or WEFT_BATCH (weft/op.h) are: NULL"),
                         "input 'weft_run' of 'NULL' is not fed: Session.run() gives what a graph's own \"WEFT_BATCH\" or \"batch\" (weft) are: None")

    def test_types_have_the_names_of_numpy_and_torch_as_options(self):
        self.assertIn("bf16", model().compile(precision="bfloat16").text())

    def test_a_pattern_of_many_parts_asks_once(self):
        """Else what it takes grows with the square of the parts."""
        m = weft.Model("net")
        g = m.graph("train", train=True)
        for i in range(50):
            with g.scope(f"part{i}"):
                g.parameter("w", [2])
        pattern = ",".join(["part7", *m.parameters()])
        with unittest.mock.patch.object(weft.Model, "parameters", autospec=True, side_effect=weft.Model.parameters) as asked:
            m.freeze(pattern)
            self.assertEqual(asked.call_count, 1)
            m.freeze("part*")
            with self.assertRaisesRegex(weft.Error, "no parameter matches 'part55'"):
                m.freeze("part1,part55")

    def test_a_graphs_name_is_a_key_error(self):
        with self.assertRaisesRegex(KeyError, "did you mean 'train'"):
            model().graphs["trian"]

    def test_only_a_batch_that_is_surely_wrong_is_refused(self):
        """Graphs of modules, whose examples began with these lengths; torch.py notes them in model._examples."""
        def made(**graphs):
            m = weft.Model("net")
            for name, lengths in graphs.items():
                g = m.graph(name, train=name == "train")
                inputs = [g.input(n, "f32", [length, 3]) for n, length in lengths.items()]
                sum(x.square().mean() for x in inputs).output("loss")
                if "batch" not in lengths.values():
                    m._examples[name] = lengths
            return m

        for graphs in (dict(train=dict(x=8)), dict(train=dict(x=8, y=8)), dict(train=dict(x=8), val=dict(x=4)), dict(val=dict(x=8))):
            with self.subTest(graphs), self.assertRaisesRegex(weft.Error, "batch=4: graph (train|val) is of a module .* examples' batch of 8 alone"):
                made(**graphs).compile(batch=4)
        for graphs in (dict(train=dict(cw=10, x=8)), dict(train=dict(cw=10), other=dict(x="batch")), dict(train=dict(x=8), val=dict(x="batch")), dict(train=dict(x=4))):
            with self.subTest(graphs):
                made(**graphs).check_batch(4)

    def test_no_value_of_an_option_has_an_error_of_another_kind(self):
        """Each field of each structure that a call takes, with what it is not."""
        calls = {"weft_compile_options": lambda **o: model().compile(**o), "weft_trainer_options": trainer, "weft_optimizer": lambda **o: minimize(**o),
                 "weft_trainer_checkpoints": lambda **o: trainer(checkpoints={"folder": "/nowhere/x", **o}),
                 "weft_ddp_options": lambda **o: model().ddp("generator", **o), "weft_early_stop": lambda **o: trainer(hooks=[weft.hooks.early_stop("loss", **o)], val=DATA),
                 "weft_plateau": lambda **o: trainer(hooks=[weft.hooks.plateau("loss", **o)], val=DATA), "weft_comm_options": lambda **o: weft.world(**o)}
        pointers = {"env", "user", "sampler_context", "fit_words", "own_strategy", "type", "metric", "n_hooks", "n_evaluators", "n_groups", "n_rates", "n", "path"}
        tried = 0
        for structure, call in calls.items():
            for field in fields_of(structure):
                for value in () if field in pointers or field == "reserved" else (-7, "nonsense", 1e30, [1, 2, 3], object()):
                    with self.subTest(structure=structure, field=field, value=value):
                        tried += 1
                        try:
                            call(**{field: value})
                        except weft.Error as why:
                            self.assertNotRegex(str(why), OF_C)
        self.assertGreater(tried, 400)


@unittest.skipUnless((ROOT / "runtime").exists(), "no sources")
class Sources(unittest.TestCase):
    def test_no_sentence_of_c_has_an_option_of_graphtool_here(self):
        seen = 0
        for folder in ("graph", "ops", "runtime", "dist"):
            for file in (ROOT / folder).rglob("*.[ch]"):
                source = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
                for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', source):
                    said = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal)).replace('\\"', '"')
                    if re.search(r"graphtool:? ?-|[( ]--[a-z]|graphtool's", said) and "srun" not in said:
                        seen += 1
                        self.assertNotRegex(in_python(said), r"--[a-z]", f"{file}: weft/_words.py has no sentence for it")
        self.assertGreater(seen, 8)


if __name__ == "__main__":
    unittest.main()
