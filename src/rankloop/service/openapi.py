"""One OpenAPI 3.1 document for all routes: those of FastAPI, and rank and feedback, which bypass it."""

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
from rankloop.schema.answers import BatchAnswers, BulkAnswers, Problem, RankersAnswer
from rankloop.schema.request_bodies import (
    BulkFeedback,
    ItemPage,
    ItemsAnswer,
    ItemsBody,
    RankBatch,
    TokenAnswer,
    TokenRequest,
    Withdrawal,
)
from rankloop.service import answers, problems
from rankloop.service.cross_site import CHANGING_METHODS, MARK
from rankloop.version import __version__

SCHEMA_PREFIX = "#/components/schemas/"
BODIES = (
    RankRequest,
    RankBatch,
    FeedbackEvent,
    BulkFeedback,
    Withdrawal,
    ItemsBody,
    ItemBody,
    RankerSettings,
    TokenRequest,
)
ANSWERS = (
    RankAnswer, BatchAnswers, Receipt, BulkAnswers, ItemPage, ItemsAnswer, RankersAnswer,
    DecisionHistory, answers.ReportAnswer, answers.OverviewAnswer, answers.SegmentsAnswer, answers.SlotCountsAnswer,
    answers.HealthAnswer, answers.ReadinessAnswer, Problem, ChangeHistory, ChallengerStatus, Diagnosis, TokenAnswer,
)  # fmt: skip
AUTHENTICATION_ERRORS = {
    401: "The API key is missing or unknown.",
    403: "The API key lacks the required role, or the host or the origin is not allowed.",
    429: "The key has exceeded its rate limit.",
}
ROUTE_ERRORS = {
    404: "The ranker, item or decision does not exist.",
    409: "The request conflicts with the current state; `detail` states why.",
    422: "The request is invalid; `detail` states what is accepted.",
    503: "The log cannot be written at the moment; retry later.",
}
BODY_ERRORS = {
    400: "The body is not JSON.",
    413: "The body is too large.",
    415: "The header Content-Type is not application/json.",
}
NO_HOST = "The request does not have exactly one Host header."
NO_MARK = f"The header Content-Type is not application/json, and the header {MARK} is missing."
TAGS = {
    "decisions": "Decide lists and report feedback.",
    "rankers": "Create, change and delete rankers.",
    "challenger": "Rebuild a challenger policy from the log, compare it and promote it.",
    "items": "Add, change and remove items.",
    "tokens": "Issue short-lived tokens for browsers.",
    "reports": "Read results, estimates and diagnoses.",
    "health": "Liveness, readiness and metrics.",
}


class RouteDescription(TypedDict):
    """Keyword arguments of a FastAPI route that describe it in the OpenAPI document."""

    status_code: int
    responses: dict[int | str, dict[str, object]]
    openapi_extra: dict[str, object]
    response_class: type[Response]


def describe_route(
    *statuses: int,
    body: type | None = None,
    answer: type | None = None,
    status: int = 200,
    else_answer: type | None = None,
    lines: type | None = None,
    authenticated: bool = True,
    text: bool = False,
) -> RouteDescription:
    """Return the description of a route.

    Args:
        statuses: status codes in addition to those that every route has.
        body: structure of the request body.
        answer: structure of the response body.
        status: status code of a success.
        lines: structure of each line, where the body may have another type than JSON.
        else_answer: structure of the body of a success with status 200, where `status` is another.
        authenticated: whether the route requires an API key.
        text: whether the response is plain text.
    """
    responses: dict[int | str, dict[str, object]] = {}
    content = {"text/plain": {"schema": {"type": "string"}}} if text else None if answer is None else _json(answer)
    for code in (status, *(code for code in statuses if code < 300)):
        responses[code] = {"description": "Success."} | ({} if content is None else {"content": content})
    if else_answer is not None:
        responses[200] = {"description": "Success.", "content": _json(else_answer)}
    errors = (AUTHENTICATION_ERRORS if authenticated else {}) | {
        code: ROUTE_ERRORS[code] for code in statuses if code >= 300
    }
    errors |= {code: ROUTE_ERRORS[code] for code in (422, 503)} if authenticated else {}
    errors |= BODY_ERRORS if body is not None else {}
    responses |= {code: _problem(meaning) for code, meaning in sorted(errors.items())}
    extra: dict[str, object] = {"security": [{"key": []}] if authenticated else []}
    if body is not None:
        content = _json(body) if lines is None else _json(body) | _lines(lines)
        extra["requestBody"] = {"required": True, "content": content}
    return {"status_code": status, "responses": responses, "openapi_extra": extra, "response_class": _NoMediaType}


