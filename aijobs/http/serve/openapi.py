"""`/openapi.json`: the routes that are on, in OpenAPI 3.1."""

from typing import Any

from aijobs import __version__
from aijobs.core.model import Status
from aijobs.core.reasons import LONGEST_REASON
from aijobs.http.serve.serving import Serving
from aijobs.services.shapes import JOB_FIELDS
from aijobs.services.submission import HIGHEST_PRIORITY, LONGEST_NAME, MOST_ATTEMPTS

Part = dict[str, Any]

_TIMES = frozenset({"next_run_at", "locked_until", "deadline", "created_at", "updated_at", "finished_at"})
_WHOLE = frozenset({"priority", "attempts", "max_attempts", "round"})
_JSON = "application/json"
_SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")
_MEANINGS = {
    "400": "the request is malformed",
    "401": "no valid token, or a signature that does not verify",
    "404": "nothing is here",
    "405": "not with this method",
    "408": "the body did not arrive in time",
    "409": "it contradicts the present state: nothing was changed",
    "413": "the body is too large",
    "415": "the body is not of a kind that is taken",
    "422": "the values cannot be taken",
    "429": "as many jobs wait as the type allows: try again later",
    "500": "internal error",
    "503": "the store cannot serve now, or too many are here: try again",
}


def describe(serving: Serving, *, root_path: str) -> Part:
    """The document of *serving* below *root_path*."""
    paths: Part = {
        "/healthz": {"get": _operation("health", "The process answers.", {"200": _json(_STATE_OF_HOUSE)})},
        "/readyz": {
            "get": _operation(
                "ready", "The store answers.", {"200": _json(_STATE_OF_HOUSE)}, failures=("503",)
            )
        },
        "/metrics": {
            "get": _operation(
                "metrics", "What Prometheus reads.", {"200": _TEXT_OF_METRICS}, failures=("503",)
            )
        },
    }
    if serving.takes_webhooks:
        paths["/webhooks/{provider}"] = {"post": _webhook()}
    if serving.secrets.cron is not None:
        paths["/tick"] = {method: _tick(method) for method in ("get", "post")}
    if serving.secrets.api is not None:
        paths |= _job_paths()
    return {
        "openapi": "3.1.0",
        "info": {"title": "aijobs", "version": __version__, "description": "AI background jobs."},
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {"schemas": _SCHEMAS, "securitySchemes": _SECURITY},
    }


def _job_paths() -> Part:
    job_id = _parameter("job_id", "path", {"type": "string"})
    more = ("400", "408", "413", "415")
    return {
        "/jobs": {
            "post": _operation(
                "enqueue", "Accept a job; it runs later.",
                {"202": _enqueued("it is accepted"), "200": _enqueued("its key was known: nothing new")},
                failures=("401", "409", "422", "429", "503", *more), guard="api",
                parameters=[
                    _parameter(name, "header", _TEXT, required=False)
                    for name in ("Idempotency-Key", "traceparent")
                ],
                body=_body("NewJob"),
            )
        },
        "/jobs/{job_id}": {
            "get": _operation(
                "show", "The job as it is now, and when to ask again.",
                {"200": _json(_ref("JobWithResult"), "the job", headers=_ASK_AGAIN)},
                failures=("401", "404", "503"), guard="api", parameters=[job_id],
            )
        },
        "/jobs/{job_id}/cancel": {
            "post": _operation(
                "cancel", "Stop a job.",
                {"200": _json(_ref("Job"), "it is stopped"), "202": _json(_ref("Job"), "its worker will")},
                failures=("401", "404", "409", "422", "503", *more), guard="api", parameters=[job_id],
                body=_body("Cancel", required=False),
            )
        },
        "/jobs/{job_id}/events": {
            "get": _operation(
                "follow", "What happens to a job, as server-sent events, until it has ended.",
                {
                    "200": {
                        "description": "events of kind event, attempt and job",
                        "content": {"text/event-stream": {"schema": {}}},
                    },
                    "204": {"description": "the job has ended, and all of it was seen"},
                },
                failures=("401", "404", "503"), guard="api",
                parameters=[job_id, _parameter("Last-Event-ID", "header", _ANY_TEXT, required=False)],
            )
        },
    }  # fmt: skip


def _webhook() -> Part:
    parameters = [_parameter("provider", "path", {"type": "string"})]
    parameters += [_parameter(name, "header", {"type": "string"}) for name in _SIGNED]
    taken = {
        "type": "object",
        "required": ["outcome"],
        "properties": {"outcome": {"enum": ["accepted", "duplicate", "unmatched", "ignored"]}},
    }
    return _operation(
        "webhook", "A delivery by the Standard Webhooks scheme, signed with the provider's webhook_secret.",
        {"200": _json(taken, "it is written down")},
        failures=("400", "401", "404", "408", "413", "415", "503"), parameters=parameters,
        body={"required": True, "content": {_JSON: {"schema": {"type": "object"}}}},
    )  # fmt: skip


def _tick(method: str) -> Part:
    return _operation(
        f"tick_{method}", "Make a job for every schedule that fell due; safe however often.",
        {
            "200": _json(_ref("Tick"), "done, or nothing was due"),
            "500": _json({"oneOf": [_ref("Tick"), _ref("Failure")]}, "a schedule could not fire"),
        },
        failures=("401", "503"), guard="cron",
    )  # fmt: skip


# --- Pieces ---------------------------------------------------------------------------------------


