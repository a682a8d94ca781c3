"""`/tick` for cron services; `/metrics`, `/healthz` and `/readyz` for whoever runs the server."""

from starlette.requests import Request
from starlette.responses import Response

from aijobs.http.serve.answers import Refused, document
from aijobs.http.serve.serving import Serving
from aijobs.services.metrics import CONTENT_TYPE
from aijobs.services.scheduler import Scheduler
from aijobs.store import jobs


async def tick(request: Request, serving: Serving) -> Response:
    """Make a job for every schedule that fell due. 500 when one could not fire: the cron service sees that.

    HEAD is not taken, although GET is: whoever only looks must not fire anything.
    """
    if request.method == "HEAD":
        raise Refused(405, "method_not_allowed", "method not allowed", headers={"allow": "GET, POST"})
    scheduler = Scheduler(serving.store, serving.settings, coordinator=lambda: serving.coordinator)
    report = await serving.threads.run(scheduler.tick)
    return document(report.document(), 500 if report.failed else 200)


async def metrics(request: Request, serving: Serving) -> Response:  # noqa: ARG001  # as every route
    """What Prometheus reads. One at a time: a flood of scrapes must not become a flood of queries."""
    async with serving.scraping:
        text = await serving.threads.run(serving.metrics.text)
    return Response(text, media_type=CONTENT_TYPE)


async def health(request: Request, serving: Serving) -> Response:  # noqa: ARG001  # as every route
    """The process answers."""
    return document({"status": "ok"})


async def ready(request: Request, serving: Serving) -> Response:  # noqa: ARG001  # as every route
    """The store answers too, and we are not about to stop."""
    if serving.stopping.is_set():
        raise Refused(503, "stopping", "the server is stopping")
    await serving.threads.run(lambda: _ask(serving))
    return document({"status": "ready"})


def _ask(serving: Serving) -> None:
    with serving.store.read() as tx:
        jobs.get(tx, "")
