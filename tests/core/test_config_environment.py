"""What the environment and secret files put in is data, and secrets come from nowhere else."""

from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.config.environment import UnresolvedError, expand
from tests.support.config_file import SIGNING_SECRET, ConfigFile

SECRET = "sk-demo-0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${B}z", "x1y2z"),
        ("${A}${A}", "11"),
        ("${UNSET:-def}", "def"),
        ("${EMPTY:-def}", "def"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${A:-def}", "1"),
        ("${UNSET:-a:b#c d}", "a:b#c d"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$${A}", "$${A}"),
        ("${NESTED}", "${A} $$"),
        ("costs $5", "costs $5"),
        ("#/$defs/item", "#/$defs/item"),
        ("^a$", "^a$"),
        ("$", "$"),
    ],
)
def test_a_reference_is_replaced_once_and_never_read_again(text: str, expected: str) -> None:
    environ = {"A": "1", "B": "2", "EMPTY": "", "NESTED": "${A} $$"}

    assert expand(text, environ) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${UNSET}", "environment variable UNSET is not set"),
        (
            "a ${UNSET} b ${OTHER}",
            "environment variable UNSET is not set; environment variable OTHER is not set",
        ),
        ("$HOME/x", r"\$HOME: write \$\{HOME\}, or \$\$HOME for the characters"),
        ("${not closed", r"begins no reference"),
        ("${1A}", r"begins no reference"),
        ("${A:+x}", r"begins no reference"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error_that_names_it(text: str, said: str) -> None:
    with pytest.raises(UnresolvedError, match=said):
        expand(text, {})


@given(st.text(), st.text(alphabet="ab$", max_size=8))
def test_whatever_a_variable_holds_it_arrives_unchanged(value: str, around: str) -> None:
    around = around.replace("$", "$$")

    assert expand(f"{around}${{X}}{around}", {"X": value}) == around.replace(
        "$$", "$"
    ) + value + around.replace("$$", "$")


def test_values_are_replaced_in_every_section_and_keys_are_not(config: ConfigFile) -> None:
    settings = config.load(
        """\
worker: {lease: "${LEASE}"}
providers: {p: {kind: "${KIND}", base_url: "https://${HOST}/v1"}}
types:
  t: {provider: p, model: "${M:-small}", prompt: "for $${x} ${WHO}: {{ t }}", request: {"${M}": ["${WHO}"]}}
schedules: {s: {type: t, cron: "${CRON}", input: {who: "${WHO}"}}}
""",
        LEASE="90s", KIND="openai-chat", HOST="ai.example.com", WHO="a: {b} # ${c}\n- d", CRON="@daily",
    )  # fmt: skip

    job_type = settings.types["t"]
    assert settings.worker.lease.total_seconds() == 90
    assert settings.providers["p"].base_url == "https://ai.example.com/v1"
    assert job_type.model == "small"
    assert job_type.prompt == "for ${x} a: {b} # ${c}\n- d: {{ t }}"
    assert job_type.request == {"${M}": ["a: {b} # ${c}\n- d"]}
    assert settings.schedules["s"].input == {"who": "a: {b} # ${c}\n- d"}


def test_a_missing_variable_is_named_with_its_place_and_other_faults_still_come(config: ConfigFile) -> None:
    said = config.said(
        "providers:\n  p: {kind: openai-chat, api_key: '${KEY}', base_url: '${URL}'}\n"
        "types:\n  t: {provider: q}\n"
        "worker: {concurrency: '${N}'}"
    )

    assert said == [
        "2:35: providers.p.api_key: environment variable KEY is not set",
        "2:55: providers.p.base_url: environment variable URL is not set",
        "4:17: types.t.provider: no provider named 'q' (there are: p, simulator)",
        "5:23: worker.concurrency: environment variable N is not set",
    ]


def test_text_that_spells_a_number_or_a_boolean_is_taken_where_one_is_needed(config: ConfigFile) -> None:
    settings = config.load(
        """\
worker: {concurrency: "${N}"}
retry: {budget: {ratio: "${R}"}}
types: {t: {provider: simulator, background: "${B}", model: "${N}", request: {n: "${N}"}}}
""",
        N="12", R="0.5", B="true",
    )  # fmt: skip

    assert settings.worker.concurrency == 12
    assert settings.retry.budget.ratio == 0.5
    assert settings.types["t"].background is True
    assert settings.types["t"].model == "12"
    assert settings.types["t"].request == {"n": "12"}


@pytest.mark.parametrize("value", ["", "many", "1_000", "012", "no", "4.5", "1e9"])
def test_other_text_from_the_environment_is_no_number(config: ConfigFile, value: str) -> None:
    (said,) = config.said("worker: {concurrency: '${N}'}", N=value)

    assert said.startswith("1:23: worker.concurrency: a whole number is needed")


def test_a_number_from_the_environment_must_be_in_range_too(config: ConfigFile) -> None:
    (said,) = config.said("worker: {concurrency: '${N}'}", N="0")

    assert said == "1:23: worker.concurrency: must be at least 1 (from 1 to 10000)"


@given(st.text(min_size=1))
def test_any_password_arrives_in_the_database_url_as_it_is(password: str) -> None:
    url = expand("postgresql://u:${DB_PW}@h/db", {"DB_PW": password}, url=True)

    before, _, after = url.partition("@")
    assert after == "h/db"
    assert unquote(before.removeprefix("postgresql://u:")) == password.encode(
        "utf-8", "surrogatepass"
    ).decode("utf-8", "replace")


def test_a_whole_url_from_the_environment_stays_as_it_is() -> None:
    url = "postgresql://u:p%40ss@h/db?sslmode=require"

    assert expand("${URL}", {"URL": url}, url=True) == url
    assert expand("postgresql://${U}@h/db", {"U": "a b"}, url=True) == "postgresql://a b@h/db"
    assert expand("sqlite:///${F}", {"F": "a b.db"}, url=True) == "sqlite:///a b.db"


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (f"providers: {{p: {{kind: openai-chat, api_key: {SECRET}}}}}", "providers.p.api_key"),
        ("providers: {p: {kind: openai-chat, api_key: 12345}}", "providers.p.api_key"),
        (
            f"providers: {{p: {{kind: openai-chat, webhook_secret: {SIGNING_SECRET}}}}}",
            "providers.p.webhook_secret",
        ),
        (
            f"providers: {{p: {{kind: openai-chat, webhook_secret: ['${{OK}}', {SIGNING_SECRET}]}}}}",
            "providers.p.webhook_secret[1]",
        ),
        (
            f"providers: {{p: {{kind: openai-chat, headers: {{Authorization: {SECRET}}}}}}}",
            "providers.p.headers",
        ),
        (f"providers: {{p: {{kind: openai-chat, headers: {{x-api-key: {SECRET}}}}}}}", "providers.p.headers"),
        (
            f"notify: {{n: {{kind: webhook, url: 'https://x.example', secret: {SIGNING_SECRET}}}}}",
            "notify.n.secret",
        ),
        (f"database: postgresql://u:{SECRET}@h/db", "database"),
        (f"database: postgresql://h/db?password={SECRET}", "database"),
    ],
)
def test_a_secret_in_the_file_itself_is_refused_and_not_repeated(
    config: ConfigFile, content: str, path: str
) -> None:
    (fault,) = config.faults(content, {"OK": SIGNING_SECRET})

    assert fault.path == path
    assert "never in the file itself" in fault.message
    assert SECRET not in str(fault)
    assert SIGNING_SECRET not in str(fault)


