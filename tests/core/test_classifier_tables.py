"""One test a row of the classifier's tables: which status and which words mean which class."""

# ruff: noqa: E501  # a row a line: a table is read across

import pytest

from aijobs.core.model import ErrorClass
from tests.support.refusals import CURRENT_QUOTA, anthropic, failure, gemini, openai, openrouter

E = ErrorClass


# --- Table B: status and words ----------------------------------------------------------------------

BILLING = [
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
]
LITELLM_CONTEXT = "litellm.ContextWindowExceededError: This model"
PER_DAY = {"@type": "x.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}
PER_MINUTE = {"@type": "x.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}
WAIT = {"Retry-After": "7"}

TABLE_B = [
    # name, kind, status, body, headers, class, code
    # --- context length
    *[("context code", "openai-chat", s, openai("context_length_exceeded"), {}, E.CONTEXT_LENGTH, "context_length_exceeded") for s in (400, 413, 422)],
    *[(f"context message: {m[:30]}", "openai-chat", 400, openai(message=m), {}, E.CONTEXT_LENGTH, "context_length_exceeded") for m in ("This model's maximum context length is 8192 tokens", "exceeds the context window", "input is over context length", "prompt is too long: 210000 tokens", "the maximum number of tokens allowed", "larger than available context size", "input tokens exceed the limit", "max_tokens must be at least 1, got -5", LITELLM_CONTEXT)],
    ("together's 403", "openai-chat", 403, openai(message="maximum context length is 4096"), {}, E.CONTEXT_LENGTH, "context_length_exceeded"),
    ("llama.cpp", "openai-chat", 400, openai(400, "exceed_context_size_error"), {}, E.CONTEXT_LENGTH, "exceed_context_size_error"),
    ("anthropic: prompt", "anthropic", 400, anthropic("invalid_request_error", "prompt is too long: 1 > 0"), {}, E.CONTEXT_LENGTH, "context_length_exceeded"),
    ("anthropic: limit", "anthropic", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), {}, E.CONTEXT_LENGTH, "context_length_exceeded"),
    ("openrouter", "openai-chat", 400, openai("max_tokens_exceeded"), {}, E.CONTEXT_LENGTH, "max_tokens_exceeded"),
    ("a too long field is no context", "openai-chat", 400, openai("string_above_max_length", message="maximum context length"), {}, E.INVALID_REQUEST, "string_above_max_length"),
    # --- content policy
    *[(f"content: {c}", "openai-chat", s, openai(c), {}, E.CONTENT_POLICY, c) for c in ("content_filter", "content_policy_violation", "moderation_blocked", "invalid_prompt", "cyber_policy", "bio_policy", "misalignment_policy_violation", "image_content_policy_violation") for s in (400, 403)],
    ("azure", "openai-chat", 400, openai("content_filter", None, innererror={"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}}), {}, E.CONTENT_POLICY, "responsibleaipolicyviolation"),
    ("openrouter moderation", "openai-chat", 403, openrouter(403, reasons=["violence"], flagged_input="x"), {}, E.CONTENT_POLICY, "moderation"),
    ("anthropic output blocked", "anthropic", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), {}, E.CONTENT_POLICY, "content_filter"),
    # --- invalid request
    *[(f"plain {s}", "openai-chat", s, openai(), {}, E.INVALID_REQUEST, "invalid_request_error") for s in (400, 405, 413, 414, 415, 422, 501)],
    ("vllm", "openai-chat", 400, openai(400, "BadRequestError"), {}, E.INVALID_REQUEST, "badrequesterror"),
    ("vllm, older", "openai-chat", 400, {"object": "error", "message": "no", "type": "BadRequestError", "param": None, "code": 400}, {}, E.INVALID_REQUEST, "badrequesterror"),
    ("litellm's status as text", "openai-chat", 400, openai("400", "None"), {}, E.INVALID_REQUEST, "400"),
    ("fastapi", "http", 422, {"detail": [{"loc": ["body", "x"], "msg": "field required"}]}, {}, E.INVALID_REQUEST, "422"),
    ("cloudflare page 413", "anthropic", 413, b"<html><head><title>413</title>", {}, E.INVALID_REQUEST, "413"),
    ("unknown 4xx", "openai-chat", 418, openai(None, None), {}, E.INVALID_REQUEST, "418"),
    # --- money
    *[(f"billing: {c}", "openai-responses", s, openai(c, "insufficient_quota"), {}, E.QUOTA_EXHAUSTED, c) for c in BILLING for s in (429, 400, 403)],
    ("billing, though it names a wait", "openai-chat", 429, openai("insufficient_quota"), WAIT, E.QUOTA_EXHAUSTED, "insufficient_quota"),
    ("billing by type alone", "openai-chat", 429, openai(None, "insufficient_quota"), {}, E.QUOTA_EXHAUSTED, "insufficient_quota"),
    ("billing by message", "openai-chat", 429, openai(None, None, CURRENT_QUOTA), {}, E.QUOTA_EXHAUSTED, "insufficient_quota"),
    ("billing by message beside resets", "openai-chat", 429, openai(None, None, CURRENT_QUOTA), {"x-ratelimit-reset-requests": "6m0s"}, E.QUOTA_EXHAUSTED, "insufficient_quota"),
    ("that message with a wait is a rate limit", "openai-chat", 429, openai(None, None, CURRENT_QUOTA), WAIT, E.RATE_LIMITED, "429"),
    ("a rate limit of type insufficient_quota", "openai-chat", 429, openai("rate_limit_exceeded", "insufficient_quota"), {}, E.RATE_LIMITED, "rate_limit_exceeded"),
    ("anthropic spend limit", "anthropic", 429, anthropic("rate_limit_error", code="enforced_spend_limit_reached"), {}, E.QUOTA_EXHAUSTED, "enforced_spend_limit_reached"),
    ("anthropic contract", "anthropic", 429, anthropic("rate_limit_error", code="contract_spend_limit_reached"), {}, E.QUOTA_EXHAUSTED, "contract_spend_limit_reached"),
    ("anthropic own limit", "anthropic", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access"), {}, E.QUOTA_EXHAUSTED, "spend_limit"),
    ("anthropic workspace limit", "anthropic", 400, anthropic("invalid_request_error", "You have reached your specified workspace API usage limits."), {}, E.QUOTA_EXHAUSTED, "spend_limit"),
    ("anthropic credit, older", "anthropic", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the API"), {}, E.QUOTA_EXHAUSTED, "credit_balance_too_low"),
    ("a prompt that speaks of limits", "anthropic", 400, anthropic("invalid_request_error", "bad: 'You have reached your specified API usage limits'"), {}, E.INVALID_REQUEST, "invalid_request_error"),
    ("anthropic 402", "anthropic", 402, anthropic("billing_error"), {}, E.QUOTA_EXHAUSTED, "billing_error"),
    ("anthropic 402 with a wait", "anthropic", 402, anthropic("billing_error"), WAIT, E.QUOTA_EXHAUSTED, "billing_error"),
    ("any 402", "http", 402, {}, {}, E.QUOTA_EXHAUSTED, "402"),
    ("gemini per day", "openai-chat", 429, [gemini(429, "RESOURCE_EXHAUSTED", PER_DAY)], {}, E.QUOTA_EXHAUSTED, "quota_per_day"),
    ("gemini per minute", "openai-chat", 429, [gemini(429, "RESOURCE_EXHAUSTED", PER_MINUTE, message=CURRENT_QUOTA)], {}, E.RATE_LIMITED, "quota_per_minute"),
    ("gemini, newer", "openai-chat", 429, {"error": {"code": "quota_exceeded", "message": "no"}}, {}, E.QUOTA_EXHAUSTED, "quota_exceeded"),
    ("openrouter in flight", "openai-chat", 402, openrouter(402, limit_source="openrouter_in_flight_budget"), {}, E.RATE_LIMITED, "in_flight_budget"),
    ("openrouter with a wait", "openai-chat", 402, openrouter(402), WAIT, E.RATE_LIMITED, "payment_pending"),
    ("openrouter credits", "openai-chat", 402, openrouter(402), {}, E.QUOTA_EXHAUSTED, "402"),
    *[(f"openrouter {source}", "openai-chat", s, openrouter(s, limit_source=source), {}, E.QUOTA_EXHAUSTED, "spend_limit") for source in ("key_limit", "guardrail_budget", "workspace_budget") for s in (402, 403)],
    *[(f"litellm budget {s}", "openai-chat", s, openai(str(s), "budget_exceeded"), {}, E.QUOTA_EXHAUSTED, "budget_exceeded") for s in (422, 429, 400)],
    ("azure apim", "openai-chat", 403, {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished"}, {}, E.QUOTA_EXHAUSTED, "quota_exceeded"),
    # --- throttling
    ("openai rate", "openai-chat", 429, openai("rate_limit_exceeded", "requests"), {}, E.RATE_LIMITED, "rate_limit_exceeded"),
    *[(f"slow down {s}", "openai-chat", s, openai("slow_down", "rate_limit_error"), {}, E.RATE_LIMITED, "slow_down") for s in (429, 503)],
    ("anthropic rate", "anthropic", 429, anthropic("rate_limit_error"), {}, E.RATE_LIMITED, "rate_limit_error"),
    ("anthropic ramp", "anthropic", 429, anthropic("rate_limit_error", code="ramp_limit_exceeded"), {}, E.RATE_LIMITED, "ramp_limit_exceeded"),
    ("one request above the limit", "openai-chat", 429, openai("rate_limit_exceeded", "tokens", "Request too large for m-1 on tokens per min (TPM): Limit 1, Requested 2."), {}, E.INVALID_REQUEST, "request_too_large"),
    ("flex code", "openai-responses", 429, openai("resource_unavailable", "tokens"), {}, E.UNAVAILABLE, "resource_unavailable"),
    ("flex message", "openai-responses", 429, openai(None, None, "Flex: resource unavailable"), {}, E.UNAVAILABLE, "resource_unavailable"),
    ("azure 429", "openai-chat", 429, openai("429", None), {}, E.RATE_LIMITED, "429"),
    ("mistral", "openai-chat", 429, {"object": "error", "message": "no", "type": "rate_limited", "code": "1300"}, {}, E.RATE_LIMITED, "1300"),
    ("scaleway", "openai-chat", 429, {"error": "INSUFFICIENT QUOTA", "message": "per minute", "status": 429}, {}, E.RATE_LIMITED, "429"),
    ("litellm cooling", "openai-chat", 429, openai("429", "all_deployments_in_cooldown"), {}, E.RATE_LIMITED, "all_deployments_in_cooldown"),
    ("plain 429", "http", 429, b"", {}, E.RATE_LIMITED, "429"),
    # --- credentials and permissions
    ("401", "openai-chat", 401, openai("invalid_api_key"), {}, E.AUTH, "invalid_api_key"),
    ("407", "http", 407, b"", {}, E.AUTH, "407"),
    ("anthropic 401", "anthropic", 401, anthropic("authentication_error"), {}, E.AUTH, "authentication_error"),
    ("gemini key", "openai-chat", 400, [gemini(400, "INVALID_ARGUMENT", {"@type": "x.ErrorInfo", "reason": "API_KEY_INVALID"})], {}, E.AUTH, "api_key_invalid"),
    *[(f"litellm {c}", "openai-chat", s, openai(str(s), c), {}, E.AUTH, c) for c in ("expired_key", "token_not_found_in_db") for s in (400, 401)],
    ("403", "openai-chat", 403, openai(None, None), {}, E.PERMISSION, "403"),
    ("anthropic 403", "anthropic", 403, anthropic("permission_error"), {}, E.PERMISSION, "permission_error"),
    *[(f"anthropic {c}", "anthropic", 400, anthropic("invalid_request_error", code=c), {}, E.PERMISSION, c) for c in ("organization_on_hold", "workspace_policy_violation")],
    ("gemini billing or region", "openai-chat", 400, [gemini(400, "FAILED_PRECONDITION")], {}, E.PERMISSION, "failed_precondition"),
    ("litellm access", "openai-chat", 401, openai("401", "team_model_access_denied"), {}, E.PERMISSION, "team_model_access_denied"),
    # --- not found
    ("404", "openai-chat", 404, openai("model_not_found"), {}, E.NOT_FOUND, "model_not_found"),
    ("404 of ollama", "openai-chat", 404, {"error": "model 'x' not found"}, {}, E.NOT_FOUND, "404"),
    ("azure 404", "openai-chat", 404, openai("DeploymentNotFound", None), {}, E.NOT_FOUND, "deploymentnotfound"),
    ("410", "http", 410, b"", {}, E.NOT_FOUND, "410"),
    # --- timeouts and outages
    *[(f"timeout {s}", "openai-chat", s, b"<html></html>", {}, E.NETWORK_TIMEOUT, str(s)) for s in (408, 504, 522, 524, 598)],
    ("anthropic 504", "anthropic", 504, anthropic("timeout_error"), {}, E.NETWORK_TIMEOUT, "timeout_error"),
    ("problem+json", "openai-chat", 524, {"type": "https://x.example/524", "title": "Error 524", "status": 524, "detail": "no"}, {}, E.NETWORK_TIMEOUT, "524"),
    *[(f"conflict {s}", "http", s, b"", {}, E.UNAVAILABLE, str(s)) for s in (409, 423, 425)],
    ("499", "openai-chat", 499, openai(None, None), {}, E.NETWORK, "499"),
    *[(f"outage {s}", "openai-chat", s, openai("server_error", "server_error"), {}, E.UNAVAILABLE, "server_error") for s in (500, 502, 503, 520, 521, 523, 525, 527, 529, 530)],
    ("openai overloaded", "openai-chat", 503, openai("server_is_overloaded", "service_unavailable_error"), {}, E.UNAVAILABLE, "server_is_overloaded"),
    ("an outage that calls itself a bad request", "openai-chat", 500, openai(), {}, E.UNAVAILABLE, "invalid_request_error"),
    ("anthropic 500", "anthropic", 500, anthropic("api_error"), {}, E.UNAVAILABLE, "api_error"),
    *[(f"anthropic overloaded {s}", "anthropic", s, anthropic("overloaded_error"), {}, E.UNAVAILABLE, "overloaded_error") for s in (529, 400, 429, 500)],
    ("ollama busy", "openai-chat", 503, openai(None, "api_error", "server busy"), {}, E.UNAVAILABLE, "api_error"),
    ("openrouter down", "openai-chat", 502, openrouter(502), {}, E.UNAVAILABLE, "502"),
    *[(f"litellm {c}", "openai-chat", 400, openai("400", c), {}, E.UNAVAILABLE, c) for c in ("no_db_connection", "auth_provider_unavailable")],
    ("unknown 5xx", "http", 599, b"", {}, E.UNAVAILABLE, "599"),
    *[(f"configuration {s}", "http", s, b"", {}, E.INVALID_REQUEST, str(s)) for s in (526, 505, 511)],
    *[(f"moved {s}", "http", s, b"", {"location": "/x"}, E.INVALID_REQUEST, str(s)) for s in (300, 301, 302, 304, 307, 308, 399)],
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "status", "body", "headers", "error_class", "code"),
    TABLE_B,
    ids=[f"{row[0]}-{row[2]}" for row in TABLE_B],
)
def test_a_response_is_classified_by_its_words_then_by_its_status(
    name, kind, status, body, headers, error_class, code
):
    given = failure(status, body, kind=kind, headers=headers)

    assert given is not None
    assert (given.error_class, given.code) == (error_class, code)
    assert given.facts.http_status == status
    assert given.message.startswith(f"HTTP {status}")


# --- Errors behind a 200 ----------------------------------------------------------------------------

BEHIND_200 = [
    # body, class, code
    ({"error": {"code": 429, "message": "slow down"}}, E.RATE_LIMITED, "429"),
    ({"error": {"code": "429", "message": "slow down"}}, E.RATE_LIMITED, "429"),
    (openrouter(502), E.UNAVAILABLE, "502"),
    (openrouter(400, "maximum context length is 5"), E.CONTEXT_LENGTH, "context_length_exceeded"),
    (openrouter(402), E.QUOTA_EXHAUSTED, "402"),
    (openrouter(200), E.BAD_RESPONSE, "error_in_answer"),
    (openai("insufficient_quota", "insufficient_quota"), E.QUOTA_EXHAUSTED, "insufficient_quota"),
    (openai("slow_down", "rate_limit_error"), E.RATE_LIMITED, "slow_down"),
    (openai("brand_new_code", None), E.BAD_RESPONSE, "brand_new_code"),
    ({"error": "it broke"}, E.BAD_RESPONSE, "error_in_answer"),
    ({"type": "error", "message": "it broke"}, E.BAD_RESPONSE, "error_in_answer"),
    ({"error": {"message": "x"}, "code": "rate_limit_exceeded"}, E.RATE_LIMITED, "rate_limit_exceeded"),
    ({"error": "rate_limit_exceeded", "message": "x"}, E.RATE_LIMITED, "rate_limit_exceeded"),
    (anthropic("overloaded_error"), E.UNAVAILABLE, "overloaded_error"),
    (anthropic("api_error"), E.UNAVAILABLE, "api_error"),
    (anthropic("rate_limit_error"), E.RATE_LIMITED, "rate_limit_error"),
    (anthropic("timeout_error"), E.NETWORK_TIMEOUT, "timeout_error"),
    (anthropic("authentication_error"), E.AUTH, "authentication_error"),
    (anthropic("permission_error"), E.PERMISSION, "permission_error"),
    (anthropic("not_found_error"), E.NOT_FOUND, "not_found_error"),
    (anthropic("invalid_request_error"), E.INVALID_REQUEST, "invalid_request_error"),
    ({"type": "error", "code": "server_error", "message": "x"}, E.UNAVAILABLE, "server_error"),
    ({"type": "error", "error": {"error": {"code": "rate_limit_exceeded"}}}, E.RATE_LIMITED, "rate_limit_exceeded"),
    ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, E.UNAVAILABLE, "server_error"),
    ({"object": "error", "message": "x", "type": "BadRequestError", "code": 400}, E.INVALID_REQUEST, "badrequesterror"),
    ([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}], E.UNAVAILABLE, "unavailable"),
    ({"errors": [{"message": "x", "code": 10000}]}, E.BAD_RESPONSE, "10000"),
    # Responses that failed, by their own code
    *[({"object": "response", "status": "failed", "error": {"code": code, "message": "x"}}, gives, code) for code, gives in (("server_error", E.UNAVAILABLE), ("vector_store_timeout", E.UNAVAILABLE), ("server_is_overloaded", E.UNAVAILABLE), ("rate_limit_exceeded", E.RATE_LIMITED), ("insufficient_quota", E.QUOTA_EXHAUSTED), ("usage_not_included", E.QUOTA_EXHAUSTED), ("invalid_prompt", E.CONTENT_POLICY), ("bio_policy", E.CONTENT_POLICY), ("cyber_policy", E.CONTENT_POLICY), ("misalignment_policy_violation", E.CONTENT_POLICY), ("image_content_policy_violation", E.CONTENT_POLICY), ("context_length_exceeded", E.CONTEXT_LENGTH), ("data_residency_mismatch", E.INVALID_REQUEST), ("invalid_image", E.INVALID_REQUEST), ("invalid_image_format", E.INVALID_REQUEST), ("image_too_large", E.INVALID_REQUEST), ("image_parse_error", E.INVALID_REQUEST), ("failed_to_download_image", E.INVALID_REQUEST), ("unsupported_image_media_type", E.INVALID_REQUEST), ("empty_image_file", E.INVALID_REQUEST), ("something_new", E.BAD_RESPONSE))],
]  # fmt: skip


@pytest.mark.parametrize(("body", "error_class", "code"), BEHIND_200)
@pytest.mark.parametrize("status", [200, 201, 299])
def test_an_error_behind_a_success_is_classified_by_its_own_code(body, error_class, code, status):
    given = failure(status, body)

    assert given is not None
    assert (given.error_class, given.code) == (error_class, code)
    assert given.message.startswith("the answer is an error")
    assert given.maybe_billed
    assert given.facts.http_status == status
