"""gan.py - the GAN of gan.c in Python: two networks, two training graphs, one store. Trains on Fashion-MNIST, saves weights:
    PYTHONPATH=build/release/python python3 examples/gan.py train-images-idx3-ubyte.gz weights.safetensors [STEPS]"""
import sys

import weft

BATCH, Z = 128, 64


def generator(z):
    with z.scope("generator"):  # a top-level scope: a subgraph, trained on its own
        z = z.linear(7 * 7 * 64, "fc").reshape([-1, 64, 7, 7])
        return z.batch_norm("bn").relu().conv_transpose2d("up", out=1, kernel=4, stride=4).tanh()


def discriminator(x):
    with x.scope("discriminator"):
        x = x.conv2d("conv", out=64, kernel=4, stride=4).leaky_relu(0.2)
        return x.flatten(1).linear(1, "fc")


def bce(logits, target):
    return logits.bce_with_logits(logits.numeral(target))


def build():
    m = weft.Model("gan", batch=BATCH)
    adam = weft.Adam(2e-4, beta1=0.5)
    g = m.graph("d_step", train=True)
    image = g.input("image", "u8", ["batch", 28, 28])
    real = image.cast("f32").reshape([-1, 1, 28, 28]) * (1 / 127.5) - 1
    loss = bce(discriminator(real), 1)
    fake = generator(g.random_normal(["batch", Z]))
    loss = loss + bce(discriminator(fake.detach()), 0)
    m.minimize(loss, "discriminator", adam)
    loss.output("d_loss")

    g = m.graph("g_step", train=True)
    loss = bce(discriminator(generator(g.random_normal(["batch", Z]))), 1)
    m.minimize(loss, "generator", adam)
    loss.output("g_loss")
    return m


def main():
    images, weights, *steps = sys.argv[1:]
    t = weft.Trainer(build(), train={"image": images}, seed=1, iterations=int(steps[0]) if steps else 400, hooks=[weft.hooks.text(every=50)])
    t.fit().save(weights)


if __name__ == "__main__":
    main()
