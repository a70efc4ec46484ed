"""docs/reference/settings.md: every field of every payload, and the environment variables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from rankloop import schema
from rankloop.schema import Payload
from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.schema.api_key import ApiKey
from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.schema.field_descriptions import describe_fields
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings, SnapshotSettings
from rankloop.service.settings import PREFIX
from tools.reference.markdown import code, escaped, page, sentence, table
from tools.reference.source import environment_variables

PAYLOADS: tuple[tuple[str, str, type[Payload]], ...] = (
    ("Rank request", "`Ranker.rank`, `Client.rank`, `POST /v1/rankers/{name}/rank`.", schema.RankRequest),
    ("Item of a request", "an entry of `items` of a rank request.", schema.RequestItem),
    (
        "Feedback event",
        "`Ranker.feedback`, `Client.feedback`, `POST /v1/rankers/{name}/feedback`.",
        schema.FeedbackEvent,
    ),
    ("Item", "`Ranker.put_items`, `Client.put_items`, `PUT /v1/rankers/{name}/items`.", schema.Item),
    ("Item without its id", "`PUT /v1/rankers/{name}/items/{id}`, where the id is in the path.", schema.ItemBody),
    ("Prior", "the field `prior` of an item.", schema.Prior),
    ("Prior of a segment", "an entry of `segments` of a prior.", schema.SegmentPrior),
    ("Ranker settings", "`RankerConfig`, `PUT /v1/rankers/{name}`, `rankloop rankers`.", schema.RankerSettings),
    ("Guardrail", "the field `guardrail` of a ranker's settings.", schema.Guardrail),
    ("Reward", "the field `reward` of a ranker's settings.", schema.RewardSettings),
    ("Kind of feedback", "an entry of `kinds` in `reward`.", schema.KindSettings),
    ("Features", "the field `features` of a ranker's settings.", schema.FeatureSettings),
    ("Field", "an entry of `items` or `context` in `features`.", schema.FieldSettings),
    ("Service settings", "`rankloop serve --config FILE`, and the variables below.", ServiceSettings),
    ("API key", "an entry of `keys` of the service settings.", ApiKey),
    ("Admission", "the field `admission` of the service settings.", AdmissionSettings),
    ("Limits", "the field `limits` of the service settings.", ServiceLimits),
    ("Connections", "the field `connections` of the service settings.", ConnectionSettings),
    ("Snapshots", "the field `snapshots` of the service settings.", SnapshotSettings),
)


def settings_page() -> str:
    """Return the page of all payloads: type, default, accepted values and meaning of every field."""
    intro = ["The same rules apply in process, over HTTP and in settings files.", ""]
    return page("Settings", "`rankloop.schema`", intro, *(_payload(*one) for one in PAYLOADS), _environment())


def _payload(title: str, where: str, kind: type[Payload]) -> Iterator[str]:
    yield from (
        f"## {title}",
        "",
        sentence(escaped((inspect.getdoc(kind) or "").split("\n")[0])) + " Used in: " + where,
        "",
    )
    rows = (
        (code(one.name), one.type, code(one.default), escaped(one.accepted), sentence(escaped(one.description)))
        for one in describe_fields(kind)
    )
    yield from table(("field", "type", "default", "accepted", "meaning"), rows)


def service_variables() -> dict[str, str]:
    """Return the environment variable of every service setting, with the setting's path."""
    found: dict[str, str] = {}
    parts = {
        "admission": AdmissionSettings,
        "limits": ServiceLimits,
        "connections": ConnectionSettings,
        "snapshots": SnapshotSettings,
    }
    for name in ServiceSettings.__struct_fields__:
        for inner in parts[name].__struct_fields__ if name in parts else ("",):
            path = f"{name}.{inner}" if inner else name
            found[PREFIX + path.upper().replace(".", "__")] = path
    return found


def _environment() -> Iterator[str]:
    yield from ("## Environment variables", "")
    yield f"A variable `{PREFIX}…` overrides the settings file of a service, and options of the command line override"
    yield from ("both. Its value is read as YAML.", "")
    services = service_variables()
    yield from table(("variable", "service setting"), ((code(name), code(path)) for name, path in services.items()))
    yield from ("", "Other variables:", "")
    others = {name: modules for name, modules in environment_variables().items() if name not in services}
    rows = ((code(name), ", ".join(code(module) for module in modules)) for name, modules in others.items())
    yield from table(("variable", "read by"), rows)
