"""Log lines in the one form robot, gateway and worker share: ``seq ev=<noun.verb> rid=<id> k=v …``."""

from __future__ import annotations

VALUE_CHARACTERS = 200
ERROR_CHARACTERS = 4000


def line(event: str, request_id: str | None, **fields: object) -> str:
    """One log line.

    Args:
        event: A noun and a past participle, ``act.answered``.
        request_id: The request's id.
        **fields: What else to say; None is left out. White space in a value becomes ``_`` and the value is cut at 200
            characters; ``error`` may have 4000 and is escaped so that it can be read back.
    """
    said = [f"seq ev={event} rid={request_id or '-'}"]
    for key, value in fields.items():
        if value is not None:
            said.append(f"{key}={_escaped(str(value)) if key == 'error' else _plain(value)}")
    return " ".join(said)


def _plain(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = "_".join(text.split()) if text.strip() else "_" if text else ""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:VALUE_CHARACTERS])


def _escaped(text: str) -> str:
    """Reversible (Python's own ``unicode_escape`` reads it back), and never white space or a control character."""
    out = []
    for c in text[:ERROR_CHARACTERS]:
        if c == "\\":
            out.append("\\\\")
        elif c.isspace() or not c.isprintable():
            out.append(
                c.encode("unicode_escape").decode("ascii") if ord(c) < 32 or ord(c) > 126 else f"\\x{ord(c):02x}"
            )
        else:
            out.append(c)
    return "".join(out)
