"""A published client in a process of its own, asked by lines; see drivers/conversation.py for its side."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

DRIVERS = Path(__file__).with_name("drivers")
ANSWER_S = 120.0
"""Bounds every wait for an answer; no test waits for it to pass."""


class Raised(Exception):
    """What a call of the client raised there.

    Attributes:
        kind: Its class's name.
        told: Its attributes, those that are plain values.
    """

    def __init__(self, kind: str, said: str, told: dict[str, Any]) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind = kind
        self.told = told


class Client:
    """One process of a client.

    Args:
        python: Of the environment the client is installed in.
        driver: A script of drivers/.
        home: Its home: it finds no keys of whoever runs the tests.

    Attributes:
        warned: What the client warned of in the newest call.
    """

    def __init__(self, python: Path, driver: str, home: Path) -> None:
        self._errors = TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [str(python), str(DRIVERS / driver)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=surroundings(home),
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.warned: list[str] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S if kind is None else 1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            if kind is None:
                raise
        finally:
            self._reader.join()
            self._process.stdout.close()
            self._errors.close()

    def __call__(self, call: str, **given: Any) -> Any:
        """Call it and wait for its answer.

        Raises:
            Raised: What it raised.
        """
        self.ask(call, **given)
        return self.answer()

    def ask(self, call: str, **given: Any) -> None:
        """Call it; `answer` waits for what comes of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, "given": given}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What the call asked for returned.

        Raises:
            Raised: What it raised.
        """
        try:
            line = self._lines.get(timeout=ANSWER_S)
        except queue.Empty:
            line = ""
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"the client ended or stands still; it said: {self._errors.read()}")
        answered = json.loads(line)
        self.warned = answered["warned"]
        if "raised" in answered:
            raise Raised(answered["raised"], answered["said"], answered["with"])
        return answered["answered"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


def command(python: Path, script: str, *arguments: str, home: Path, **environment: str) -> tuple[int, str]:
    """Run a command the client installs.

    Returns:
        Its exit code, and all it printed.
    """
    done = subprocess.run(
        [str(python.with_name(script)), *arguments],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        env=surroundings(home) | environment,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def surroundings(home: Path) -> dict[str, str]:
    """The environment variables of a client: nobody's keys, no proxy."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "PYTHONUNBUFFERED": "1"}
