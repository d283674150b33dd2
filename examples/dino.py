"""dino.py - DINO (Caron et al., arXiv 2104.14294), weft-zoo's model `dino` in Python, on crops of images of garments:
    python3 examples/dino.py train-images-idx3-ubyte.gz [STEPS]
A student that sees all crops of an image is to say what a teacher says of the global ones. The teacher follows the student; its outputs are
centred by a mean over all ranks, and sharpened by a temperature."""
import gzip
import sys

import numpy as np
import weft

PATCH, GLOBAL, LOCAL, GLOBALS, LOCALS = 4, 32, 16, 2, 4
CROPS = GLOBALS + LOCALS
NORMAL = ("normal", 0, 0.02)


class DINO:
    def __init__(self, narrow=1):
        self.d, self.wide, self.bottleneck, self.outputs = 192 // narrow, 512 // narrow, 128 // narrow, 4096 // narrow

    # ---- the network ----

    def attention(self, x):
        heads = 2 if self.d % 64 else self.d // 64
        q, k, v = (p.reshape([-1, p.shape[1], heads, self.d // heads]).permute([0, 2, 1, 3]) for p in x.linear(3 * self.d, "qkv").chunk(3, axis=2))
        y = weft.attention(q, k, v).permute([0, 2, 1, 3])
        return y.reshape([-1, y.shape[1], self.d]).linear(self.d, "proj")

    def block(self, x, name):
        with x.scope(name):
            x = x + self.attention(x.layer_norm("norm1"))
            return x + x.layer_norm("norm2").linear(4 * self.d, "fc1").gelu().linear(self.d, "fc2")

    def tokens(self, x):
        """[N, 3, s, s] -> [N, T, d]: a row in front that the image is read from, then one a patch."""
        side, whole = x.shape[2] // PATCH, GLOBAL // PATCH
        first = x.graph.parameter("cls_token", [1, 1, self.d], NORMAL)
        places = x.graph.parameter("pos_embed", [1, self.d, whole, whole], NORMAL)
        if side != whole:  # crops of another size share all parameters
            places = places.interpolate(size=[side, side], mode="bilinear")
        x = x.conv2d("patch_embed", out=self.d, kernel=PATCH, stride=PATCH).flatten(2).transpose(1, 2)
        return x.pad(1, 1, 0) + weft.concat([first, places.flatten(2).transpose(1, 2)], axis=1)

    def backbone(self, x):
        x = self.tokens(x)
        for i in range(1, 5):
            x = self.block(x, f"block{i}")
        return x.layer_norm("norm")[:, 0]

    def network(self, x, name):
        with x.scope(name):
            x = self.backbone(x)
            with x.scope("head"):
                x = x.linear(self.wide, "fc1").gelu().linear(self.bottleneck, "fc2").normalize(-1)
                return x.linear(self.outputs, "last", no_bias=True, parametrization="weight_norm")

    def answers(self, crops, name):
        """Crops of one size go through the network at once: [n, B, outputs]."""
        return self.network(weft.concat(crops), name).reshape([len(crops), -1, self.outputs])

    # ---- the loss ----

    def loss(self, m, g):
        crops = [g.input(f"crop{i}", "f32", ["batch", 3, *[GLOBAL if i < GLOBALS else LOCAL] * 2]) for i in range(CROPS)]
        temperature = g.input("teacher_temp", "f32", [])
        seen = self.answers(crops[:GLOBALS], "teacher").detach()
        said = weft.concat([self.answers(crops[:GLOBALS], "student"), self.answers(crops[GLOBALS:], "student")])
        said = (said * (1 / 0.1)).log_softmax(-1)
        centre = g.state("centre", [self.outputs])
        wanted = ((seen - centre) / temperature).softmax(-1)
        pairs = [-(wanted[i] * said[k]).sum(-1).mean() for i in range(GLOBALS) for k in range(CROPS) if i != k]
        loss = pairs[0]
        for pair in pairs[1:]:
            loss = loss + pair
        mean = seen.mean([0, 1]).all_reduce("mean")
        m.assign(centre, centre * 0.9 + mean * (1 - 0.9))
        return (loss * (1.0 / len(pairs))).output("loss")

    def follow(self, m, g):
        """The graph that moves the teacher: keep teacher + (1 - keep) student; its first run copies."""
        keep, has_run = g.input("momentum", "f32", []), g.state("has_run")
        keep = keep * has_run
        m.assign(has_run, g.constant("f32", (), 1))
        for path, p in m.parameters("teacher").items():
            if not p.is_state:
                teacher, student = g.value_of(path), g.value_of("student" + path.removeprefix("teacher"))
                m.assign(teacher, teacher * keep + student * (1 - keep))

    def model(self):
        m = weft.Model("dino", batch=64)
        teacher = m.graph("teacher")
        loss = self.loss(m, m.graph("train", train=True))
        m.freeze("student/head/last/parametrizations/weight/original0")  # the last layer's weights have length 1
        m.minimize(loss, "student", weft.AdamW(5e-4, weight_decay=0.04, clip_norm=3, groups=[dict(kinds="flat", decay_scale=0)]))
        self.follow(m, teacher)
        m.flow("teacher train")
        return m


class Crops:
    """Six random crops of each image, global ones first: a data set of Python."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def crop(self, image, rng, side, least):
        size = int(28 * rng.uniform(least, 1))
        top, left = rng.integers(0, 29 - size, 2)
        at = (np.arange(side) * size) // side
        grey = image[top + at][:, left + at][:, ::rng.choice([-1, 1])] / 255 - 0.5
        return np.repeat(grey.astype("float32")[None], 3, 0)

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        return {f"crop{k}": self.crop(self.images[i], rng, *((GLOBAL, 0.7) if k < GLOBALS else (LOCAL, 0.3))) for k in range(CROPS)}


def main():
    with gzip.open(sys.argv[1]) as file:
        images = np.frombuffer(file.read(), "u1", offset=16).reshape(-1, 28, 28)
    steps, comm = int(sys.argv[2]) if sys.argv[2:] else 100, weft.world()
    t = weft.Trainer(DINO(narrow=4).model(), train=Crops(images), iterations=steps, comm=comm, hooks=[weft.hooks.text()] if comm.rank == 0 else [],
                     set=f"teacher_temp=linear:0.04:0.07:{steps} momentum=cosine:0.996:1:{steps}")
    t.fit()


if __name__ == "__main__":
    main()
