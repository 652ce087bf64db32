"""What is said is looked at before it reaches the native part, so that a wrong value is an error of ours, with what to do."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Mapping
from typing import Any

from ruge.errors import DataError, RugeError

_MOST = 2**63 - 1


def whole(name: str, value: Any, least: int = 0, most: int = _MOST) -> int:
    """A whole number that a keyword says."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= most:
        upper = "" if most == _MOST else f" to {most:,}"
        raise RugeError(
            f"{name}={value!r} is not a whole number that it can be", remedy=f"give {name} as a whole number from {least}{upper}"
        )
    return number


def number(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """A number that a keyword says."""
    try:
        found = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (least <= found <= most and math.isfinite(found)):
        upper = "" if most == math.inf else f" to {most:g}"
        raise RugeError(f"{name}={value!r} is not a number that it can be", remedy=f"give {name} as a number from {least:g}{upper}")
    return found


def threads(value: Any) -> int | None:
    """How many threads work; as on the command line."""
    return None if value is None else whole("threads", value, 1, 65535)


def minutes(value: Any) -> float | None:
    """How long a job may take; as on the command line."""
    return None if value is None else number("minutes", value, 0, 1e6)


def seconds(name: str, value: Any) -> float:
    """A number of seconds."""
    return number(name, value, 0, 1e12)


def word(name: str, value: Any) -> str:
    """A word that a keyword says."""
    if not isinstance(value, str):
        raise RugeError(f"{name}={value!r} is not text", remedy=f"give {name} as text")
    return value


def path(name: str, value: Any) -> str:
    """A path that a keyword says."""
    try:
        found = os.fspath(value)
    except TypeError:
        found = b""
    if not isinstance(found, str) or not found or "\0" in found:
        raise RugeError(f"{name}={value!r} is not a path", remedy=f"give {name} as text or as a pathlib.Path")
    return found


def is_missing(value: Any) -> bool:
    """None, not a number, and what pandas has for that."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def called(value: Any, place: str, row: int | None = None) -> str:
    """The name of an entity or a relation: text, or a whole number, which is named by its digits."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        # Terms of rdflib are strings of their own kind.
        return str(value)
    where = "" if row is None else f"row {row}: "
    if is_missing(value):
        raise DataError(
            f"{where}the {place} is missing",
            row=row,
            remedy="name it, or leave it out to ask for it" if row is None else "remove rows with nulls, for example with drop_nulls() or dropna()",
        )
    try:
        if isinstance(value, bool):
            raise TypeError
        return str(operator.index(value))
    except TypeError:
        raise DataError(
            f"{where}the {place} is of type {type(value).__name__}, and names are text or whole numbers",
            row=row,
            remedy="give it as text, for example with str()",
        ) from None


def triple(value: Any, row: int | None = None) -> tuple[str, str, str]:
    """Head, relation and tail by name."""
    where = "" if row is None else f"row {row}: "
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != 3:
        raise DataError(f"{where}{value!r} is not a triple", row=row, remedy="give (head, relation, tail)")
    return (called(value[0], "head", row), called(value[1], "relation", row), called(value[2], "tail", row))


def text_of(file: str | os.PathLike[str], what: str) -> str:
    """The text of a file."""
    at = path(what, file)
    try:
        with open(at, encoding="utf-8-sig") as opened:
            return opened.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{at}: it is not UTF-8 text (byte {error.start})", path=at, remedy="save it as UTF-8") from None
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise DataError(f"{at}: cannot read {what}: {said}", path=at, remedy="check the path, or give a dict or numbers instead") from None


def settings(given: Mapping[str, Any]) -> str:
    """Keywords as JSON for the native part."""
    return json.dumps({name: _plain(name, value) for name, value in given.items()})


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        # A number of numpy.
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise RugeError(f"{name}={value!r} is not finite", remedy=f"give {name} as a number")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    raise RugeError(f"{name}={value!r}: a setting is a number or text, not {type(value).__name__}", remedy="give it as the flag of the command takes it")
