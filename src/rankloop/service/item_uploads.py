"""Items in the body of a request: JSON, one JSON object in each line, or an Arrow stream with a row for each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from rankloop.errors import InvalidInput, MissingExtra
from rankloop.schema import Decoder, Item
from rankloop.schema.request_bodies import ItemsBody
from rankloop.service.problems import RequestRefused

JSON, LINES, ARROW = b"application/json", b"application/x-ndjson", b"application/vnd.apache.arrow.stream"
MEDIA = (JSON, LINES, ARROW)
_body, _item = Decoder(ItemsBody), Decoder(Item)
_lines = msgspec.json.Decoder(Item).decode_lines


def decode_json(body: bytes) -> Sequence[Item]:
    """Return the items of a JSON object."""
    return _body(body).items


def decode_lines(body: bytes) -> Sequence[Item]:
    """Return the items of lines; an error names the line, counted from 0."""
    try:
        return _lines(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_line(n, line) for n, line in enumerate(body.splitlines()) if line.strip()]


def _line(n: int, line: bytes) -> Item:
    try:
        return _item(line)
    except InvalidInput as error:
        name = error.field.removeprefix("item").removeprefix(".")
        raise InvalidInput(f"lines[{n}].{name}".rstrip("."), error.value, error.accepted, error.meant) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"line {n} of the body, counted from 0, is not JSON: {error}.") from None


def decode_arrow(body: bytes) -> Sequence[Item]:
    """Return the items of an Arrow stream: columns are named as the attributes of items, `fields` is a structure."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise MissingExtra("reading items from an Arrow stream", "experiments") from None
    try:
        with pa.ipc.open_stream(body) as stream:
            rows = stream.read_all().to_pylist()
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise RequestRefused(400, f"the body is not an Arrow stream: {reason}.") from None
    return [Item.of(_given(row), f"rows[{n}]") for n, row in enumerate(rows)]


def _given(row: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a row that are not null."""
    return {name: value for name, value in row.items() if value is not None}


DECODERS: Mapping[bytes, Callable[[bytes], Sequence[Item]]] = {
    JSON: decode_json,
    LINES: decode_lines,
    ARROW: decode_arrow,
}
"""How each type of body is read."""
