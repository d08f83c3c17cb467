"""Log lines in the one form robot, gateway and worker share: ``seq ev=<noun.verb> rid=<id> k=v …``."""

from __future__ import annotations

from typing import Final

VALUE_CHARACTERS: Final = 200
ERROR_CHARACTERS: Final = 4000


class Line(str):
    """A log line, and what it was made of, for a log that programs read (`seqrt.watching.logs`).

    Attributes:
        event: A noun and a past participle.
        request_id: The request's id, None for none.
        fields: What else it says, as it was given.
        sentence: The same for whoever sits there, "" for none.
    """

    event: str
    request_id: str | None
    fields: dict[str, object]
    sentence: str

    def saying(self, sentence: str) -> Line:
        """The line with a sentence behind a bar, as it is but for control characters, cut at 4000."""
        told = _printable(" ".join(sentence.split("\n"))[:ERROR_CHARACTERS])
        return _made(f"{self} | {told}", self.event, self.request_id, self.fields, told)


def line(event: str, request_id: str | None, **fields: object) -> Line:
    """One log line.

    Args:
        event: A noun and a past participle, ``act.answered``.
        request_id: The request's id.
        **fields: What else to say; None is left out. White space in a value becomes ``_`` and the value is cut at 200
            characters; ``error`` may have 4000 and is escaped so that it can be read back.
    """
    told = {key: value for key, value in fields.items() if value is not None}
    parts = [f"seq ev={event} rid={request_id or '-'}"]
    parts += [f"{key}={_escaped(str(value)) if key == 'error' else _plain(value)}" for key, value in told.items()]
    return _made(" ".join(parts), event, request_id, told, "")


def _made(text: str, event: str, request_id: str | None, fields: dict[str, object], sentence: str) -> Line:
    made = Line(text)
    made.event, made.request_id, made.fields, made.sentence = event, request_id, fields, sentence
    return made


def _plain(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = "_".join(text.split()) if text.strip() else "_" if text else ""
    return _printable(text[:VALUE_CHARACTERS])


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


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
