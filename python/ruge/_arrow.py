"""Tables by Arrow's C interface: polars, pyarrow, DuckDB and whatever else has ``__arrow_c_stream__``, without any of them.

The structures are those of https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. A window of rows at
a time is handed to the native part as bytes, so a frame is never copied as a whole.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from ruge import _core
from ruge.errors import DataError

#: Rows handed over at a time; a multiple of eight, because validity is counted in bits.
ROWS = 1 << 18

#: Bytes of a whole number by Arrow's word for it.
_WHOLE = {"c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "l": 8, "L": 8}


class _Schema(ctypes.Structure):
    format: bytes
    name: bytes | None
    n_children: int
    children: Any
    dictionary: Any
    release: Any


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    length: int
    offset: int
    null_count: int
    n_buffers: int
    buffers: Any
    children: Any
    dictionary: Any
    release: Any


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    get_schema: Any
    get_next: Any
    get_last_error: Any


_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def add(builder: _core.Builder, split: int, table: Any, choose: Callable[[list[str]], list[str]]) -> None:
    """Adds the three columns of a table that ``choose`` picks among its names."""
    # The capsule owns the stream and releases it when it goes.
    try:
        capsule = table.__arrow_c_stream__()
    except Exception as error:
        raise DataError(
            f"the table cannot be given as Arrow: {error}", remedy="convert its columns to text, for example with cast(str)"
        ) from error
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = _Stream.from_address(pointer(capsule, b"arrow_array_stream"))
    schema = _Schema()
    _checked(stream, stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
    try:
        if schema.format != b"+s":
            raise DataError("the stream is not a table", remedy="give a table with three columns")
        names = [(schema.children[at].contents.name or b"").decode() for at in range(schema.n_children)]
        wanted = [names.index(name) for name in choose(names)]
        row = 0
        while True:
            batch = _Array()
            _checked(stream, stream.get_next(ctypes.byref(stream), ctypes.byref(batch)))
            if not batch.release:
                return
            try:
                columns = [
                    _Column(place, schema.children[at].contents, batch.children[at].contents, batch.offset)
                    for place, at in zip(("head", "relation", "tail"), wanted, strict=True)
                ]
                for start in range(0, batch.length, ROWS):
                    stop = min(start + ROWS, batch.length)
                    head, relation, tail = (column.rows(start, stop) for column in columns)
                    builder.cells(split, (head, relation, tail), stop - start, row + start)
                row += batch.length
            finally:
                batch.release(ctypes.byref(batch))
    finally:
        schema.release(ctypes.byref(schema))


def _checked(stream: _Stream, code: int) -> None:
    if code != 0:
        said = stream.get_last_error(ctypes.byref(stream)) or b"no reason given"
        raise DataError(
            f"the table cannot be read: {said.decode(errors='replace')}",
            remedy="compute the table first, or convert its columns to text",
        )


class _Column:
    """A column of a batch, whose rows become bytes."""

    def __init__(self, place: str, schema: _Schema, array: _Array, skipped: int) -> None:
        self.place = place
        self.format = schema.format.decode()
        self.start: int = array.offset + skipped
        self.buffers: list[int | None] = [array.buffers[at] for at in range(array.n_buffers)]
        self.dictionary: _core.Column | None = None
        self.texts: list[bytes] = []
        if schema.dictionary:
            values = array.dictionary.contents
            self.dictionary = _Column(place, schema.dictionary.contents, values, 0).rows(0, values.length)
        if self.format == "vu":
            lengths = _numbers(self.buffers[-1], len(self.buffers) - 3, ctypes.c_int64)
            self.texts = [_bytes(at, 0, length) for at, length in zip(self.buffers[2:-1], lengths, strict=True)]

    def rows(self, start: int, stop: int) -> _core.Column:
        start, stop = start + self.start, stop + self.start
        validity = None
        if self.buffers and self.buffers[0]:
            validity = (_bytes(self.buffers[0], start // 8, (stop + 7) // 8), start % 8)
        return _core.Column(self.place, self.format, validity, list(self._parts(start, stop)), self.dictionary)

    def _parts(self, start: int, stop: int) -> Iterator[bytes]:
        if self.format in ("u", "U"):
            width = 4 if self.format == "u" else 8
            ends = _bytes(self.buffers[1], width * start, width * (stop + 1))
            first = int.from_bytes(ends[:width], "little")
            last = int.from_bytes(ends[-width:], "little")
            yield ends if first == 0 else _shifted(ends, first, width)
            yield _bytes(self.buffers[2], first, last)
        elif self.format == "vu":
            yield _bytes(self.buffers[1], 16 * start, 16 * stop)
            yield from self.texts
        elif self.format in _WHOLE:
            width = _WHOLE[self.format]
            yield _bytes(self.buffers[1], width * start, width * stop)


def _bytes(address: int | None, start: int, stop: int) -> bytes:
    # An empty buffer may have no address.
    return ctypes.string_at(address + start, stop - start) if address and stop > start else b""


def _numbers(address: int | None, count: int, kind: Any) -> list[int]:
    return list((kind * count).from_address(address)) if address and count > 0 else []


def _shifted(ends: bytes, by: int, width: int) -> bytes:
    import numpy

    moved = numpy.frombuffer(ends, dtype=f"<i{width}") - by
    return moved.astype(f"<i{width}").tobytes()
