"""Prints the polynomials of this folder: weighted minimax fits by Lawson's iteration (C. L. Lawson, 1961) on Chebyshev nodes.

Needs numpy and mpmath. The error that is printed is relative to the function, in units of 2^-24.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 40


def fit(name, function, weight, low, high, degree, nodes=600, rounds=200):
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    y = np.array([float(function(mp.mpf(v))) for v in x])
    weights = np.array([float(weight(mp.mpf(v))) for v in x])
    basis = np.polynomial.chebyshev.chebvander((2 * x - low - high) / (high - low), degree)
    importance = np.ones(nodes) / nodes
    best = (np.inf, None)
    for _ in range(rounds):
        scale = np.sqrt(importance) * weights
        c = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs((basis @ c - y) * weights)
        best = min(best, (error.max(), c), key=lambda pair: pair[0])
        importance *= error + 1e-300
        importance /= importance.sum()
    series = np.polynomial.chebyshev.Chebyshev(best[1], domain=[low, high])
    print(name, "error", best[0] * 2**24)
    for c in series.convert(kind=np.polynomial.Polynomial).coef:
        print("  f32", np.float32(c), " f64", repr(float(c)))


half = float(mp.log(2) / 2) * 1.0005
fit("EXPM1", lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r * r / mp.expm1(r)), -half, half, 5)

root = mp.sqrt(2)
fit(
    "LOG1P",
    lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
    lambda f: abs(f**3 / mp.log1p(f)),
    float(1 / root - 1),
    float(root - 1),
    8,
)

ratio = lambda s: mp.sin(mp.sqrt(s)) / mp.sqrt(s)
quarter = (float(mp.pi / 4) * 1.0001) ** 2
fit("SIN", lambda s: (ratio(s) - 1) / s, lambda s: s / ratio(s), 1e-9, quarter, 3)
cosine = lambda s: mp.cos(mp.sqrt(s))
fit("COS", lambda s: (cosine(s) - 1 + s / 2) / s**2, lambda s: s**2 / cosine(s), 1e-9, quarter, 3)

slope = lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s)
fit("erf SMALL", lambda s: slope(s) - 1, lambda s: 1 / slope(s), 1e-9, 0.92**2, 6)
fit("erf LARGE", lambda t: mp.log(mp.erfc(t)), lambda t: mp.erfc(t) / mp.erf(t), 0.92, 4.0, 6)

# Functions that are composed of other ops: gradloom-core/src/ir/elementwise/composite.rs.
arc = lambda s: mp.atan(mp.sqrt(s)) / mp.sqrt(s)
fit("ATAN", lambda s: (arc(s) - 1) / s, lambda s: s / arc(s), 1e-9, float(mp.tan(mp.pi / 8)) ** 2 * 1.0001, 3)
arc_sine = lambda s: mp.asin(mp.sqrt(s)) / mp.sqrt(s)
fit("ASIN", lambda s: (arc_sine(s) - 1) / s, lambda s: s / arc_sine(s), 1e-9, 0.2501, 4)
