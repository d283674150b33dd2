"""philox.py - the engine's random numbers, from their definition (include/weft/model.h, ops/kit/philox.h): Philox4x32-10 of
Salmon, Moraes, Dror, Shaw (SC 2011), keyed by seed, graph, scope path and the number of the call in its graph."""

import numpy as np

MASK = (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def node_key(graph, scope, ordinal):
    import xxhash  # not needed by those who have the key from a plan
    seed = xxhash.xxh3_64_intdigest(graph.encode(), 0)
    return xxhash.xxh3_64_intdigest(scope.encode(), (seed + ordinal) & MASK)


def words(seed, key, step, micro, n):
    """The words of elements 0 .. n - 1."""
    key = mix(mix((seed + 0x9E3779B97F4A7C15) & MASK) ^ key) ^ mix(0)
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c = [blocks & low, blocks >> np.uint64(32), np.full_like(blocks, step), np.full_like(blocks, micro)]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack(c, axis=1).reshape(-1)[:4 * len(blocks)]


def uniform(w, low, high):
    u = (w >> np.uint64(8)).astype(np.float32) * np.float32(2 ** -24)
    low, high = np.float32(low), np.float32(high)
    return np.minimum(low + (high - low) * u, np.nextafter(high, low))


def normal(w, mean, std):
    """Box and Muller: a pair from two words."""
    pairs = w.reshape(-1, 2)
    u1 = ((pairs[:, 0] >> np.uint64(8)) + np.uint64(1)).astype(np.float64) * 2.0 ** -24
    u2 = (pairs[:, 1] >> np.uint64(8)).astype(np.float64) * 2.0 ** -24
    r = np.sqrt(-2 * np.log(u1))
    z = np.stack([r * np.cos(2 * np.pi * u2), r * np.sin(2 * np.pi * u2)], axis=1).reshape(-1)
    return mean + std * z
