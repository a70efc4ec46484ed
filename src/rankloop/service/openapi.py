"""One OpenAPI 3.1 document for all routes, those of FastAPI and those beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from rankloop import catalogue
from rankloop.analytics.decision_history import DecisionHistory
from rankloop.analytics.diagnosis import Diagnosis
from rankloop.hosting.challenger_rebuild import ChallengerStatus
from rankloop.hosting.change_history import ChangeHistory
from rankloop.schema import FeedbackEvent, ItemBody, RankAnswer, RankerSettings, RankRequest, Receipt
from rankloop.schema.answers import BulkAnswers, Problem, RankersAnswer
from rankloop.schema.request_bodies import BulkFeedback, ItemPage, ItemsBody, Withdrawal
from rankloop.service import answers, problems
from rankloop.version import __version__

WHERE = "#/components/schemas/"
BODIES = (RankRequest, FeedbackEvent, BulkFeedback, Withdrawal, ItemsBody, ItemBody, RankerSettings)
ANSWERS = (
    RankAnswer, Receipt, BulkAnswers, ItemPage, RankersAnswer,
    DecisionHistory, answers.ReportAnswer, answers.OverviewAnswer, answers.SegmentsAnswer, answers.SlotCountsAnswer,
    answers.HealthAnswer, answers.ReadinessAnswer, Problem, ChangeHistory, ChallengerStatus, Diagnosis,
)  # fmt: skip
ALWAYS = {401: "No key, or a wrong one", 403: "The key has not the role", 429: "Too many requests"}
SOMETIMES = {
    404: "Unknown ranker, item or decision",
    409: "Not now, or not with this id; the sentence says why",
    422: "Not acceptable; the sentence says what is",
    503: "The log cannot be written now",
}
WITH_BODY = {400: "Not JSON", 413: "Too large", 415: "Not said to be JSON"}


class RouteDescription(TypedDict):
    """Parameters of a route, as FastAPI calls them."""

    status_code: int
    responses: dict[int | str, dict[str, object]]
    openapi_extra: dict[str, object]
    response_class: type[Response]


def described(
    *statuses: int,
    body: type | None = None,
    answer: type | None = None,
    status: int = 200,
    authenticated: bool = True,
    text: bool = False,
) -> RouteDescription:
    """What a route says of itself, as FastAPI wants it. `statuses`: beyond those that every route has."""
    told: dict[int | str, dict[str, object]] = {}
    content = {"text/plain": {"schema": {"type": "string"}}} if text else None if answer is None else _json(answer)
    for code in (status, *(code for code in statuses if code < 300)):
        told[code] = {"description": "Done"} | ({} if content is None else {"content": content})
    refusals = (ALWAYS if authenticated else {}) | {code: SOMETIMES[code] for code in statuses if code >= 300}
    refusals |= {code: SOMETIMES[code] for code in (422, 503)} if authenticated else {}
    refusals |= WITH_BODY if body is not None else {}
    for code, meaning in sorted(refusals.items()):
        told[code] = {"description": meaning, "content": {problems.MEDIA: {"schema": {"$ref": f"{WHERE}Problem"}}}}
    extra: dict[str, object] = {"security": [{"key": []}] if authenticated else []}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _json(body)}
    return {"status_code": status, "responses": told, "openapi_extra": extra, "response_class": _Nothing}


class _Nothing(Response):
    """A response without a media type of its own: the table above says which."""

    media_type = None


def _json(kind: type) -> dict[str, dict[str, dict[str, str]]]:
    return {"application/json": {"schema": {"$ref": WHERE + kind.__name__}}}


VISITS = {
    "/v1/rankers/{name}/rank": ("rank", "Decide a list", RankRequest, RankAnswer, (404, 409)),
    "/v1/rankers/{name}/feedback": (
        "feedback",
        "Tell what happened",
        FeedbackEvent,
        Receipt,
        (404,),
    ),
}


def document(app: FastAPI) -> dict[str, object]:
    """The whole document."""
    made = get_openapi(title="rankloop", version=__version__, openapi_version="3.1.0", routes=app.routes)
    paths: dict[str, object] = {}
    for path, (id, summary, body, answer, statuses) in VISITS.items():
        told = described(*statuses, body=body, answer=answer)
        responses = {str(code): response for code, response in told["responses"].items()}
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        operation = {"operationId": id, "summary": summary, "tags": ["hot"], "parameters": [name]}
        paths[path] = {"post": operation | told["openapi_extra"] | {"responses": responses}}
    made["paths"] = paths | made["paths"]
    _, components = msgspec.json.schema_components((*BODIES, *ANSWERS), ref_template=WHERE + "{name}")
    settings = components["RankerSettings"]
    settings["properties"]["policy"]["enum"] = [entry.id for entry in catalogue.entries()]
    components[answers.RankerChanges.__name__] = _changed(settings, settings["properties"])
    made.setdefault("components", {})["schemas"] = components
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return made


def _changed(config: Mapping[str, object], properties: Mapping[str, object]) -> dict[str, object]:
    """Some of a ranker's settings, each as it is there or null, and whether to learn anew."""
    own: dict[str, object] = {name: {"anyOf": [one, {"type": "null"}]} for name, one in properties.items()}
    told = "Settings to change; null takes one back to its default. `reset: true` learns anew, with the same items."
    return dict(config) | {
        "title": "RankerChanges",
        "description": told,
        "required": [],
        "properties": own | {"reset": {"type": "boolean", "default": False}},
    }
