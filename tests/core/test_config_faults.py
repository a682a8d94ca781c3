"""The configuration file: every fault at once, each with its place, and words that help."""

import pytest

from aijobs.core.config import load
from aijobs.core.errors import ConfigError
from tests.support.config_file import ConfigFile


def test_all_faults_come_at_once_in_the_order_of_the_file(config: ConfigFile) -> None:
    said = config.said(
        """\
concurrency: {global: -1}
providers:
  openai: {kind: openai-respones, concurrency: many}
types:
  summarize:
    provider: opnai
    max_attemps: 3
    tier: hard
    prompt: "{{ text"
    input_schema: {type: objekt}
    notify: [nobody]
  other: {}
schedules:
  nightly: {type: sumarize, cron: "*/90 * * * *", timezone: Asia/Shangai}
  often: {type: summarize, every: 5s}
concurrency: {global: 3}
"""
    )

    assert [line.split(": ")[:2] for line in said] == [
        ["1:23", "concurrency.global"],
        ["3:18", "providers.openai.kind"],
        ["3:48", "providers.openai.concurrency"],
        ["6:15", "types.summarize.provider"],
        ["7:5", "types.summarize.max_attemps"],
        ["8:11", "types.summarize.tier"],
        ["9:13", "types.summarize.prompt"],
        ["10:5", "types.summarize.input_schema"],
        ["11:14", "types.summarize.notify[0]"],
        ["12:3", "types.other.provider"],
        ["14:19", "schedules.nightly.type"],
        ["14:35", "schedules.nightly.cron"],
        ["14:61", "schedules.nightly.timezone"],
        ["15:35", "schedules.often.every"],
        ["16:1", "concurrency"],
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("typs: {}", "1:1: typs: unknown key 'typs' (did you mean 'types'?)"),
        ("worker: {leese: 5s}", "1:10: worker.leese: unknown key 'leese' (did you mean 'lease'?)"),
        (
            "worker: {zzz: 5s}",
            "1:10: worker.zzz: unknown key 'zzz' (known here: concurrency, lease, heartbeat, grace, poll)",
        ),
        ("concurrency: {globl: 1}", "1:15: concurrency.globl: unknown key 'globl' (did you mean 'global'?)"),
        (
            "retry: {network: {retrys: 3}}",
            "1:19: retry.network.retrys: unknown key 'retrys' (did you mean 'retries'?)",
        ),
        ("retry: {auth: {retries: 3}}", "1:9: retry.auth: auth is never retried: trying again cannot help"),
        (
            "types: {t: {provider: simulater}}",
            "1:23: types.t.provider: no provider named 'simulater' (did you mean 'simulator'?)",
        ),
        (
            "types: {t: {provider: simulator, stale_results: {max_agee: 1d}}}",
            "1:50: types.t.stale_results.max_agee: unknown key 'max_agee' (did you mean 'max_age'?)",
        ),
        (
            "prices: {m: {inputs: 1, input: 1, output: 1}}",
            "1:14: prices.m.inputs: unknown key 'inputs' (did you mean 'input'?)",
        ),
        (
            "schedules: {s: {type: demo, every: 5m, catch_up: lates}}",
            "1:50: schedules.s.catch_up: must be one of: none, latest, all (did you mean 'latest'?)",
        ),
        (
            "types: {t: {provider: simulator, tier: 3}}",
            '1:40: types.t.tier: must be one of: simple, medium, complex (quote it if text is meant: "3")',
        ),
        (
            "alerts: {notify: [x]}",
            "1:19: alerts.notify[0]: no notification target named 'x' (there are: none)",
        ),
        (
            "types: {t: {provider: simulator, fallback: {provider: nope}}}",
            "1:55: types.t.fallback.provider: no provider named 'nope' (there are: simulator)",
        ),
        (
            "types: {t: {provider: c, background: true}}\nproviders: {c: {kind: anthropic}}",
            "1:38: types.t.background: provider 'c' (kind anthropic) has no background mode",
        ),
        ("providers: {p: {kind: http}}", "1:13: providers.p: kind http needs `base_url`"),
        (
            "providers: {p: {kind: python, callable: a:b, rate: 0/s}}",
            "1:52: providers.p.rate: '0/s' lets nothing through: pause the type or the provider instead",
        ),
        (
            "providers: {p: {kind: python, callable: 'a:b', organization: x}}",
            "1:13: providers.p: organization: not for kind python",
        ),
        ("schedules: {s: {type: demo}}", "1:13: schedules.s: needs exactly one of `cron` and `every`"),
        ("database: mysql://h/d", "1:11: database: must begin with sqlite:/// or postgresql://"),
        ("worker: [1]", "1:1: worker: a mapping (key: value) is needed, not a list"),
        ("worker: 5", "1:9: worker: a mapping (key: value) is needed, not the number 5"),
        (
            "types: {t: {provider: simulator, notify: ops}}",
            "1:42: types.t.notify: a list is needed, not text",
        ),
        (
            "types: {'a b': {provider: simulator}}",
            "1:9: types.a b: a name is letters, digits and . _ - (at most 100, a letter or digit first)",
        ),
        (
            "types: {t: {provider: simulator, request: [1]}}",
            "1:34: types.t.request: a mapping (key: value) is needed, not a list",
        ),
        (
            "types: {t: {provider: simulator, request: {a: {b: [.nan]}}}}",
            "1:34: types.t.request: a.b[0]: JSON has no infinity and no NaN",
        ),
    ],
)
def test_a_fault_says_where_what_and_what_was_probably_meant(
    config: ConfigFile, content: str, said: str
) -> None:
    assert config.said(content) == [said]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "must be at least 1 (from 1 to 10000)"),
        ("-1", "must be at least 1 (from 1 to 10000)"),
        ("1000000000", "must be at most 10000 (from 1 to 10000)"),
        ("1e9", "a whole number is needed, not the number 1000000000.0 (write 1000000000)"),
        ("4.5", "a whole number is needed, not the number 4.5"),
        (".inf", "a whole number is needed, not the number inf"),
        (".nan", "a whole number is needed, not the number nan"),
        ("'4'", "a whole number is needed, not text (remove the quotes)"),
        ("four", "a whole number is needed, not text"),
        ("true", "a whole number is needed, not true"),
        ("0123", "a whole number is needed, not text (parsers disagree on what 0123 means"),
        ("08", "a whole number is needed, not text (parsers disagree on what 08 means"),
        ("1_000", "a whole number is needed, not text (parsers disagree on what 1_000 means"),
        ("1:30", "a whole number is needed, not text (1:30 is text here: parsers disagree on what it means)"),
        ("0b11", "a whole number is needed, not text (parsers disagree on what 0b11 means"),
        ("[4]", "a whole number is needed, not a list"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_with_the_range(
    config: ConfigFile, value: str, said: str
) -> None:
    (line,) = config.said(f"worker: {{concurrency: {value}}}")

    assert line.split(": ", 1)[1].startswith(f"worker.concurrency: {said}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("30", "30 has no unit: write 30s, 30m or 30h"),
        ("'30'", "'30' has no unit: write 30s, 30m or 30h"),
        ("1.5h", "'1.5h' is not a duration"),
        ("PT5M", "'PT5M' is not a duration"),
        ("1 day", "'1 day' is not a duration"),
        ("-5s", "'-5s' is negative"),
        ("5 M", "'5 M' is not a duration"),
        ("''", "empty: write a duration"),
        ("٣0s", "'٣0s' is not a duration"),
        ("0s", "must be at least 1ms"),
        ("true", "a duration is needed"),
        ("1:30", "1:30 is text here"),
    ],
)
def test_a_duration_without_a_clear_unit_is_refused(config: ConfigFile, value: str, said: str) -> None:
    (line,) = config.said(f"keys: {{ttl: {value}}}")

    assert line.startswith("1:13: keys.ttl: ")
    assert said in line


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("off", "true or false is needed, not text (off is text here: write true or false)"),
        ("No", "true or false is needed, not text (No is text here: write true or false)"),
        ("y", "true or false is needed, not text (y is text here: write true or false)"),
        ("'false'", "true or false is needed, not text (remove the quotes)"),
        ("0", "true or false is needed, not the number 0"),
    ],
)
def test_only_true_and_false_are_booleans(config: ConfigFile, value: str, said: str) -> None:
    (line,) = config.said(f"types: {{t: {{provider: simulator, background: {value}}}}}")

    assert line == f"1:46: types.t.background: {said}"


