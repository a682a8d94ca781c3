"""`/tick` for cron services; `/metrics`, `/healthz` and `/readyz` for whoever runs the server."""

from starlette.requests import Request
from starlette.responses import Response

from aijobs.http.serve.answers import Refused, document
from aijobs.http.serve.serving import Serving
from aijobs.services.metrics import CONTENT_TYPE
from aijobs.services.scheduler import Scheduler
from aijobs.store import jobs, schema


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
    """The store answers too, is none of an older version, and we are not about to stop."""
    if serving.stopping.is_set():
        raise Refused(503, "stopping", "the server is stopping")
    version = await serving.threads.run(lambda: _ask(serving))
    serving.faults.note_version(version, schema.HEAD)
    return document({"status": "ready"})


def _ask(serving: Serving) -> str:
    """The version of the store. SchemaMismatch for an older one, a backup: of that nothing is promised.

    A newer one is served as before: every migration leaves the release before able to work, and servers that
    stopped at once would leave nobody to take webhooks until the new ones run.
    """
    with serving.store.read() as tx:
        jobs.get(tx, "")
        version = schema.version_of(tx) or schema.HEAD
    if version < schema.HEAD:
        schema.require_head(version, location=serving.store.location)
    return version
