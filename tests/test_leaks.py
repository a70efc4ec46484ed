"""What must not leak: files to other users, passwords to the process list, and errors of libraries to the user."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rankloop.cli import main as command_line
from rankloop.cli.log_address import log_address, without_passwords
from rankloop.cli.main import main
from rankloop.errors import InvalidInput, RankloopError
from rankloop.eventlog import SqliteStore
from rankloop.eventlog.backup import back_up
from rankloop.eventlog.process_lock import ProcessLock
from rankloop.files import create_private, replace_file
from rankloop.serving import Ranker, RankerConfig

LINEAR = {"policy": "cascade-lin-ts", "slots": 2, "dim": 3, "seed": 1}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def written(path: Path) -> Path:
    """A closed log of a ranker with three items, four lists and a snapshot."""
    ranker = Ranker.open(path, RankerConfig.of(LINEAR))
    ranker.put_items([{"id": id, "features": [1.0, 0.5, float(i)]} for i, id in enumerate("abc")])
    for _ in range(4):
        ranker.feedback(ranker.rank(k=2, visitor="somebody").id, clicked=[0])
    ranker.snapshot()
    ranker.close()
    return path


# Files


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_file_of_a_log_belongs_to_its_owner_alone(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        log = tmp_path / "log.db"
        with closing(SqliteStore(log, exclusive=True)) as store:
            assert store.rankers() == []
            modes = {path.name: mode(path) for path in tmp_path.iterdir()}
            assert modes.keys() >= {"log.db", "log.db-shm", "log.db-wal", "log.db.lock"}
            assert set(modes.values()) == {0o600}, modes
        written(log)
        back_up(log, tmp_path / "backup.db")
        pytest.importorskip("pyarrow")
        assert main(["log", "export", str(log), str(tmp_path / "export.parquet")]) == 0
        assert main(["log", "import", str(tmp_path / "export.parquet"), str(tmp_path / "imported.db")]) == 0
    modes = {path.name: mode(path) for path in tmp_path.iterdir()}
    assert modes.keys() >= {"log.db", "backup.db", "export.parquet", "imported.db"}
    assert set(modes.values()) == {0o600}, modes


def test_a_link_to_a_log_that_does_not_exist_yet_creates_a_private_one(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "log.db")
    with umask(0):
        SqliteStore(tmp_path / "link.db").close()
    assert mode(tmp_path / "log.db") == 0o600


def test_an_existing_file_keeps_the_mode_that_its_owner_chose(tmp_path: Path) -> None:
    log, lock, export = tmp_path / "log.db", tmp_path / "log.db.lock", tmp_path / "export.parquet"
    for path in (log, lock, export):
        path.touch()
        path.chmod(0o640)
    written(log)
    ProcessLock(log).close()
    create_private(log)
    replace_file(export, lambda path: path.write_text("new"), private=True)
    assert [mode(path) for path in (log, lock, export)] == [0o640] * 3
    assert export.read_text() == "new"


# Passwords

WITH_PASSWORD = (
    "postgresql://me:s3cret@db/shop",
    "postgres://me:s3cret@db:5432,other:5433/shop?sslmode=require",
    "postgresql://db/shop?user=me&password=s3cret",
    "postgresql://db/shop?sslpassword=s3cret&user=me",
    "postgresql://me:s3/cret@db/shop",  # the slash should have been encoded
    "postgresql://:s3cret@/shop",
)
WITHOUT_PASSWORD = (
    "shop.db", "a:b@c.db", "postgresql://me@db/shop", "postgresql://db:5432/shop", "postgresql:///shop?host=/run/pg",
    "postgresql://db:5432/shop?user=me@tenant", "postgresql://me:@db/shop", "postgresql://db/shop?passfile=/x",
)  # fmt: skip
COMMANDS: tuple[Callable[[str], list[str]], ...] = (
    lambda log: ["serve", "--log", log],
    lambda log: ["log", "verify", log],
    lambda log: ["log", "export", log, "out.parquet"],
    lambda log: ["log", "import", "in.parquet", log],
    lambda log: ["log", "backup", log, "out.db"],
    lambda log: ["log", "skip", "ranker", "1", "--reason", "test", "--log", log],
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_takes_a_password_as_an_argument(
    command: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for address in WITH_PASSWORD:
        with pytest.raises(SystemExit) as ended:
            main(command(address))
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert "PGPASSWORD" in said.err
        assert "RANKLOOP_LOG" in said.err
        assert "@FILE" in said.err
        assert said.err.count("\n") == 1
        assert "cret" not in said.err + said.out


def test_every_command_with_a_log_is_in_the_list_above() -> None:
    """A command that is added later must not take an address as it is."""

    def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    yield from parsers(one)

    for parser in parsers(command_line.parser()):
        for action in parser._actions:
            if action.metavar == "LOG":
                assert action.type is log_address, parser.prog


def test_an_address_without_a_password_is_taken_as_it_is() -> None:
    assert [log_address(one) for one in WITHOUT_PASSWORD] == list(WITHOUT_PASSWORD)


def test_an_address_with_a_password_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "address"
    for address in WITH_PASSWORD:
        file.write_text(f"{address}\n")
        assert log_address(f"@{file}") == address
        monkeypatch.setenv("RANKLOOP_LOG", address)
        assert log_address("@") == address
        skip = command_line.parser().parse_args(["log", "skip", "r", "1", "--reason", "x"])
        assert skip.log == address
    monkeypatch.delenv("RANKLOOP_LOG")
    file.write_text("\n")
    for missing in (f"@{file}", "@", f"@{tmp_path / 'none'}"):
        with pytest.raises(argparse.ArgumentTypeError):
            log_address(missing)


def test_a_message_never_repeats_a_password() -> None:
    for address in WITH_PASSWORD:
        assert "cret" not in without_passwords(f"the log {address} is not there; {address}.")
    for text in (*WITHOUT_PASSWORD, "mail me: me@example.org"):
        assert without_passwords(text) == text


def test_a_password_with_a_slash_is_not_repeated_by_the_driver() -> None:
    psycopg = pytest.importorskip("psycopg")
    from rankloop.eventlog.postgres_connection import connection_info

    with pytest.raises(InvalidInput, match="encoded") as refused:
        connection_info(psycopg, "postgresql://me:s3/cret@db/shop", 1.0)
    assert "cret" not in str(refused.value)
    assert "s3" not in str(refused.value)


# Wrong configurations: one sentence


def changed(log: Path, out: Path, *statements: str) -> Path:
    shutil.copy(log, out)
    with closing(sqlite3.connect(out)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return out


def replaced(old: str, new: str) -> str:
    """A statement that changes the settings in a log, and one that removes its snapshot."""
    return (
        f"UPDATE log SET body = CAST(replace(CAST(body AS TEXT), '{old}', '{new}') AS BLOB) WHERE kind LIKE 'config%'"
    )


def wrong_logs(folder: Path) -> dict[str, Path]:
    """Files that are not a log of this version, by what is wrong with them."""
    log, drop = written(folder / "log.db"), "DELETE FROM snapshot"
    logs = {
        "text": folder / "text.db",
        "folder": folder,
        "no folder": folder / "none" / "log.db",
        "below a file": log / "log.db",
        "cut": folder / "cut.db",
        "newer": changed(log, folder / "newer.db", "PRAGMA user_version = 99"),
        "event of a newer version": changed(
            log, folder / "kind.db", "UPDATE log SET kind = 'new' WHERE position = 5", drop
        ),
        "damaged decision": changed(
            log, folder / "body.db", "UPDATE log SET body = x'00ff' WHERE kind = 'decision'", drop
        ),
        "settings of another dim": changed(log, folder / "dim.db", replaced('"dim":3', '"dim":4'), drop),
        "settings that are none": changed(log, folder / "type.db", replaced('"dim":3', '"dim":"x"'), drop),
        "settings of an unknown policy": changed(log, folder / "policy.db", replaced("cascade-lin-ts", "nope"), drop),
        "other database": folder / "other.db",
    }
    logs["text"].write_text("This is a text, not a database.\n" * 100)
    logs["cut"].write_bytes(log.read_bytes()[:5000])
    with closing(sqlite3.connect(logs["other database"])) as connection:
        connection.execute("CREATE TABLE log (x)")
    return logs


def one_sentence(text: str) -> None:
    assert "\n" not in text.strip()
    assert text.strip().endswith((".", "?"))
    for foreign in ("Traceback", "broadcast", "shape (", "numpy", "NoneType"):
        assert foreign not in text


def test_a_wrong_log_is_refused_by_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, path in wrong_logs(tmp_path).items():
        if wrong != "settings of an unknown policy":  # another policy may continue that log
            with pytest.raises(RankloopError) as refused:
                Ranker.open(path, RankerConfig.of(LINEAR)).close()
            one_sentence(str(refused.value))
        assert main(["log", "verify", str(path)]) == 2, wrong
        said = capsys.readouterr()
        one_sentence(said.err)
        for line in said.out.splitlines():
            one_sentence(line)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dim": 4}, r"^ranker.dim is 4; accepted: 3, with which the log was written\.$"),
        ({"slots": 3}, r"^ranker.slots is 3; accepted: 2, with which the log was written\.$"),
        ({"policy": "cascade-ucb1", "dim": None}, r"^ranker.dim is None; accepted: 3, with"),
        ({"policy": "feature-ucr", "context": 2}, r"^ranker.context is 2; accepted: no value, with"),
    ],
)
def test_settings_that_do_not_fit_the_log_name_the_field(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    log = written(tmp_path / "log.db")
    for other in (log, changed(log, tmp_path / "replayed.db", "DELETE FROM snapshot")):
        given = {name: value for name, value in (LINEAR | settings).items() if value is not None}
        with pytest.raises(InvalidInput, match=words) as refused:
            Ranker.open(other, RankerConfig.of(given))
        one_sentence(str(refused.value))


def test_an_imported_log_of_another_dim_is_refused_by_one_sentence(tmp_path: Path) -> None:
    """It does not contain the settings."""
    pytest.importorskip("pyarrow")
    log = written(tmp_path / "log.db")
    assert main(["log", "export", str(log), str(tmp_path / "export.parquet")]) == 0
    assert main(["log", "import", str(tmp_path / "export.parquet"), str(tmp_path / "imported.db")]) == 0
    with pytest.raises(RankloopError, match="features of item a is a list of 3; accepted: a list of 4") as refused:
        Ranker.open(tmp_path / "imported.db", RankerConfig.of(LINEAR | {"dim": 4}))
    one_sentence(str(refused.value))
