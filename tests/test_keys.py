"""API keys end in time, by rotation and by revocation; tokens allow what they say, for as long as their key does."""

from __future__ import annotations

import base64
import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.cli import main as command_line
from rankloop.cli.main import main
from rankloop.client import Calls
from rankloop.errors import InvalidInput
from rankloop.schema.api_key import ApiKey, check_key_names, iso_time
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service import settings as configuration
from rankloop.service.access import auth
from rankloop.service.access.auth import AccessControl, RateLimit, make_key
from rankloop.service.access.key_edit import add_key, revoke_key, with_keys
from rankloop.service.access.key_watch import KeyWatch, key_changes
from rankloop.service.access.tokens import SignedTokens
from rankloop.service.problems import RequestRefused
from rankloop.yaml_reader import load_yaml
from served import Served, until
from test_service import COUNTS, ROLES, Http, Start, problem, start  # noqa: F401

NOW = 1_800_000_000.0
ROLE_NAMES = ("rank", "feedback", "read", "admin")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def bearer(key: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {key}".encode()}


def status(admit: Callable[[], Any]) -> int:
    """The status with which a request is refused, 200 if it is admitted."""
    try:
        admit()
    except RequestRefused as refused:
        return refused.status
    return 200


def admitted(control: AccessControl, key: str) -> int:
    return status(lambda: control.admit(bearer(key), "rank"))


def access(*entries: dict[str, Any], clock: Clock | None = None, **more: Any) -> AccessControl:
    settings = ServiceSettings(keys=tuple(ApiKey.of(entry) for entry in entries), **more)
    return AccessControl(settings, Clock() if clock is None else clock)


# Expiry


def test_a_key_is_valid_before_its_expiry_and_never_after() -> None:
    clock = Clock()
    key, entry = make_key("shop", ["rank"], iso_time(NOW + 100))
    lasting, other = make_key("other", ["rank"])
    control = access(entry, other, clock=clock)
    for clock.now, expected in ((NOW, 200), (NOW + 99.9, 200), (NOW + 100, 401), (NOW + 1e9, 401), (NOW, 200)):
        assert status(lambda: control.admit(bearer(key), "rank")) == expected
        assert status(lambda: control.admit(bearer(lasting), "rank")) == 200
    clock.now = NOW + 100
    with pytest.raises(RequestRefused, match="this API key has expired") as refused:
        control.admit(bearer(key), "rank")
    assert refused.value.headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15T08:00:00", NOW),
        ("2027-01-15T10:00:00+02:00", NOW),
        ("2027-01-15", NOW - 8 * 3600),
    ],
)
@pytest.mark.parametrize("quote", ["", "'"])
def test_an_expiry_is_a_time_in_utc_unless_it_says_otherwise(
    tmp_path: Path, text: str, seconds: float, quote: str
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"keys:\n- {{name: a, roles: [read], salt: s, sha256: h, expires: {quote}{text}{quote}}}\n")
    (key,) = configuration.load(file, environment={}).keys
    assert key.expires_at == seconds
    assert configuration.load_keys(file, environment={}) == (key,)


@pytest.mark.parametrize("text", ["tomorrow", "90d", "2027-13-01", "''", "5", "[]"])
def test_another_expiry_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"keys: [{{name: a, roles: [read], salt: hidden-salt, sha256: hidden-hash, expires: {text}}}]")
    with pytest.raises(
        InvalidInput, match=r"^keys\[0\].*expires is not acceptable; accepted: a date and time"
    ) as error:
        configuration.load(file, environment={})
    assert "hidden" not in str(error.value)


def test_keys_may_share_a_name_only_if_all_but_one_expire() -> None:
    lasting, ending = (
        {"name": "a", "roles": ["read"], "salt": "", "sha256": "", **more} for more in ({}, {"expires": "2030-01-01"})
    )
    for entries, accepted in (([lasting, ending, ending], True), ([ending, ending], True), ([lasting, lasting], False)):
        keys = [ApiKey.of(entry) for entry in entries]
        if accepted:
            check_key_names(keys)
        else:
            with pytest.raises(InvalidInput, match="distinct names"):
                check_key_names(keys)


# Changes while the service runs


