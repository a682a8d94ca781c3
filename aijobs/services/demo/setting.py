"""Where the demonstration plays: a folder with a configuration, inputs, and the jobs that are asked for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODEL: Final = "acme-1"
"""The only model the provider of the demonstration has."""

WRONG_MODEL: Final = "acme-9"

CONFIG: Final = "aijobs.yaml"

_CONFIGURATION = """\
# Written by `aijobs demo`. The provider is simulated; a real one differs by its address and its key.
database: "sqlite:///{store}"

providers:
  acme:
    kind: openai-responses
    base_url: "{url}/v1"

types:
  summarize:
    provider: acme
    model: acme-1
    tier: simple
    prompt: "Summarize for {{{{ audience }}}}: {{{{ text }}}}"
  classify:
    provider: acme
    model: acme-1
    tier: simple
    prompt: "Is this a complaint, a question or praise? {{{{ text }}}}"
    request: {{metadata: {{simulator: "429=1x1"}}}}  # each job's first call is turned away, Retry-After: 1
  report:
    provider: acme
    model: acme-1
    background: true
    prompt: "Write a report on: {{{{ text }}}}"
    request: {{metadata: {{simulator: '{{"latency": "1s"}}'}}}}
  translate:
    provider: acme
    model: {model}
    tier: simple
    prompt: "Translate into {{{{ language }}}}: {{{{ text }}}}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One job of the demonstration; *name* is that of its input file, without the ending."""

    name: str
    type: str
    user: str
    input: Mapping[str, object]
    key: str | None = None

    @property
    def command(self) -> str:
        """What a person would type for it."""
        key = f" --key {self.key}" if self.key else ""
        return f"aijobs enqueue {self.type} --user {self.user}{key} --input-file {self.name}.json"


WISHES: Final = (
    Wish(
        name="notes",
        type="summarize",
        user="ana",
        key="notes-7781",
        input={
            "audience": "the support team",
            "text": "The outage on Tuesday began at 09:12, when a certificate ran out that nobody had in the "
            "calendar. Logins failed for 41 minutes. From now on an alarm rings three weeks ahead.",
        },
    ),
    Wish(
        name="minutes",
        type="summarize",
        user="ben",
        input={
            "audience": "people who were not there",
            "text": "We moved the release by a week. The import is twice as fast as in spring. Ben looks "
            "into the complaints about the mobile app and reports on Friday.",
        },
    ),
    Wish(
        name="mail",
        type="classify",
        user="ana",
        input={"text": "I was charged twice for March, and nobody has answered my two mails. What now?"},
    ),
    Wish(
        name="quarter",
        type="report",
        user="ben",
        input={"text": "Tickets of the third quarter by product: 1,204 app, 310 web, 77 print."},
    ),
    Wish(
        name="manual",
        type="translate",
        user="chen",
        input={"language": "German", "text": "Press the button until the light turns green. Then let go."},
    ),
)


def write_configuration(folder: Path, url: str, *, model: str) -> Path:
    """Write (again) the configuration, in which *model* translates; its path."""
    path = folder / CONFIG
    text = _CONFIGURATION.format(store=(folder / "aijobs.db").as_posix(), url=url, model=model)
    path.write_text(text, encoding="utf-8")
    return path


def write_inputs(folder: Path) -> None:
    """Write the input of each job to a file of its own, so that the commands we show can be typed."""
    for wish in WISHES:
        text = json.dumps(dict(wish.input), ensure_ascii=False, indent=2)
        (folder / f"{wish.name}.json").write_text(text + "\n", encoding="utf-8")
