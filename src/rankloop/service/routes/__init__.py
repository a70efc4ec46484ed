"""The routes other than rank and feedback, one module for each resource."""

from __future__ import annotations

from fastapi import APIRouter

from rankloop.service.routes import challenger, decisions, health, items, rankers, reports, tokens
from rankloop.service.service import Service

RESOURCES = (rankers, challenger, items, decisions, tokens, reports, health)


def routers(service: Service) -> list[APIRouter]:
    """Return the routers of all resources, in the order in which they are matched."""
    return [resource.router(service) for resource in RESOURCES]
