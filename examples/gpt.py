"""gpt.py - a GPT on the characters of a text, then some lines of its own. It is weft-zoo's model `gpt`, built in Python:
    PYTHONPATH=build/release/python python3 examples/gpt.py shakespeare.txt [STEPS] [LAYERS WIDTH HEADS CONTEXT]"""
import sys

import numpy as np
import weft

NORMAL = ("normal", 0, 0.02)


class GPT:
    def __init__(self, vocab, layers=6, d=384, heads=6, ctx=256):
        self.vocab, self.layers, self.d, self.heads, self.ctx = vocab, layers, d, heads, ctx

    def linear(self, x, out, name):
        return x.linear(out, name, weight=NORMAL, bias="zeros")

    def split_heads(self, x):
        return x.reshape([-1, self.ctx, self.heads, self.d // self.heads]).permute([0, 2, 1, 3])

    def block(self, x, name):
        with x.scope(name):
            qkv = self.linear(x.layer_norm("ln1"), 3 * self.d, "qkv")
            q, k, v = (self.split_heads(part) for part in qkv.chunk(3, axis=2))
            y = weft.attention(q, k, v, causal=True).permute([0, 2, 1, 3]).reshape([-1, self.ctx, self.d])
            x = x + self.linear(y, self.d, "proj")
            y = self.linear(x.layer_norm("ln2"), 4 * self.d, "fc").gelu_tanh()
            return x + self.linear(y, self.d, "out")

    def logits(self, tokens):
        """[B, T] -> [B, T, vocab]"""
        g = tokens.graph
        with g.scope("gpt"):
            x = tokens.embedding(self.vocab, self.d, "wte", weight=NORMAL)
            with g.scope("wpe"):
                x = x + g.parameter("weight", [self.ctx, self.d], NORMAL)
            with g.scope("blocks"):
                for i in range(self.layers):
                    x = self.block(x, str(i))
            return x.layer_norm("ln_f").linear(self.vocab, "head", no_bias=True, weight=NORMAL)

    def model(self, optimizer):
        m = weft.Model("gpt", batch=8)
        g = m.graph("train", train=True)
        tokens, target = (g.input(name, "i32", ["batch", self.ctx]) for name in ("tokens", "target"))
        loss = self.logits(tokens).reshape([-1, self.vocab]).cross_entropy(target.reshape([-1]))
        m.minimize(loss, optimizer=optimizer)
        loss.output("loss")

        g = m.graph("predict")
        self.logits(g.input("tokens", "i32", ["batch", self.ctx])).output("logits")
        return m


def continue_text(session, ids, count, ctx, rng):
    """Draws `count` more tokens, each by the probabilities that the model gives it."""
    for _ in range(count):
        window = ids[-ctx:]
        padded = np.zeros((1, ctx), "int32")
        padded[0, :len(window)] = window
        logits = session.run("predict", tokens=padded)["logits"][0, len(window) - 1].astype("f8")
        p = np.exp(logits - logits.max())
        ids.append(int(rng.choice(len(p), p=p / p.sum())))
    return ids


def main():
    path, *sizes = sys.argv[1:]
    steps, layers, d, heads, ctx = [int(s) for s in sizes] + [300, 6, 384, 6, 256][len(sizes):]
    text = open(path, encoding="utf-8").read()
    letters = sorted(set(text))
    ids = np.array([letters.index(c) for c in text], "int32")
    gpt = GPT(len(letters), layers, d, heads, ctx)
    m = gpt.model(weft.AdamW(3e-4, weight_decay=0.1, schedule=f"cosine:0-{steps},warmup={steps // 10}"))
    rows = len(ids) // ctx - 1
    windows = {"tokens": ids[:rows * ctx].reshape(rows, ctx), "target": ids[1:rows * ctx + 1].reshape(rows, ctx)}
    t = weft.Trainer(m, train=windows, iterations=steps, hooks=[weft.hooks.text()])
    print(f"{rows} windows; a step takes {t.plan.memory['total'] / 2**20:.0f} MiB")
    t.fit()
    with t.store.session(m.compile(batch=1, graph="predict")) as s:
        print("".join(letters[i] for i in continue_text(s, list(ids[:8]), 200, ctx, np.random.default_rng(0))))


if __name__ == "__main__":
    main()