@pytest.mark.parametrize("value", ["1.10", "123456789012345678901234567890", "true", "1e3"])
def test_text_that_yaml_reads_as_something_else_must_be_quoted(config: ConfigFile, value: str) -> None:
    (line,) = config.said(f"types: {{t: {{provider: simulator, model: {value}}}}}")

    assert line.startswith("1:41: types.t.model: text is needed, not ")
    assert line.endswith(f'(quote it if text is meant: "{value}")')


def test_an_empty_value_is_the_same_as_leaving_it_out(config: ConfigFile) -> None:
    settings = config.load(
        "types:\nschedules: ~\nworker:\n  lease: null\nproviders:\n  p:\n    kind: simulator\n    headers:\n"
    )

    assert settings.types.keys() == {"demo"}
    assert settings.worker.lease.total_seconds() == 60
    assert config.said("providers:\n  p:\n    kind: http\n    base_url: null\n  q:\n") == [
        "2:3: providers.p: kind http needs `base_url`",
        "5:3: providers.q: a mapping (key: value) is needed, and there is nothing",
    ]
    assert config.said("types:\n  t:\n    provider: ~\n") == [
        "3:15: types.t.provider: required, and not there"
    ]


def test_without_a_file_the_defaults_hold_and_a_database_may_be_named() -> None:
    settings = load(None, environ={}, database="sqlite:///other.db")

    assert settings.database == "sqlite:///other.db"
    assert settings.source is None


def test_a_database_that_was_named_goes_over_the_file(config: ConfigFile) -> None:
    settings = config.load("database: mysql://u:pw@h/d", database="sqlite:///flag.db")

    assert settings.database == "sqlite:///flag.db"
    assert settings.source == config.path


def test_an_error_lists_every_fault_on_a_line_of_its_own(config: ConfigFile) -> None:
    config.write("a: 1\nb: 2\n")

    with pytest.raises(ConfigError) as error:
        load(config.path, environ={})

    assert error.value.exit_code == 2
    assert str(error.value).count("\n") == 1
    assert all(line.startswith(f"{config.path}:") for line in str(error.value).splitlines())


def test_a_fault_is_one_line_that_steers_no_terminal_whatever_it_quotes(config: ConfigFile) -> None:
    said = config.said('types: {"t\\e[2J\\u202e": {}, "a\\nINFO all is well": {}}\ndatabase: "x\\u200b"\n')

    assert len(said) >= 3
    assert not any(set("\x1b\u202e\u200b\n") & set(line) for line in said)
