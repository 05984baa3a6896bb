"""Text from files, made safe to show."""

from __future__ import annotations

LONGEST = 600  # characters of a message


def printable(text: object) -> str:
    """Return text with escapes in place of characters that a terminal might obey.

    These are control characters, line breaks, marks that change the direction of writing, and all else that
    :meth:`str.isprintable` does not count as printable.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def message(text: object) -> str:
    """Return text as a line that is not too long and safe to print."""
    shown = printable(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 2]} …"