def test_secrets_come_from_the_environment_or_from_files_beside_the_configuration(
    config: ConfigFile, tmp_path: Path
) -> None:
    (tmp_path / "key.txt").write_text(f"{SECRET}\n")
    (tmp_path / "hook").write_text(SIGNING_SECRET)

    settings = config.load(
        """\
database: postgresql://u:${DB_PW}@h/db
providers:
  p:
    kind: openai-chat
    api_key: file:key.txt
    webhook_secret: ["file:hook", "${HOOK}"]
    headers: {X-Team: blue, X-Api-Token: "${TOKEN}", X-File: "file:key.txt"}
""",
        HOOK=SIGNING_SECRET, TOKEN="t-1", DB_PW="p$1#a:b\"c\\n@/%",
    )  # fmt: skip

    provider = settings.providers["p"]
    assert provider.api_key is not None
    assert provider.api_key.get_secret_value() == SECRET
    assert [one.get_secret_value() for one in provider.webhook_secret] == [SIGNING_SECRET, SIGNING_SECRET]
    assert {name: one.get_secret_value() for name, one in provider.headers.items()} == {
        "X-Team": "blue",
        "X-Api-Token": "t-1",
        "X-File": SECRET,
    }
    assert unquote(settings.database) == 'postgresql://u:p$1#a:b"c\\n@/%@h/db'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the secret's file key.txt: no such file"),
        (b"", "the secret is empty"),
        (b" \n", "the secret is empty"),
        (b"a\nb", "the secret has a line break or control character in it"),
        (b"\xff", "the secret's file key.txt: not UTF-8"),
        (b"x" * 70_000, "the secret's file key.txt: larger than 65536 bytes"),
    ],
)
def test_a_secret_file_that_does_not_hold_one_gets_one_line(
    config: ConfigFile, tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "key.txt").write_bytes(content)

    (fault,) = config.faults("providers: {p: {kind: openai-chat, api_key: 'file:key.txt'}}")

    assert fault.message == said


