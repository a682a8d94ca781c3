"""The python job of the chaos run: it asks the provider, and has an effect that must happen once."""

import json
import os
import time
from typing import Any
from urllib.request import Request, urlopen

_OUTSIDE = os.environ.get("CHAOS_OUTSIDE", "")


def order(given: dict[str, Any], context: Any) -> dict[str, Any]:
    """Ask the model, then send one mail: first as the ledger says, then as the receiver does."""
    answer = context.call("sim", model="m", prompt=f"chaos {given['n']} mail")
    with context.side_effect("mail") as effect:
        if not (effect.done or (effect.uncertain and _tell("ask", context))):
            time.sleep(0.02)  # a mail takes its time, and a worker may die or sleep in it
            _tell("send", context)
    return {"n": given["n"], "answer": answer}


def _tell(verb: str, context: Any) -> bool:
    body = json.dumps({"job": context.job_id, "name": "mail", "fence": context.fence}).encode()
    request = Request(f"{_OUTSIDE}/{verb}", data=body, headers={"content-type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return bool(json.load(answer))
