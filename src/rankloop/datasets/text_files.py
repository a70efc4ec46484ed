"""Read data files, plain, gzipped or in a zip, as streams, lines, blocks of lines, numbers and words."""

from __future__ import annotations

import gzip
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

import numpy as np

from rankloop.datasets.errors import BadData, MissingData
from rankloop.types import FloatArray

BLOCK_BYTES = 1 << 24
"""Size of one read."""

MAX_LINE_BYTES = 1 << 26
"""No line of these data sets comes near this length; a file with a longer one is not text."""

GZIP, ZIP = b"\x1f\x8b", b"PK"
NUMERIC = b"0123456789.+-eE"
DAMAGE = (EOFError, OSError, RuntimeError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error)


@contextmanager
def opened(path: Path, *names: str) -> Iterator[IO[bytes]]:
    """Open a file, or the first of `names` (also with .gz) in a folder or zip; gz is detected by its content."""
    try:
        with ExitStack() as stack:
            yield _open(path, names, stack)
    except DAMAGE as error:
        if isinstance(error, OSError) and error.strerror:
            raise BadData(f"{path} cannot be read ({error.strerror}); make it a readable file.") from None
        raise BadData(f"{path} is damaged or truncated ({error}); download it again.") from None


def _open(path: Path, names: tuple[str, ...], stack: ExitStack) -> IO[bytes]:
    wanted = [name + suffix for name in names for suffix in ("", ".gz")]
    if path.is_dir():
        found = [path / name for name in wanted if (path / name).is_file()]
        if not found:
            raise MissingData(f"{path} has no {' or '.join(names)}; give the folder or zip that has it.")
        path, names = found[0], ()
    if not path.is_file():
        wanted_path = f"the folder or zip that has {' or '.join(names)}" if names else "an existing file"
        raise MissingData(f"{path} does not exist; give {wanted_path}.")
    stream: IO[bytes] = stack.enter_context(path.open("rb"))
    magic = stream.read(2)
    stream.seek(0)
    if magic == ZIP:
        stream = _in_zip(path, stack.enter_context(zipfile.ZipFile(stream)), wanted, stack)
        magic = GZIP if stream.name.endswith(".gz") else b""
    elif names:
        raise BadData(f"{path.name} is not a zip file; give the folder or zip that has {' or '.join(names)}.")
    return cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=stream))) if magic == GZIP else stream


def _in_zip(path: Path, archive: zipfile.ZipFile, wanted: list[str], stack: ExitStack) -> IO[bytes]:
    """Return the member with the first of the wanted names, or the only member."""
    members = {PurePosixPath(m).name: m for m in archive.namelist() if not m.startswith("__MACOSX") and m[-1] != "/"}
    found = [members[name] for name in wanted if name in members] if wanted else list(members.values())
    if not found or (not wanted and len(found) > 1):
        raise MissingData(
            f"{path} has no {' or '.join(wanted[::2]) or 'single file'}; give the folder or zip that has it."
        )
    return stack.enter_context(archive.open(found[0]))


def text_lines(stream: IO[bytes], encoding: str = "utf-8") -> Iterator[str]:
    """Yield lines without their line ends."""
    for line in stream:
        yield line.decode(encoding).rstrip("\r\n")


def blocks(stream: IO[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield blocks of complete lines, each ended by LF alone, none of them empty."""
    rest = b""
    while chunk := stream.read(size):
        lines, end, tail = (rest + chunk).rpartition(b"\n")
        if end and (block := _tidy(lines)):
            yield block
        rest = tail
        if len(rest) > MAX_LINE_BYTES:
            raise BadData(
                f"{getattr(stream, 'name', 'the file')} has a line of more than {MAX_LINE_BYTES} bytes: no text."
            )
    if block := _tidy(rest):
        yield block


def _tidy(lines: bytes) -> bytes:
    lines = lines.replace(b"\r\n", b"\n").strip(b"\r\n")
    return re.sub(rb"\n\n+", b"\n", lines) + b"\n" if lines else b""


def number_rows(stream: IO[bytes], name: str, columns: int, separator: bytes) -> Iterator[FloatArray]:
    """Yield rows of numbers, [rows, columns] for each block."""
    for block, first in _checked(stream, name, NUMERIC, separator * (columns - 1), f"{columns} numbers"):
        found = parse_numbers(block.replace(separator, b" "))
        if found.size != columns * block.count(b"\n"):
            raise BadData(f"{name} has a field that is no number, at or after line {first}; download the file again.")
        yield found.reshape(-1, columns)


def word_columns(stream: IO[bytes], name: str, columns: int, separator: bytes) -> Iterator[list[list[bytes]]]:
    """Yield columns of words of letters, digits, - and _, block by block."""
    letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
    for block, _ in _checked(stream, name, letters, separator * (columns - 1), f"{columns} words"):
        words = block[:-1].replace(b"\n", separator).split(separator)
        yield [words[column::columns] for column in range(columns)]


def _checked(stream: IO[bytes], name: str, letters: bytes, shape: bytes, wanted: str) -> Iterator[tuple[bytes, int]]:
    """Yield blocks with the number of their first line; without `letters`, each line must equal `shape`."""
    line = 1
    for block in blocks(stream):
        marks, rows = block.translate(None, letters), block.count(b"\n")
        if marks != (shape + b"\n") * rows:
            bad = next(i for i, row in enumerate(marks.split(b"\n")) if row != shape)
            raise bad_line(name, line + bad, block.split(b"\n")[bad], wanted)
        yield block, line
        line += rows


def bad_line(name: str, line: int, text: bytes, wanted: str) -> BadData:
    """Return the error for a malformed line."""
    shown = text[:60].decode("latin-1")
    return BadData(f"{name} line {line} is {shown!r}, not {wanted}: the file is damaged, truncated or of another kind.")


def parse_numbers(text: bytes) -> FloatArray:
    """Return the numbers between blanks, up to the first word that is not a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return np.fromstring(text, sep=" ")
        except ValueError:
            return np.empty(0)
