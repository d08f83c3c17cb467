"""The table people read, and the same for programs."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.lag.grid import Cell
from bench.lag.measures import Measured
from bench.lag.stats import Interval, paired_difference, paired_ratio, wilson
from bench.lag.strategies import ROWS

Found = dict[Cell, Measured]


def success(numbers: Measured) -> Interval:
    """Share of episodes that reached the goal."""
    return wilson(int(numbers.reached.sum()), len(numbers.reached))


def oracle_of(cell: Cell, found: Found) -> Measured | None:
    """The oracle of the same plant."""
    return found.get(Cell(cell.body, cell.behind, "none", False, 0.0, "oracle"))


def peer_of(cell: Cell, found: Found, strategy: str) -> Measured | None:
    """Another strategy in the same place."""
    return found.get(replace(cell, strategy=strategy))


def markdown(found: Found) -> str:
    """One table a place."""
    parts = []
    for place in dict.fromkeys(cell.place for cell in found if cell.distribution != "none"):
        here = [cell for cell in found if cell.place == place]
        parts.append(f"### {titled(here[0])}\n\n{_table(here, found)}\n")
    return "\n".join(parts)


def titled(cell: Cell) -> str:
    """What a place is called."""
    order = ", answers in order" if cell.in_order else ""
    behind = f", {cell.behind} ticks behind its command" if cell.behind else ""
    rows = f", chunks of {cell.rows} rows" if cell.rows < ROWS else ""
    return f"{cell.body.capitalize()}{behind}: {cell.distribution}, {cell.typical_s * 1e3:.0f} ms{order}{rows}"


def _table(here: list[Cell], found: Found) -> str:
    head = (
        "| strategy | success | ÷ oracle | less aligned | touched | time s | starved | reversals at seams | m/s "
        "| jerk | jump p95 mm | age p50 / p99 s | acts/s | infer s/s |\n|" + "---|" * 14
    )
    oracle = oracle_of(here[0], found)
    lines = [] if oracle is None else [_line("oracle", oracle, oracle, None)]
    aligned = peer_of(here[0], found, "aligned")
    lines += [_line(cell.strategy, found[cell], oracle, aligned) for cell in here]
    return "\n".join([head, *lines])


def _line(name: str, m: Measured, oracle: Measured | None, aligned: Measured | None) -> str:
    ratio = "" if oracle is None else paired_ratio(m.reached, oracle.reached).text()
    less = ""
    if aligned is not None and aligned is not m:
        d = paired_difference(m.reached, aligned.reached)
        less = f"{d.value:+.2f} [{d.low:+.2f}, {d.high:+.2f}]"
    return (
        f"| {name} | {success(m).text()} | {ratio} | {less} | {m.touched:.2f} | {_or_dash(m.time_s, '.2f')} "
        f"| {100 * m.starved:.1f} % | {100 * m.reversals:.0f} % | {m.speed_m_s:.2f} | {_or_dash(m.jerk, '.2f')} "
        f"| {_or_dash(1e3 * m.jump_p95, '.0f')} | {m.age_p50_s:.2f} / {m.age_p99_s:.2f} | {m.acts_per_s:.1f} "
        f"| {m.infer_s:.2f} |"
    )


def _or_dash(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def write_json(found: Found, path: Path, **about: Any) -> None:
    """Every cell with its numbers, each episode's success as a text of 0 and 1."""
    cells = [_as_json(cell, numbers) for cell, numbers in found.items()]
    path.write_text(json.dumps({**about, "cells": cells}, indent=1))


def read_json(path: Path) -> Found:
    """What `write_json` wrote."""
    found = {}
    for one in json.loads(path.read_text())["cells"]:
        cell = Cell(**{f.name: one[f.name] for f in fields(Cell)})
        values: dict[str, Any] = {f.name: math.nan if one[f.name] is None else one[f.name] for f in fields(Measured)}
        values["reached"] = np.array([mark == "1" for mark in one["reached"]])
        found[cell] = Measured(**values)
    return found


def _as_json(cell: Cell, numbers: Measured) -> dict[str, Any]:
    values = {f.name: getattr(numbers, f.name) for f in fields(numbers)}
    values["reached"] = "".join("1" if one else "0" for one in numbers.reached)
    share = success(numbers)
    plain = {key: None if isinstance(v, float) and math.isnan(v) else v for key, v in values.items()}
    return {**vars(cell), "success": share.value, "success_low": share.low, "success_high": share.high, **plain}
