"""The relay as a command: ``python -m seqrt.testing.relay --listen 9000 --to 8080 --up-ms 20 --down-ms 20``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import anyio

from seqrt.testing.outages import Direction, checked_spans
from seqrt.testing.relay import Relay
from seqrt.testing.relay.schedule import Action, in_turn

BYTES_PER_S: Final = 1e6 / 8
"""Of a Mbit/s."""

_DESCRIPTION = "A TCP relay that is as far away, as narrow and as unreliable as you ask, in front of any server."
_EPILOG = """\
A robot at home, its worker at port 8080 (start it, then point the robot at port 9000):
  %(prog)s --listen 9000 --to 8080 --up-ms 20 --down-ms 20 --jitter-ms 3 --up-mbit 20 --down-mbit 100

The same on wireless: now and then a segment is lost, and once the robot roams:
  ... --bursts-every 20 --stall 30:0.5

The worker goes away for three seconds; a NAT forgets the connection; the upload rate drops to a tenth:
  ... --refuse 10:3        ... --half-open 10:60        ... --change 10:up-mbit=2

Times are in seconds from the start. All connections share each direction's rate. Nothing is dropped: a full queue
stops reading, and the sender waits. Ctrl-C prints what went through.
"""
_CHANGES: Final = ("up-mbit", "down-mbit", "up-ms", "down-ms")
Step = tuple[float, Action[Relay]]


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    command = argparse.ArgumentParser(
        prog="python -m seqrt.testing.relay",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = command.add_argument_group("where")
    where.add_argument("--listen", type=_port, default=0, metavar="PORT", help="port to listen on (default: any)")
    where.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    where.add_argument(
        "--to", type=_target, required=True, metavar="[HOST:]PORT", help="the server's (default HOST: 127.0.0.1)"
    )
    _add_link(command.add_argument_group("the link"))
    _add_faults(command.add_argument_group("what goes wrong"))
    command.add_argument("--seed", type=int, default=0, help="of the jitter and the bursts (default: %(default)s)")
    command.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    return command


def _add_link(link: argparse._ArgumentGroup) -> None:
    link.add_argument("--up-ms", type=_duration, default=0.0, metavar="MS", help="one-way delay to the server")
    link.add_argument("--down-ms", type=_duration, default=0.0, metavar="MS", help="one-way delay from the server")
    link.add_argument("--jitter-ms", type=_duration, default=0.0, metavar="MS", help="up to this much more, each way")
    link.add_argument("--up-mbit", type=_above_zero, metavar="MBIT", help="rate to the server (default: no limit)")
    link.add_argument("--down-mbit", type=_above_zero, metavar="MBIT", help="rate from the server (default: no limit)")
    link.add_argument(
        "--queue-kb", type=_above_zero, default=256.0, metavar="KB",
        help="the most that waits at the bottleneck, in units of 1024 bytes (default: %(default)g)",
    )  # fmt: skip
    link.add_argument(
        "--window-model", action="store_true",
        help="a model of the sender's TCP window: ten segments at first, twice as much each round trip, ten after a "
        "pause; and a round trip to connect. Say so with what you measure",
    )  # fmt: skip
    link.add_argument(
        "--change", type=_change, action="append", default=[], metavar="AT:SETTING=VALUE",
        help=f"another rate or delay from then on: {', '.join(_CHANGES)}; may be repeated",
    )  # fmt: skip


def _add_faults(faults: argparse._ArgumentGroup) -> None:
    spans = (
        ("--stall", "nothing gets through for so long, and all of it afterwards"),
        ("--half-open", "all that arrives is swallowed, both ways, and nobody is told"),
        ("--refuse", "connections break, and new ones are refused at once: the server is gone, then back"),
    )
    for name, text in spans:
        faults.add_argument(
            name, type=_span, action="append", default=[], metavar="AT:FOR", help=f"{text}; may be repeated"
        )
    faults.add_argument(
        "--reset", type=_duration, action="append", default=[], metavar="AT", help="connections break; may be repeated"
    )
    faults.add_argument(
        "--bursts-every", type=_above_zero, metavar="S",
        help="at random, that far apart on the average, a direction stands still for 200 to 500 ms, as when TCP sends "
        "a lost segment again",
    )  # fmt: skip


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not finite")
    return value


def _duration(text: str) -> float:
    if (value := _number(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return value


def _above_zero(text: str) -> float:
    if (value := _number(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above zero; leave it out for the default")
    return value


def _port(text: str) -> int:
    if not (text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _target(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not _port(port):
        raise argparse.ArgumentTypeError(f"{text!r} names no server: its port is 1 to 65535")
    return host.strip("[]") or "127.0.0.1", _port(port)


def _span(text: str) -> tuple[float, float]:
    at, colon, span = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is no AT:FOR: seconds from the start, and for how many, as in 10:3")
    return _duration(at), _duration(span)


def _change(text: str) -> Step:
    at, _, assigned = text.partition(":")
    setting, equals, value = assigned.partition("=")
    if setting not in _CHANGES or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no AT:SETTING=VALUE, as in 10:up-mbit=2; {', '.join(_CHANGES)}")
    direction: Direction = "up" if setting.startswith("up") else "down"
    if setting.endswith("mbit"):
        bytes_per_s = _above_zero(value) * BYTES_PER_S
        return _duration(at), lambda relay: relay.set_rate(direction, bytes_per_s)
    delay_s = _duration(value) / 1000
    return _duration(at), lambda relay: relay.set_delay(direction, delay_s)


def schedule(options: argparse.Namespace) -> list[Step]:
    """What the command's options do when. ValueError where the spans of one option overlap."""
    steps: list[Step] = [*options.change, *((at_s, Relay.reset) for at_s in options.reset)]
    steps += in_turn(checked_spans(options.half_open, "half-open span"), Relay.half_open, Relay.mend)
    steps += in_turn(checked_spans(options.refuse, "refusal"), Relay.refuse, Relay.listen)
    return steps


def _relay(options: argparse.Namespace) -> Relay:
    host, port = options.to
    return Relay(
        port,
        target_host=host,
        port=options.listen,
        host=options.host,
        up_s=options.up_ms / 1000,
        down_s=options.down_ms / 1000,
        jitter_s=options.jitter_ms / 1000,
        up_bytes_per_s=options.up_mbit and options.up_mbit * BYTES_PER_S,
        down_bytes_per_s=options.down_mbit and options.down_mbit * BYTES_PER_S,
        queue_bytes=math.ceil(options.queue_kb * 1024),
        stalls=options.stall,
        bursts_every_s=options.bursts_every,
        window_model=options.window_model,
        schedule=schedule(options),
        seed=options.seed,
    )


async def _run(relay: Relay, options: argparse.Namespace) -> None:
    async with relay:
        host, port = options.to
        model = " (with a model of the sender's window)" if options.window_model else ""
        _say(f"relay {options.host}:{relay.port} -> {host}:{port}{model}")
        await anyio.sleep_forever()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    """The command: relay until Ctrl-C, then say what went through."""
    command = parser()
    options = command.parse_args(argv)
    try:
        relay = _relay(options)
        anyio.run(_run, relay, options, backend=options.backend)
    except ValueError as error:
        command.error(str(error))
    except OSError as error:
        command.exit(1, f"relay: cannot listen on {options.host}:{options.listen} or find {options.to[0]}: {error}\n")
    except KeyboardInterrupt:
        statistics = relay.statistics()
        _say("relay: stopped")
        for field in fields(statistics):
            _say(f"  {field.name:<24}{getattr(statistics, field.name):>14,}")


if __name__ == "__main__":
    main()
