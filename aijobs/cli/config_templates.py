"""The files that `aijobs config init` writes: small, commented, and good as they are."""

import json
from collections.abc import Mapping
from types import MappingProxyType

_HEAD = """\
# Configuration of aijobs. `aijobs config check` looks it over; every option is in config.example.yaml and in
# `aijobs config schema`. Durations are written like 90s, 5m or 2d; ${NAME} comes from the environment.

database: sqlite:///aijobs.db        # or postgresql://user:${DB_PASSWORD}@host/name for many machines

"""
LOCAL_URL = "http://127.0.0.1:11434/v1"
"""Where a local server is looked for: Ollama's port."""
_PROVIDERS = {
    "openai": """\
providers:
  openai:
    kind: openai-responses
    api_key: ${OPENAI_API_KEY}       # never the key itself: a file may be shared
    # webhook_secret: ${OPENAI_WEBHOOK_SECRET}   # lets OpenAI tell us when a background job is done
    concurrency: 20                  # calls at once, over all workers
    rate: 300/m                      # starts per minute, over all workers
""",
    "anthropic": """\
providers:
  anthropic:
    kind: anthropic
    api_key: ${ANTHROPIC_API_KEY}    # never the key itself: a file may be shared
    concurrency: 20                  # calls at once, over all workers
    rate: 300/m                      # starts per minute, over all workers
""",
    "local": """\
providers:
  local:
    kind: openai-chat                # any server that speaks chat completions: Ollama, vLLM, llama.cpp, ...
    base_url: ${LOCAL_AI_URL:-@local}
    # api_key: ${LOCAL_AI_KEY}       # if it wants one
    concurrency: 2                   # calls at once, over all workers
""",
    "simulator": """\
providers:
  practice:
    kind: simulator                  # answers by itself: no key, no cost
    latency: 500ms                   # how long a call takes
    # fault: "429:0.3"               # what goes wrong, and how often
""",
}
_NAMES = {"openai": "openai", "anthropic": "anthropic", "local": "local", "simulator": "practice"}
_MODELS = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-5",
    "local": "llama3.2",
    "simulator": "simulated",
}
_REQUESTS = {
    "openai": "{max_output_tokens: 800}",
    "anthropic": "{max_tokens: 800}",
    "local": "{max_tokens: 800}",
    "simulator": "{}",
}
_TYPES = """
types:
  summarize:
    provider: @provider
    model: @model
    tier: medium                     # one call may take: simple 10s, medium 60s, complex 180s
    prompt: "Summarize in three sentences: {{ text }}"
    request: @request
    input_schema: {type: object, required: [text], properties: {text: {type: string}}}
    max_attempts: 5
    per_user: 2                      # so that one user's flood leaves room for the others

# schedules:
#   nightly-report:
#     cron: "30 2 * * *"             # in quotes
#     timezone: Asia/Shanghai
#     type: summarize
#     input: {text: "What happened today?"}

# notify:
#   ops:
#     kind: webhook
#     url: https://ops.example.com/aijobs
#     secret: ${OPS_WEBHOOK_SECRET}
#     on: [dead_letter]
"""

VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"openai": ("OPENAI_API_KEY",), "anthropic": ("ANTHROPIC_API_KEY",), "local": (), "simulator": ()}
)
"""What has to be in the environment for each file to pass its check."""
CHOICES = tuple(_PROVIDERS)


def render(provider: str, *, model: str | None = None, base_url: str | None = None) -> str:
    """The file for *provider*, one of `CHOICES`; *model* and *base_url* in place of the usual ones."""
    types = _TYPES.replace("@provider", _NAMES[provider]).replace("@request", _REQUESTS[provider])
    return (
        _HEAD
        + _placed(_PROVIDERS[provider], base_url)
        + types.replace("@model", _quoted(model) if model else _MODELS[provider])
    )


def _placed(section: str, base_url: str | None) -> str:
    """The provider's *section* with *base_url* right below its kind, and no other."""
    if base_url is None:
        return section.replace("@local", LOCAL_URL)
    lines = [line for line in section.splitlines(keepends=True) if not line.startswith("    base_url:")]
    kind = next(number for number, line in enumerate(lines) if line.startswith("    kind:"))
    return "".join([*lines[: kind + 1], f"    base_url: {_quoted(base_url)}\n", *lines[kind + 1 :]])


def _quoted(text: str) -> str:
    """*text* in the double quotes of YAML, which are those of JSON, and no reference to the environment."""
    return json.dumps(text, ensure_ascii=False).replace("$", "$$")
