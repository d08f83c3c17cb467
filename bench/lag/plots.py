"""Success, jerk and age against latency, a line a strategy. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.lag.grid import Cell
from bench.lag.measures import Measured
from bench.lag.strategies import ROWS
from bench.lag.tables import Found, oracle_of, success

SHOWN: Final = (
    "aligned + prefix", "fresh, one seed", "fresh", "aligned, one seed", "aligned + crossfade", "aligned", "nearest",
    "sync", "not aligned", "append", "one in flight", "as shipped", "as shipped, one seed",
)  # fmt: skip


ONE_SEED: Final = ", one seed"


def draw(found: Found, out: Path) -> list[Path]:
    """Write the pictures; returns where."""
    import matplotlib as mpl

    mpl.use("Agg")
    kinds: dict[str, tuple[str, Callable[[Measured], float]]] = {
        "success": ("episodes that reached the goal", lambda m: success(m).value),
        "jerk": ("jerk at seams and stops ÷ elsewhere", lambda m: m.jerk),
        "age": ("age of the observation when played, p99, s", lambda m: m.age_p99_s),
    }
    driven = [cell for cell in found if cell.distribution != "none" and cell.rows == ROWS]
    plants = list(dict.fromkeys((cell.body, cell.behind) for cell in driven))
    plants = [plant for plant in plants if len({c.typical_s for c in driven if (c.body, c.behind) == plant}) > 1]
    return [
        _one(found, plant, label, value, out.with_name(f"{out.stem}-{plant[0]}{plant[1] or ''}-{kind}.png"))
        for plant in plants
        for kind, (label, value) in kinds.items()
    ]


def _one(found: Found, plant: tuple[str, int], label: str, value: Callable[[Measured], float], path: Path) -> Path:
    from matplotlib import pyplot as plt

    here = [cell for cell in found if (cell.body, cell.behind) == plant and cell.distribution != "none"]
    here = [cell for cell in here if cell.rows == ROWS]
    latencies: dict[tuple[str, bool], set[float]] = {}
    for one in here:
        latencies.setdefault((one.distribution, one.in_order), set()).add(one.typical_s)
    panels = [panel for panel, several in latencies.items() if len(several) > 1]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(max(7.0, 3.2 * len(panels)), 4.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        _panel(axis, found, [cell for cell in here if (cell.distribution, cell.in_order) == panel], value)
        axis.set_title(panel[0] + (", in order" if panel[1] else ""), fontsize=10)
        axis.set_xlabel("typical latency, ms")
    axes[0][0].set_ylabel(label)
    if "jerk" in label:
        axes[0][0].set_yscale("log")
    lines, names = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _panel(axis: Any, found: Found, here: list[Cell], value: Callable[[Measured], float]) -> None:
    from matplotlib import pyplot as plt

    colours, oracle = plt.get_cmap("tab10"), oracle_of(here[0], found)
    kinds = list(dict.fromkeys(name.removesuffix(ONE_SEED) for name in SHOWN))
    for name in SHOWN:
        points = sorted((1e3 * cell.typical_s, value(found[cell])) for cell in here if cell.strategy == name)
        if points:
            kind, dashed = kinds.index(name.removesuffix(ONE_SEED)), "--" if name.endswith(ONE_SEED) else "-"
            axis.plot(*zip(*points, strict=True), dashed, marker="o", ms=3, lw=1.4, color=colours(kind), label=name)
    if oracle is not None:
        axis.axhline(value(oracle), color="black", lw=1, ls=":", label="oracle")
    axis.grid(alpha=0.3)
