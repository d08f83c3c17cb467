"""``seqrt keys``: the keys of a gateway, made, listed and revoked by whoever may write their file."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

KEYS: Final = """\
examples:
  seqrt keys add arm-1 --keys keys                      good for every model, any number of acts
  seqrt keys add arm-2 --keys keys --model pi05-droid   opens that policy alone
  seqrt keys add trial --keys keys --acts 1000 --per-minute 120 --at-once 2
  seqrt keys list --keys keys
  seqrt keys revoke arm-1 --keys keys                   counts at once, the gateway runs on

The file holds hashes alone: a key is printed once, when it is made, and cannot be found again. The robot's program
hands it over as api_key=, or reads it from SEQRT_API_KEY.
"""


def keys_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``seqrt keys`` takes."""
    parser.description = "The file of keys that `seqrt gateway --keys` and `seqrt serve --gateway --keys` check."
    actions = parser.add_subparsers(required=True, metavar="add | list | revoke")
    add = _action(actions, "add", "make a key and print it, once", _add)
    add.add_argument("name", type=_name, help="whose it is: a robot, a person, a program")
    add.add_argument("--model", metavar="MODEL", help="the one policy it opens (default: all)")
    add.add_argument("--acts", type=_count, metavar="N", help="acts it is good for (default: any number)")
    add.add_argument("--per-minute", type=_count, metavar="N", help="acts a minute (default: no limit)")
    add.add_argument("--at-once", type=_count, metavar="N", help="acts under way at a time (default: no limit)")
    listing = _action(actions, "list", "say whose keys there are, and what is left of their acts", _list)
    listing.add_argument(
        "--spent", metavar="FILE", type=Path, help="where the gateway counts them, its --spent (default: KEYS.spent)"
    )
    revoke = _action(actions, "revoke", "take a key out of the file", _revoke)
    revoke.add_argument("name", help="whose it is")


def _action(actions: Any, name: str, what: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(name, help=what, description=what, allow_abbrev=False)
    made.add_argument("--keys", metavar="FILE", required=True, type=Path, help="the file of keys")
    made.set_defaults(command=run)
    return made


def _add(options: argparse.Namespace) -> int:
    from seqrt.gateway.keyfile import change
    from seqrt.gateway.keys import KEY_BYTES, Key, hash_of, new_secret, with_key
    from seqrt.gateway.models import full_id

    secret = new_secret(secrets.token_bytes(KEY_BYTES))
    key = Key(
        name=options.name,
        sha256=hash_of(secret.encode()),
        model=full_id(options.model) if options.model else None,
        acts=options.acts,
        per_minute=options.per_minute,
        at_once=options.at_once,
    )
    path: Path = options.keys
    if not _changed(path, lambda text: with_key(text, key, str(path)), change):
        return 1
    print(secret)
    # Apart from the key, so that `KEY=$(seqrt keys add …)` holds the key alone.
    print(f"seqrt: the key of {key.name}, which is shown this once; it is {_told(key)}", file=sys.stderr)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from seqrt.gateway.keyfile import change, read
    from seqrt.gateway.keys import without_key

    path: Path = options.keys
    read(path)  # or it would be made
    if not _changed(path, lambda text: without_key(text, options.name, str(path)), change):
        return 1
    print(f"seqrt: {options.name}'s key opens nothing any more", file=sys.stderr)
    return 0


def _changed(path: Path, text: Callable[[str], str], change: Callable[[Path, Callable[[str], str]], None]) -> bool:
    from seqrt.errors import SeqrtError

    try:
        change(path, text)
    except ValueError as wrong:
        if isinstance(wrong, SeqrtError):
            raise
        print(f"seqrt: {path}: {wrong}", file=sys.stderr)
        return False
    return True


def _list(options: argparse.Namespace) -> int:
    from seqrt.gateway.keyfile import read
    from seqrt.gateway.spending import beside, read_spent

    keys = read(options.keys)
    spent = read_spent(options.spent or beside(options.keys))
    for key in keys:
        made = spent.get(key.sha256, 0)
        used = f"; {made} of {key.acts} spent" if key.acts is not None else ""
        print(f"{key.name:<24}  {_told(key)}{used}")
    return 0


def _told(key: Any) -> str:
    limits = [
        f"{count} {what}"
        for count, what in ((key.acts, "acts"), (key.per_minute, "acts a minute"), (key.at_once, "at once"))
        if count is not None
    ]
    return ", ".join([f"good for {key.model.rpartition('/')[2] if key.model else 'every model'}", *limits])


def _name(text: str) -> str:
    from seqrt.gateway.keys import is_name

    if not is_name(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: 1 to 64 letters, digits and . _ @ -, a letter or digit first"
        )
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10**12):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: a whole number from 1")
    return int(text)