def test_changed_keys_replace_the_cached_ones() -> None:
    keys = {name: make_key(name, ["rank"]) for name in "abc"}
    control = access(keys["a"][1], keys["b"][1])
    for used in (("a", "b"), ("b", "c"), ("c",), (), ("a",)):
        control.use_keys([ApiKey.of(keys[name][1]) for name in used])
        for name, (key, _) in keys.items():
            for _ in range(2):  # the second time from the cache
                assert admitted(control, key) == (200 if name in used else 401)


def test_a_key_that_is_revoked_while_it_is_compared_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    key, entry = make_key("a", ["rank"])
    control = access(entry)
    original = auth.key_hash

    def revoked_meanwhile(salt: str, text: str) -> str:
        control.use_keys([])
        return original(salt, text)

    monkeypatch.setattr(auth, "key_hash", revoked_meanwhile)
    control.admit(bearer(key), "rank")
    monkeypatch.undo()
    assert status(lambda: control.admit(bearer(key), "rank")) == 401


def test_a_service_without_keys_closes_with_the_first_and_never_opens_again() -> None:
    key, entry = make_key("a", ["rank"])
    control = AccessControl(ServiceSettings())
    local = {b"host": b"localhost"}
    assert control.admit(local, "admin") is None
    control.use_keys([ApiKey.of(entry)])
    assert status(lambda: control.admit(local, "rank")) == 401
    assert control.admit(bearer(key), "rank") == "a"
    control.use_keys([])
    assert status(lambda: control.admit(local, "rank")) == 401
    assert status(lambda: control.admit(bearer(key), "rank")) == 401


def test_a_change_of_the_file_is_seen_and_a_wrong_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, seen = tmp_path / "settings.yaml", list[list[str]]()
    watch = KeyWatch(file, lambda keys: seen.append([key.name for key in keys]))
    entries = {name: make_key(name, ["read"])[1] for name in "ab"}
    file.write_text(json.dumps({"host": "0.0.0.0", "keys": [entries["a"]]}))
    watch.look()
    watch.look()
    assert seen == [["a"]]
    add_key(file, entries["b"], 0.0)
    watch.look()
    assert seen[-1] == ["a", "b"]
    for wrong in ("keys: [", "keys: 5", "keys: [{name: a}]", "- 1"):
        file.write_text(wrong)
        watch.look()
    file.unlink()
    watch.look()
    assert len(seen) == 2
    assert len(caplog.records) == 5
    file.write_text("host: 0.0.0.0\n")  # the last key was revoked; with this host, no service would start
    watch.look()
    assert seen == [["a"], ["a", "b"], []]
    watch.close()


def test_changes_of_keys_are_named() -> None:
    a, b, c = (ApiKey.of(make_key(name, ["read"])[1]) for name in "abc")
    ending = ApiKey.of(msgspec.structs.asdict(a) | {"expires": "2030-01-01"})
    assert key_changes([a, b], [a, b]) == key_changes([a, b], [b, a]) == []
    assert key_changes([a, b], [ending, c]) == ["added c", "changed a", "revoked b"]


# Editing the settings file

FILES = (
    "",
    "# nothing yet",
    "port: 1 # ours",
    "port: 1\nkeys:\nhost: localhost # here\n",
    "port: 1\nkeys: []\nrankers: {}\n",
    "keys:\n- {name: old, roles: [read], salt: s, sha256: h}  # the first\n# about the port\nport: 1\n",
    "keys:\n  - name: old\n    roles: [read]\n    salt: s\n    sha256: h\n\n# about the port\nport: 1\n",
    "keys: [{name: old, roles: [read], salt: s, sha256: h}]\n",
    '{"port": 1, "limits": {"body": 5}}',
    '{"keys": [{"name": "old", "roles": ["read"], "salt": "s", "sha256": "h"}], "port": 1}',
    "{}",
    "---\nport: 1\nlog: 'a: b.db'\n",
    'rankers:\n  keys: {policy: random, slots: 2}\n"keys": []\n',
)


