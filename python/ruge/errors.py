"""What can go wrong. Every exception says what is wrong, where, and what to do about it."""

from __future__ import annotations


class RugeError(Exception):
    """An error of ruge, with what a program can act on.

    Attributes: ``path`` and ``line`` of a file, ``row`` of a table (from 0), ``nearest`` names, and ``remedy``.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        row: int | None = None,
        nearest: list[str] | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message if remedy is None else f"{message}\n  remedy: {remedy}")
        self.message = message
        self.path = path
        self.line = line
        self.row = row
        self.nearest = nearest or []
        self.remedy = remedy

    def within(self, place: str, row: int | None = None) -> RugeError:
        """The same error, said of a part of what was given, or of a row of it."""
        return type(self)(
            f"{place}: {self.message}",
            path=self.path,
            line=self.line,
            row=self.row if row is None else row,
            nearest=self.nearest,
            remedy=self.remedy,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.message, self.path, self.line, self.row, self.nearest, self.remedy))


class DataError(RugeError, ValueError):
    """Data that cannot be read: ``path`` and ``line``, or ``row``, say where."""


class UnknownName(RugeError, LookupError):
    """A name that a model or a graph does not have; ``nearest`` lists similar ones."""


class ModelFileError(RugeError, ValueError):
    """A file that is no model, or a damaged one, or one of a newer version."""


class MissingPackage(RugeError, ImportError):
    """A package that is not required, and is not installed."""


class DeviceError(RugeError):
    """The GPU cannot be used."""


def _again(
    kind: type[RugeError],
    message: str,
    path: str | None,
    line: int | None,
    row: int | None,
    nearest: list[str],
    remedy: str | None,
) -> RugeError:
    return kind(message, path=path, line=line, row=row, nearest=nearest, remedy=remedy)