def _operation(
    name: str, summary: str, answers: Part, *, failures: tuple[str, ...] = (), guard: str | None = None,
    parameters: list[Part] | None = None, body: Part | None = None,
) -> Part:  # fmt: skip
    refusals = {code: _json(_ref("Failure"), _MEANINGS[code]) for code in failures}
    operation: Part = {"operationId": name, "summary": summary, "responses": answers | refusals}
    if guard:
        operation["security"] = [{guard: []}]
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = body
    return operation


def _json(schema: Part, description: str = "good", headers: Part | None = None) -> Part:
    answer: Part = {"description": description, "content": {_JSON: {"schema": schema}}}
    return answer | ({"headers": headers} if headers else {})


def _enqueued(description: str) -> Part:
    location = {"description": "where to ask after it", "schema": {"type": "string"}}
    return _json(_ref("Enqueued"), description, headers=_ASK_AGAIN | {"Location": location})


def _parameter(name: str, place: str, schema: Part, *, required: bool = True) -> Part:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _body(name: str, *, required: bool = True) -> Part:
    return {"required": required, "content": {_JSON: {"schema": _ref(name)}}}


def _ref(name: str) -> Part:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(kind: str, **more: object) -> Part:
    return {"type": [kind, "null"], **more}


def _field(name: str) -> Part:
    if name in _TIMES:
        return _or_null("string", format="date-time")
    if name == "status":
        return {"enum": [status.value for status in Status]}
    if name in _WHOLE:
        return {"type": "integer"}
    return {"type": "string"} if name in ("id", "type") else _or_null("string")


_ANY_TEXT: Part = {"type": "string"}
_TEXT: Part = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_ASK_AGAIN: Part = {
    "Retry-After": {
        "description": "seconds until it is worth asking again; not there once the job has ended",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_STATE_OF_HOUSE: Part = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"type": "string"}},
}
_TEXT_OF_METRICS: Part = {
    "description": "the text format of Prometheus",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_DURATION: Part = {"type": "string", "description": "such as 90s, 5m, 1h30m", "examples": ["5m"]}
_INSTANT: Part = {"type": "string", "description": "ISO 8601", "examples": ["2030-01-01T00:00:00Z"]}
_JOB_PROPERTIES: Part = {name: _field(name) for name in JOB_FIELDS} | {
    "cancel_requested_at": _or_null("string", format="date-time")
}
_POLL: Part = {"poll_after_seconds": _or_null("number", minimum=0), "result": {}}
_STALE_RESULT: Part = {
    "type": ["object", "null"],
    "description": "while stale results are switched on for the type: the user's last result, with its age",
    "properties": {
        "job_id": {"type": "string"}, "finished_at": _INSTANT, "age_seconds": {"type": "number"},
        "stale": {"type": "boolean"}, "result": {},
    },
}  # fmt: skip
_ENQUEUED: Part = {
    "id": {"type": "string"}, "status": _field("status"), "type": {"type": "string"},
    "user": _or_null("string"), "key": _or_null("string"), "duplicate": {"type": "boolean"},
    "key_expires_at": _or_null("string", format="date-time"), "stale_result": _STALE_RESULT, **_POLL,
}  # fmt: skip
_FIRED: Part = {
    "type": "object",
    "required": ["schedule", "window", "job_id"],
    "properties": {
        "schedule": {"type": "string"},
        "window": {"type": "string", "format": "date-time"},
        "job_id": _or_null("string"),
    },
}
_TICK_LISTS = {"created": _FIRED, "existing": _FIRED} | {
    name: {"type": "object"} for name in ("skipped", "failed", "warnings")
}
_SCHEMAS: Part = {
    "NewJob": {
        "type": "object",
        "required": ["type"],
        "additionalProperties": False,
        "properties": {
            "type": {"type": "string", "minLength": 1, "description": "a job type of the configuration"},
            "input": {"type": "object"},
            "user": _TEXT,
            "key": {**_TEXT, "description": "the same key with the same input is the same job"},
            "priority": {"type": "integer", "minimum": -HIGHEST_PRIORITY, "maximum": HIGHEST_PRIORITY},
            "delay": _DURATION,
            "at": _INSTANT,
            "deadline": {"type": "string", "minLength": 2, "description": "a duration from now, or ISO 8601"},
            "max_attempts": {"type": "integer", "minimum": 1, "maximum": MOST_ATTEMPTS},
            "request_id": _TEXT,
            "traceparent": {"type": "string"},
        },
    },
    "Cancel": {
        "type": "object",
        "properties": {"reason": {"type": "string", "pattern": r"\S", "maxLength": LONGEST_REASON}},
    },
    "Enqueued": {"type": "object", "required": list(_ENQUEUED), "properties": _ENQUEUED},
    "Job": {"type": "object", "required": list(_JOB_PROPERTIES), "properties": _JOB_PROPERTIES},
    "JobWithResult": {
        "type": "object",
        "required": [*_JOB_PROPERTIES, *_POLL],
        "properties": _JOB_PROPERTIES | _POLL,
    },
    "Tick": {
        "type": "object",
        "required": ["at", *_TICK_LISTS],
        "properties": {"at": {"type": "string", "format": "date-time"}}
        | {name: {"type": "array", "items": item} for name, item in _TICK_LISTS.items()},
    },
    "Failure": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["kind", "message"],
                "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
            }
        },
    },
}
_SECURITY: Part = {
    "api": {"type": "http", "scheme": "bearer", "description": "AIJOBS_API_TOKEN"},
    "cron": {"type": "http", "scheme": "bearer", "description": "CRON_SECRET"},
}
