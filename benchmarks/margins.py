"""Margins of ODM beside those of the SVM on the paper's regular sets: the plot of the README.

    python benchmarks/margins.py          # fits again with the parameters that the study chose
    python benchmarks/margins.py --draw   # only draws docs/study/margins.json

For every set, the training half of the first split, RBF kernel: the distances of all samples to the
boundary, sorted, compared with the SVM's at the same rank. The set that is drawn is the middle one
of all sets, by the share of distances that are larger with ODM. Nobody chose it. The environment
variable OPTIMARGIN_DATA names the folder of the data sets.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt

from optimargin_study import figures, read_export

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "docs" / "study"
STATIC = ROOT / "docs" / "_static"
PAIRS = {"paper": ("svm", "odm"), "tuned": ("svm_wide", "odm_default")}
INKS = {
    "light": {"ink": "#1d2530", "soft": "#7a8594", "ours": "#0072B2", "peer": "#D55E00"},
    "dark": {"ink": "#e6eaf0", "soft": "#8b96a5", "ours": "#56B4E9", "peer": "#E69F00"},
}


def compute():
    """Return the shares of larger distances per set, and the distances of the middle set."""
    results = read_export(STUDY / "results.csv")
    names = sorted({r.unit.dataset for r in results if r.unit.table == 3})
    found = {}
    for pair, methods in PAIRS.items():
        claims, curves = figures.margin_claims(results, names, 3, methods)
        shares = {claim["dataset"]: claim["geometric"]["right"] for claim in claims}
        found[pair] = dict(sorted(shares.items(), key=lambda item: item[1]))
        if pair == "paper":
            middle = list(found[pair])[(len(shares) - 1) // 2]
            distances = {m: np.sort(c.margins).round(5) for m, c in curves[middle].items()}
    return {
        "command": "python benchmarks/margins.py",
        "shares": {pair: {k: round(v, 4) for k, v in own.items()} for pair, own in found.items()},
        "middle": middle,
        "distances": {m: values.tolist() for m, values in distances.items()},
    }


def count(shares):
    """Return on how many sets most distances are larger with ODM."""
    return sum(share > 0.5 for share in shares.values())


def draw(found, theme, *, stacked=False):
    """Draw the middle set and the shares of all sets, side by side or for a narrow screen."""
    ink = INKS[theme]
    shares = found["shares"]["paper"]
    ours, peer = (found["distances"][m] for m in ("odm", "svm"))
    style = {
        "font.size": 10,
        "text.color": ink["ink"],
        "axes.edgecolor": ink["soft"],
        "axes.labelcolor": ink["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": ink["ink"],
        "ytick.color": ink["ink"],
        "svg.hashsalt": "margins",
    }
    with matplotlib.rc_context(style):
        shape, size = ((2, 1), (4.2, 6.2)) if stacked else ((1, 2), (7.4, 3.3))
        figure, (left, right) = plt.subplots(*shape, figsize=size, layout="constrained")
        for values, look, name in (
            (peer, {"color": ink["peer"], "linestyle": (0, (5, 1.5))}, "SVM"),
            (ours, {"color": ink["ours"]}, "ODM"),
        ):
            left.ecdf(values, linewidth=2, label=name, **look)
        left.axvline(0, color=ink["soft"], linewidth=0.8)
        left.set(
            title=f"A typical set ({found['middle']})",
            xlabel="distance to the boundary",
            ylabel="share of samples at most that far",
            ylim=(0, 1.01),
        )
        left.legend(loc="upper left", frameon=False)
        for k, share in enumerate(shares.values()):
            larger = share > 0.5
            right.plot(
                100 * share,
                k + 1,
                marker="o" if larger else "s",
                markersize=4.5,
                color=ink["ours"] if larger else ink["peer"],
            )
        right.axvline(50, color=ink["soft"], linewidth=0.8)
        right.set(
            title=f"Farther away with ODM: {count(shares)} of {len(shares)} sets",
            xlabel="samples farther away with ODM, %",
            ylabel="data sets, sorted",
            xlim=(0, 103),
            yticks=[],
        )
        path = STATIC / f"margins-{theme}{'-phone' if stacked else ''}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true")
    args = parser.parse_args()
    path = STUDY / "margins.json"
    if not args.draw:
        path.write_text(json.dumps(compute(), indent=1) + "\n")
    found = json.loads(path.read_text())
    for theme in INKS:
        draw(found, theme)
        draw(found, theme, stacked=True)
    for pair, shares in found["shares"].items():
        print(f"{pair}: most distances are larger with ODM on {count(shares)} of {len(shares)}")


if __name__ == "__main__":
    main()