@pytest.mark.parametrize("text", FILES)
def test_only_the_keys_of_a_file_change(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    before: dict[str, Any] = yaml.safe_load(text) or {}
    for name in ("new", "newer"):
        add_key(file, make_key(name, ["rank"])[1], 0.0)
    after = yaml.safe_load(file.read_text())
    assert [key["name"] for key in after.pop("keys")] == [one["name"] for one in before.get("keys") or []] + [
        "new",
        "newer",
    ]
    assert after == {name: value for name, value in before.items() if name != "keys"}
    for comment in re.findall(r"# \w.*", text):
        assert comment in file.read_text()
    assert [revoke_key(file, name) for name in ("new", "newer")] == [1, 1]
    again = yaml.safe_load(file.read_text())
    assert [one["name"] for one in again.pop("keys")] == [one["name"] for one in before.get("keys") or []]
    assert again == after
    with pytest.raises(InvalidInput, match="--revoke is 'new'"):
        revoke_key(file, "new")


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
plain = st.dictionaries(
    texts.filter(lambda name: name != "keys"), st.one_of(texts, st.integers(), st.lists(texts)), max_size=4
)


@settings(derandomize=True, max_examples=200)
@given(plain, st.lists(texts, max_size=3), st.booleans(), st.sampled_from([None, True, False]))
def test_any_document_keeps_its_other_settings(
    document: dict[str, Any], names: list[str], has_keys: bool, style: bool | None
) -> None:
    given = document | ({"keys": [{"name": "x"}], "z": 1} if has_keys else {})
    text = yaml.safe_dump(given, default_flow_style=style, sort_keys=False, allow_unicode=True) if given else ""
    edited = with_keys(text, [{"name": name} for name in names])
    assert load_yaml(edited) == load_yaml(text or "{}") | {"keys": [{"name": name} for name in names]}  # type: ignore[operator]


def test_a_rotation_keeps_the_old_key_for_a_while(tmp_path: Path) -> None:
    file, clock = tmp_path / "settings.yaml", Clock()
    keys = [make_key("shop", ["rank"]) for _ in range(3)]
    assert add_key(file, keys[0][1], 60.0, clock) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert add_key(file, keys[1][1], 60.0, clock) == [iso_time(NOW + 60)]
    clock.now += 30
    assert add_key(file, keys[2][1], 60.0, clock) == [iso_time(NOW + 60), iso_time(NOW + 90)]
    control = AccessControl(ServiceSettings(keys=configuration.load_keys(file, environment={})), clock)
    for clock.now, valid in ((NOW + 59, (0, 1, 2)), (NOW + 60, (1, 2)), (NOW + 90, (2,)), (NOW + 1e9, (2,))):
        assert [i for i, (key, _) in enumerate(keys) if admitted(control, key) == 200] == list(valid)
    add_key(file, make_key("shop", ["rank"])[1], 60.0, clock)
    assert len(configuration.load_keys(file, environment={})) == 2  # expired entries are removed


def test_the_commands_create_rotate_and_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("# our service\nport: 0\n")
    file.chmod(0o640)

    def created(*more: str) -> str:
        assert main(["serve", "--new-key", "shop:rank,feedback", "--config", str(file), *more]) == 0
        (key,) = re.findall(r"rl_\S+", capsys.readouterr().out)
        assert key not in file.read_text()
        return str(key)

    first, second = created("--expires", "90d"), created("--overlap", "2h")
    control = AccessControl(configuration.load(file, environment={}))
    assert [control.admit(bearer(key), "rank") for key in (first, second)] == ["shop", "shop"]
    assert file.read_text().startswith("# our service\nport: 0\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert main(["serve", "--revoke", "shop", "--config", str(file)]) == 0
    assert "2 keys were removed" in capsys.readouterr().out
    assert configuration.load(file, environment={}).keys == ()
    for wrong in (
        ["--revoke", "shop"],
        ["--revoke", "shop", "--config", str(file)],
        ["--new-key", "a:rank", "--expires", "soon"],
        ["--new-key", "a:rank", "--expires", "999999999w"],
        ["--new-key", "a:rank", "--overlap", "5"],
        ["--expires", "5d"],
        ["--new-key", f"{'a' * 101}:rank", "--config", str(file)],
    ):
        assert main(["serve", *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_running_service_takes_new_keys_and_refuses_revoked_ones(tmp_path: Path) -> None:
    """One process: a key and a token of it work, the key is revoked by the command, and both stop working."""
    served, file = Served(tmp_path), tmp_path / "settings.yaml"
    key, entry = make_key("shop", ["rank", "feedback"])
    other, kept = make_key("other", ["read"])
    add_key(file, kept, 0.0)
    try:
        served.start()

        def asked(key: str, path: str = "/v1/rankers/counts/rank") -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return httpx.post(served.url + path, json={}, headers=headers, timeout=60.0).status_code

        assert asked(key) == 401
        add_key(file, entry, 0.0)
        until(lambda: asked(key) == 200, "the new key is accepted")
        headers = {"Authorization": f"Bearer {key}"}
        token = httpx.post(f"{served.url}/v1/rankers/counts/tokens", json={}, headers=headers, timeout=60.0).json()
        assert asked(token["token"]) == 200
        assert command_line.main(["serve", "--revoke", "shop", "--config", str(file)]) == 0
        until(lambda: asked(key) == 401, "the revoked key is refused")
        assert asked(token["token"]) == 401
        assert asked(other) == 403
        assert '"fields":["added shop"]' in served.output
        assert '"fields":["revoked shop"]' in served.output
    finally:
        served.close()


# Tokens


@pytest.fixture
def shop(start: Start) -> tuple[Http, dict[str, str], Clock]:  # noqa: F811
    """A service with the rankers `r` and `other`, a key for each role, and one that may issue tokens; its clock."""
    made = {role: make_key(role, [role]) for role in ROLE_NAMES} | {"shop": make_key("shop", ["rank", "feedback"])}
    keys, rankers = [entry for _, entry in made.values()], {"r": COUNTS, "other": COUNTS}
    http = start(keys=keys, rankers=rankers, limits=ServiceLimits(token_rate=10_000.0))  # however fast the tests are
    clock = http.service.access._clock = http.service.access.tokens._clock = Clock()
    return http, {name: key for name, (key, _) in made.items()}, clock


def ask(http: Http, key: str, method: str, path: str, body: Any = None) -> httpx.Response:
    return http(method, path, body, headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"})


def token(http: Http, key: str, ranker: str = "r", **body: Any) -> str:
    answer = ask(http, key, "POST", f"/v1/rankers/{ranker}/tokens", body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["ranker"] == ranker
    return str(answer.json()["token"])


def test_a_token_ranks_and_reports_for_one_ranker_and_may_do_nothing_else(
    shop: tuple[Http, dict[str, str], Clock],
) -> None:
    http, keys, _ = shop
    for issuer in ("shop", "admin"):
        own, other = token(http, keys[issuer]), token(http, keys[issuer], "other")
        for method, path, body, role in ROLES:
            allowed = role in ("rank", "feedback")
            assert (ask(http, own, method, path, body).status_code == 403) == (not allowed), path
            problem(ask(http, other, method, path, body), 403)
        problem(ask(http, own, "POST", "/v1/rankers/r/tokens", {}), 403, "an API key is needed")
        decision = ask(http, own, "POST", "/v1/rankers/r/rank", {}).json()["decision"]
        assert ask(http, own, "POST", "/v1/rankers/r/feedback", {"decision": decision}).status_code == 200


def test_keys_without_both_roles_issue_no_tokens(shop: tuple[Http, dict[str, str], Clock]) -> None:
    http, keys, _ = shop
    for role in ("rank", "feedback", "read"):
        problem(ask(http, keys[role], "POST", "/v1/rankers/r/tokens", {}), 403, "rank and feedback")
    problem(http("POST", "/v1/rankers/r/tokens", {}), 401)
    problem(ask(http, keys["shop"], "POST", "/v1/rankers/none/tokens", {}), 404)
    for seconds in (0, -1, 86_401, "many", 1.5):
        problem(
            ask(http, keys["shop"], "POST", "/v1/rankers/r/tokens", {"seconds": seconds}), 422, "seconds", "seconds"
        )


def test_a_token_ends_with_its_time_its_key_and_its_secret(shop: tuple[Http, dict[str, str], Clock]) -> None:
    http, keys, clock = shop
    default, short = token(http, keys["shop"]), token(http, keys["shop"], seconds=5)

    def rank(token: str) -> httpx.Response:
        return ask(http, token, "POST", "/v1/rankers/r/rank", {})

    for after, valid in (
        (0, {default, short}),
        (4.9, {default, short}),
        (5, {default}),
        (599, {default}),
        (600, set()),
    ):
        clock.now = NOW + after
        for one in (default, short):
            assert rank(one).status_code == (200 if one in valid else 401)
    problem(rank(default), 401, "this token has expired")
    clock.now = NOW
    access: AccessControl = http.service.access
    stored = access.keys
    access.use_keys([key for key in stored if key.name != "shop"])
    problem(rank(default), 401, "not valid any more")
    fewer = [key for key in stored if key.name != "shop"] + [ApiKey.of(make_key("shop", ["rank"])[1])]
    access.use_keys(fewer)  # another key of the same name did not issue it
    problem(rank(default), 401, "not valid any more")
    expiring = [ApiKey.of(msgspec.structs.asdict(key) | {"expires": iso_time(NOW + 60)}) for key in stored]
    access.use_keys(expiring)
    assert rank(default).status_code == 200
    clock.now = NOW + 60
    problem(rank(default), 401, "not valid any more")


def test_a_token_outlives_the_process_only_with_a_secret() -> None:
    secret = "s" * 32
    issued = SignedTokens(secret).issue("r", "issuer", 60).text.removeprefix("rlt_").encode()
    assert SignedTokens(secret).read(issued).ranker == "r"
    for other in (None, "t" * 32):
        with pytest.raises(RequestRefused, match="was not issued"):
            SignedTokens(other).read(issued)
    with pytest.raises(InvalidInput, match="token_secret is not acceptable; accepted: a text of at least 32"):
        ServiceSettings(token_secret="short")
    assert secret not in repr(ServiceSettings(token_secret=secret))


def test_no_change_of_a_token_is_accepted() -> None:
    tokens = SignedTokens("s" * 32)
    issued = tokens.issue("r", "issuer", 60).text.removeprefix("rlt_").encode()
    payload, signature = issued.split(b".")
    claims = json.loads(base64.urlsafe_b64decode(payload + b"=="))
    longer = base64.urlsafe_b64encode(json.dumps([*claims[:2], claims[2] + 9999, claims[3]]).encode()).rstrip(b"=")
    forged = [issued[:i] + bytes([(issued[i] + 1) % 256]) + issued[i + 1 :] for i in range(len(issued))]
    forged += [
        longer + b"." + signature,
        payload,
        payload + b".",
        b"." + signature,
        b"",
        b".",
        issued + b"x",
        b"\xff.\xff",
    ]
    for one in forged:
        with pytest.raises(RequestRefused) as refused:
            tokens.read(one)
        assert refused.value.status == 401


def test_each_token_has_its_own_rate(start: Start) -> None:  # noqa: F811
    key, entry = make_key("shop", ["rank", "feedback"])
    http = start(keys=[entry], rankers={"r": COUNTS}, limits=ServiceLimits(token_rate=0.001))
    for _ in range(2):
        one = token(http, key)
        assert ask(http, one, "POST", "/v1/rankers/r/rank", {}).status_code == 200
        problem(ask(http, one, "POST", "/v1/rankers/r/rank", {}), 429, "for each token")
    assert ask(http, key, "POST", "/v1/rankers/r/rank", {}).status_code == 200


def test_the_buckets_of_a_rate_limit_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_BUCKETS", 100)
    clock = Clock()
    rate = RateLimit(1.0, clock)
    for i in range(10_000):
        clock.now += 0.1  # a bucket is full again after ten others
        rate.spend(f"token {i}")
        assert len(rate._buckets) <= 101
    rate.spend("last")
    with pytest.raises(RequestRefused):
        rate.spend("last")  # a bucket that is not full is kept


def test_the_client_asks_for_tokens(shop: tuple[Http, dict[str, str], Clock]) -> None:
    http, keys, _ = shop
    call = Calls.token("r", seconds=30)
    answer = call.result(ask(http, keys["shop"], call.method, call.path, call.body))
    assert (answer.ranker, answer.expires) == ("r", NOW + 30)
    assert ask(http, answer.token, "POST", "/v1/rankers/r/rank", {}).status_code == 200


def test_without_keys_a_token_can_be_issued_and_is_not_needed(start: Start) -> None:  # noqa: F811
    http = start(rankers={"r": COUNTS})
    issued = http("POST", "/v1/rankers/r/tokens", {}).json()["token"]
    for headers in ({"Authorization": f"Bearer {issued}"}, {}):
        assert http("POST", "/v1/rankers/r/rank", {}, headers=headers).status_code == 200
    key, entry = make_key("a", ["rank", "feedback"])
    http.service.use_keys([ApiKey.of(entry)])
    problem(ask(http, issued, "POST", "/v1/rankers/r/rank", {}), 401)
    assert ask(http, key, "POST", "/v1/rankers/r/rank", {}).status_code == 200
