from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqrt

ROOT = Path(seqrt.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

PURE = (
    "observation",
    "action",
    "wire",
    "timeline/events.py",
    "timeline/outcome.py",
    "timeline/jerk.py",
    "timeline/histogram.py",
    "timeline/starved.py",
    "watching",
    "link/liveness.py",
    "link/rate.py",
    "link/redeclared.py",
    "link/lowest.py",
    "link/standing.py",
    "link/term.py",
    "worker/leases.py",
    "runtime/retrying.py",
    "gateway/budget.py",
    "gateway/face.py",
    "gateway/keys.py",
    "gateway/placing.py",
    "gateway/seats.py",
    "gateway/upstream.py",
    "blocking/options.py",
)
IMPURE = {
    *("time", "datetime", "sched", "signal", "random", "secrets", "uuid"),
    *("asyncio", "anyio", "trio", "sniffio", "uvloop", "concurrent", "threading", "multiprocessing", "queue"),
    *("socket", "ssl", "select", "selectors", "http", "urllib", "subprocess"),
    *("httpx", "httpcore", "h2", "hypercorn", "starlette", "fastapi", "uvicorn", "websockets"),
}

# Imports run downward only, from a higher number to a lower one.
FLOORS = (
    ("errors",),
    ("observation", "action"),
    ("wire", "timeline"),
    ("watching",),
    ("policies",),
    ("worker", "link"),
    ("runtime",),
    ("gateway", "robots", "peers"),
    ("open",),
    ("testing", "blocking"),
    ("demo",),
    ("commands",),
    ("cli",),
)
RANK = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}

BELOW_EXTRAS = {
    *("hypercorn", "starlette", "fastapi", "uvicorn", "granian", "websockets", "trio"),
    *("torch", "jax", "tensorflow", "ray", "transformers"),
    *("matplotlib", "cv2", "PIL", "simplejpeg", "rich", "gymnasium", "gym_pusht", "pymunk", "pygame"),
    *("prometheus_client", "opentelemetry"),
    *("pytest", "hypothesis", "msgpack", "lerobot"),
}


def imported(path: Path) -> Iterator[str]:
    """Full names of the modules a file imports, inside functions too; not those for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT.parent).with_suffix("").parts[: -node.level or None]
            prefix = ".".join(package) + "." if node.level else ""
            module = prefix + (node.module or "")
            yield module
            yield from (f"{module.rstrip('.')}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str | None:
    """The part of seqrt a module belongs to; None for a foreign one, and for a public name of the package itself."""
    names = module.split(".")
    if names[0] != "seqrt" or len(names) < 2:
        return None
    here = ROOT / names[1]
    return names[1] if here.is_dir() or here.with_suffix(".py").exists() else None


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in FILES if name_of(p).startswith(PURE)], ids=name_of)
def test_a_pure_package_imports_no_clock_no_task_no_thread_and_no_network(path):
    assert not {module.split(".")[0] for module in imported(path)} & IMPURE


@pytest.mark.parametrize("path", [p for p in FILES if name_of(p) != "__init__.py"], ids=name_of)
def test_imports_run_downward_only(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    upward = {
        part for part in map(part_of, imported(path)) if part is not None and part != own and RANK[part] >= RANK[own]
    }
    assert not upward, f"{own} may not import {', '.join(sorted(upward))}"


def test_every_part_has_its_floor():
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}
    assert parts <= set(RANK)


def test_every_file_named_pure_is_there():
    assert {name for name in PURE if any(name_of(path).startswith(name) for path in FILES)} == set(PURE)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != ROOT], ids=name_of)
def test_no_part_imports_the_public_names_of_the_whole(path):
    if RANK[path.relative_to(ROOT).parts[0]] < RANK["testing"]:
        assert "seqrt" not in set(imported(path))


PROBE = """
import importlib.abc, logging, sys
forbidden = set(sys.argv[1].split(","))

class Missing(importlib.abc.MetaPathFinder):
    # As on a base install: without the extras, which a dependency (httpcore) may look for and do without.
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
root = logging.getLogger()
before = (root.level, list(root.handlers), sys.getswitchinterval())
import seqrt
for name in getattr(seqrt, "__all__", ()):
    getattr(seqrt, name)
import seqrt.blocking
assert (root.level, list(root.handlers), sys.getswitchinterval()) == before, "the import touched what is not its own"
print(sorted(forbidden & {name.partition(".")[0] for name in sys.modules}))
"""


def test_importing_seqrt_needs_no_extra_and_leaves_the_process_as_it_was():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, ",".join(sorted(BELOW_EXTRAS))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT.parent,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
