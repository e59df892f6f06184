"""Products of Blackwell with everything at once: a random kind, shape, swizzle, scale factors, sparsity, pair, signs; beside float64.

test_tcgen05.py takes the options one by one. `python python/tests/test_tcgen05_mixed.py 0 1000` runs more of them.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="skipped: no torch")

from test_tcgen05 import MIXED, NARROW, PLAIN, SCALED, product


def shape_of(pick: random.Random) -> tuple[int, int, dict]:
    how = pick.choice(["64", "128", "pair", "ws"])
    if how == "pair":
        return pick.choice([128, 256]), 32 * pick.randrange(1, 5), {"pair": True}
    if how == "ws":
        return pick.choice([32, 64, 128]), pick.choice([64, 128]), {"stationary": True}
    return int(how), (8 if how == "64" else 16) * pick.randrange(1, 9), {}


def scaled(pick: random.Random, m: int, n: int, more: dict):
    kind, a, b, scale, scales, _ = pick.choice(SCALED)
    ids = {1: range(4), 2: (0, 2), 4: (0,)}[scales]
    more |= {"scale": scale, "scales": scales, "ids": (pick.choice(ids), pick.choice(ids))}
    if kind == "mxf8f6f4":
        a, b = pick.choice(NARROW), pick.choice(NARROW)
    if more.get("sparse") and more.get("pair"):
        m = 256  # of the CTAs of a pair, those of a sparse A have 128 rows each
    return kind, a, b, "f32", m if more.get("pair") else 128, n


def case(seed: int) -> tuple[tuple, dict]:
    pick = random.Random(seed)
    m, n, more = shape_of(pick)
    more |= {"sparse": pick.random() < 0.4, "a_in_tensor": pick.random() < 0.4, "accumulate": pick.random() < 0.7}
    more |= {"swizzle": pick.choice(["NONE", "32B", "64B", "128B"]), "seed": seed}
    if not more.get("stationary") and pick.random() < 0.4:
        return scaled(pick, m, n, more), more
    kind, a, b, d = pick.choice([*PLAIN, *MIXED])
    if kind == "i8":
        n = -(-n // 16) * 16
    else:
        more["negate"] = (pick.choice((1, -1)), pick.choice((1, -1)))
    if more["sparse"] and kind in ("f16", "tf32"):
        more["selector"] = pick.randrange(2)
    if kind in ("f16", "tf32") and more["accumulate"] and not more.get("stationary") and pick.random() < 0.3:
        more["scale_d"] = pick.randrange(1, 16)
    return (kind, a, b, d, m, n), more


@pytest.mark.parametrize("seed", range(12))
def test_everything_at_once(seed):
    given, more = case(seed)
    got, want, _, _ = product(*given, **more)
    np.testing.assert_array_equal(got, want, f"{given} {more}")


if __name__ == "__main__":
    for number in range(*map(int, sys.argv[1:3])):
        test_everything_at_once(number)