def _problem(meaning: str) -> dict[str, object]:
    content = {problems.MEDIA: {"schema": {"$ref": f"{SCHEMA_PREFIX}Problem"}}}
    return {"description": meaning, "content": content}


class _NoMediaType(Response):
    """A response class without a default media type: the description of the route states it."""

    media_type = None


def _json(kind: type) -> dict[str, dict[str, dict[str, str]]]:
    return {"application/json": {"schema": {"$ref": SCHEMA_PREFIX + kind.__name__}}}


def _lines(kind: type) -> dict[str, dict[str, dict[str, str]]]:
    """Return the content of bodies with one structure in each line, or in each row of an Arrow stream."""
    described = f"One {kind.__name__} in each "
    return {
        "application/x-ndjson": {"schema": {"type": "string", "description": f"{described}line, as JSON."}},
        "application/vnd.apache.arrow.stream": {
            "schema": {"type": "string", "format": "binary", "description": f"{described}row."}
        },
    }


FREQUENT_ROUTES = {
    "/v1/rankers/{name}/rank": ("rank", "Decide a list.", RankRequest, RankAnswer, (404, 409)),
    "/v1/rankers/{name}/feedback": ("feedback", "Report feedback for a decision.", FeedbackEvent, Receipt, (404,)),
}
"""Operation id, description, body, answer and error codes of the routes that bypass FastAPI."""


def document(app: FastAPI) -> dict[str, object]:
    """Return the whole document."""
    openapi = get_openapi(
        title="rankloop",
        version=__version__,
        openapi_version="3.1.0",
        description="Rank items, report feedback, and administer rankers that learn from every click.",
        routes=app.routes,
    )
    paths: dict[str, object] = {}
    for path, (id, purpose, body, answer, statuses) in FREQUENT_ROUTES.items():
        route = describe_route(*statuses, body=body, answer=answer)
        responses = {str(code): response for code, response in route["responses"].items()}
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        texts = {"operationId": id, "summary": id.capitalize(), "description": purpose}
        operation = texts | {"tags": ["decisions"], "parameters": [name]}
        paths[path] = {"post": operation | route["openapi_extra"] | {"responses": responses}}
    openapi["paths"] = paths | openapi["paths"]
    for operations in openapi["paths"].values():
        for method, operation in operations.items():
            responses = _guard_responses(method.upper()) | operation["responses"]
            operation["responses"] = dict(sorted(responses.items()))
            if method.upper() in CHANGING_METHODS and "requestBody" not in operation:
                operation["parameters"] = [*operation.get("parameters", []), _mark_parameter()]
    openapi["tags"] = [{"name": name, "description": description} for name, description in TAGS.items()]
    _, components = msgspec.json.schema_components((*BODIES, *ANSWERS), ref_template=SCHEMA_PREFIX + "{name}")
    settings = components["RankerSettings"]
    settings["properties"]["policy"]["enum"] = [entry.id for entry in catalogue.entries()]
    settings["properties"]["guardrail"]["anyOf"].append({"type": "boolean"})  # true: the defaults, false: none
    components[answers.RankerChanges.__name__] = _partial_settings(settings, settings["properties"])
    openapi.setdefault("components", {})["schemas"] = components
    openapi["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return openapi


def _guard_responses(method: str) -> dict[str, dict[str, object]]:
    """Return the responses of `cross_site`, whatever the route."""
    changing = {"415": _problem(NO_MARK)} if method in CHANGING_METHODS else {}
    return {"400": _problem(NO_HOST)} | changing


def _mark_parameter() -> dict[str, object]:
    """Return the header that marks requests without a body."""
    description = "Any value. Required unless the header Content-Type is application/json."
    return {"name": MARK, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


def _partial_settings(config: Mapping[str, object], properties: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of a PATCH body: any of a ranker's settings, or null for each, and `reset`."""
    optional: dict[str, object] = {name: {"anyOf": [one, {"type": "null"}]} for name, one in properties.items()}
    description = (
        "Settings to change; null restores a default. `reset: true` discards everything learned and keeps the items."
    )
    return dict(config) | {
        "title": "RankerChanges",
        "description": description,
        "required": [],
        "properties": optional | {"reset": {"type": "boolean", "default": False}},
    }