def test_only_secrets_are_read_from_files(config: ConfigFile, tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text("from the file")

    settings = config.load(
        "types: {t: {provider: simulator, prompt: 'file:key.txt', model: 'file:key.txt'}}\n"
        "providers: {p: {kind: openai-chat, api_key: '${X}'}}",
        X="file:key.txt",
    )

    assert settings.types["t"].prompt == "file:key.txt"
    assert settings.types["t"].model == "file:key.txt"
    key = settings.providers["p"].api_key
    assert key is not None
    assert key.get_secret_value() == "file:key.txt"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (f"v1,{SIGNING_SECRET}", "starts with 'v1,'"),
        ("my secret", "not base64"),
        ("whsec_", "the signing secret is empty"),
        ("whsec_MTIzNDU2Nzg=", "decodes to 8 bytes, at least 24 are needed"),
    ],
)
def test_a_webhook_secret_is_looked_at_when_it_is_loaded(config: ConfigFile, value: str, said: str) -> None:
    (fault,) = config.faults("providers: {p: {kind: openai-chat, webhook_secret: '${S}'}}", {"S": value})

    assert fault.path == "providers.p.webhook_secret"
    assert said in fault.message
    assert value not in str(fault)


def test_a_webhook_secret_may_have_space_around_it(config: ConfigFile) -> None:
    settings = config.load(
        "providers: {p: {kind: openai-chat, webhook_secret: '${S}'}}", S=f"  {SIGNING_SECRET}\n"
    )

    assert settings.providers["p"].webhook_secret[0].get_secret_value() == SIGNING_SECRET


@pytest.mark.parametrize("key", ["ttl", "rate", "url"])
def test_text_from_the_environment_in_the_wrong_place_is_not_repeated(config: ConfigFile, key: str) -> None:
    content = {
        "ttl": "keys: {ttl: '${X}'}",
        "rate": "providers: {p: {kind: openai-chat, rate: '${X}'}}",
        "url": "providers: {p: {kind: openai-chat, base_url: '${X}'}}",
    }[key]

    (said,) = config.said(content, X=SECRET)

    assert SECRET not in said
