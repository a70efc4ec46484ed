"""The items of a ranker."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from msgspec.structs import asdict
from starlette.responses import Response

from rankloop.schema import Decoder, Item, ItemBody
from rankloop.schema.request_bodies import ItemPage, ItemsAnswer, ItemsBody
from rankloop.service import endpoints
from rankloop.service.openapi import describe_route
from rankloop.service.routes.audited import AuditedRoute
from rankloop.service.routes.dependencies import Limit, Offset, decoded_body, decoded_items, requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of items."""
    router, rankers = APIRouter(tags=["items"], route_class=AuditedRoute), service.rankers
    items_body, item_body = decoded_items(service), decoded_body(Decoder(ItemBody), service)
    reads, administers = requires(service.access, "read"), requires(service.access, "admin")
    reads_page = requires(service.access, "read", "limit", "offset")

    @router.get("/v1/rankers/{name}/items", dependencies=[reads_page], **describe_route(404, answer=ItemPage))
    def list_items(name: str, limit: Limit = 1000, offset: Offset = 0) -> Response:
        """Return items in the order in which they were added."""
        items = rankers.ranker(name).items()
        return endpoints.json_response(ItemPage(items[offset : offset + limit], len(items)))

    @router.put(
        "/v1/rankers/{name}/items",
        dependencies=[administers],
        **describe_route(404, body=ItemsBody, status=204, else_answer=ItemsAnswer, lines=Item),
    )
    def put_items(name: str, items: Sequence[Item] = items_body) -> Response:
        """Add or change items, all of them or none; an answer with status 200 names fields that had no effect.

        The body is JSON, or has one item in each line, or is an Arrow stream with one item in each row. All items are
        checked before the first is put; many items are put in several events of the log.
        """
        rankers.ranker(name).priors_cost(items).require(service.settings.admission.admin_cost)
        answer = rankers.put_items(name, items)
        return Response(status_code=204) if answer is None else endpoints.json_response(answer)

    @router.get("/v1/rankers/{name}/items/{id:path}", dependencies=[reads], **describe_route(404, answer=Item))
    def show_item(name: str, id: str) -> Response:
        """Return one item."""
        return endpoints.json_response(rankers.find(name).item(id))

    @router.put(
        "/v1/rankers/{name}/items/{id:path}",
        dependencies=[administers],
        **describe_route(404, body=ItemBody, answer=Item),
    )
    def put_item(name: str, id: str, body: ItemBody = item_body) -> Response:
        """Add or change one item."""
        rankers.put_items(name, [Item.of({"id": id, **asdict(body)}, "item")])
        return endpoints.json_response(rankers.find(name).item(id))

    @router.delete("/v1/rankers/{name}/items/{id:path}", dependencies=[administers], **describe_route(404, status=204))
    def remove_item(name: str, id: str) -> Response:
        """Remove an item; if its id is added again, it is a new item with nothing learned."""
        rankers.remove_item(name, id)
        return Response(status_code=204)

    return router
