"""The configuration file as a file and as YAML: what other readers guess at is refused or kept as text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.config_file import ConfigFile, faults_of


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "schedules:\n  a: {cron: */5 * * * *}",
            '2:13: a value starting with * must be quoted: "*/5 * * * *"',
        ),
        (
            "schedules:\n  b:\n    cron: * * * * *",
            '3:11: a value starting with * must be quoted: "* * * * *"',
        ),
        (
            "schedules:\n  c:\n    cron: @daily  # each day",
            '3:11: a value starting with @ must be quoted: "@daily"',
        ),
        ("schedules:\n  d:\n    cron: *daily", '3:11: a value starting with * must be quoted: "*daily"'),
        (
            "schedules: {e: {type: demo, cron: */5 * * * *, user: x}}",
            '1:35: a value starting with * must be quoted: "*/5 * * * *"',
        ),
        ("a: %x", '1:4: a value starting with % must be quoted: "%x"'),
        ("a: `x`", '1:4: a value starting with ` must be quoted: "`x`"'),
        ("types:\n\tt: {}", "2:1: indented by a tab: use spaces"),
        ("types:\n  a: 1\n  \tb: 2", "3:3: indented by a tab: use spaces"),
        ("a: 1\n---\nb: 2", "2:1: a second document begins here: one file holds one document"),
        ("a: 1\n...\nb: 2", "3:1: a second document begins here: one file holds one document"),
        ("a: {b: ${X}}", '1:9: inside { } and [ ] a ${NAME} must be quoted (write "${NAME}")'),
        ("a: [1, 2", "1:4: a bracket that is never closed, or a comma is missing"),
        ("a: b: c", "1:5: a colon where none can stand: quote the value, mind the indentation"),
        ("a: 1\n b: 2", "2:3: a colon where none can stand: quote the value, mind the indentation"),
        ("a: 'x\n", "2:1: a quote that is never closed"),
        ('a: "\\q"', "1:5: an unknown \\ in double quotes: use single quotes, or \\\\"),
        ("a: -\nb", "1:4: a dash where no list can begin: put it on a line of its own"),
        ("a: " + "[" * 5000, "1:1003: nested too deep"),
    ],
)
def test_what_is_no_yaml_is_named_at_its_place(config: ConfigFile, content: str, said: str) -> None:
    assert config.said(content) == [said]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "concurrency: {global: 1, global: 2}",
            ["1:26: concurrency.global: duplicate key 'global': it stands on line 1 already"],
        ),
        (
            "schedules:\n  x: {type: demo, every: 5m}\n  x: {type: demo, every: 6m}\nschedules: {}",
            [
                "3:3: schedules.x: duplicate key 'x': it stands on line 2 already",
                "4:1: schedules: duplicate key 'schedules': it stands on line 1 already",
            ],
        ),
        ("'keys': {}\nkeys: {}", ["2:1: keys: duplicate key 'keys': it stands on line 1 already"]),
    ],
)
def test_a_duplicate_key_is_refused_with_both_lines(
    config: ConfigFile, content: str, said: list[str]
) -> None:
    assert config.said(content) == said


def test_merge_keys_work_and_own_keys_win(config: ConfigFile) -> None:
    settings = config.load(
        """\
types:
  base: &base {provider: simulator, tier: complex, priority: 3}
  other: &other {provider: simulator, tier: simple, max_attempts: 9}
  a: {<<: *base, tier: medium}
  b:
    <<: [*base, *other]
    priority: 1
  c: {"model": "<<"}
""".replace("  c: {", "  c: {provider: simulator, ")
    )

    assert (settings.types["a"].tier, settings.types["a"].priority) == ("medium", 3)
    b = settings.types["b"]
    assert (b.tier, b.max_attempts, b.priority) == ("complex", 9, 1)
    assert settings.types["c"].model == "<<"


def test_a_fault_in_a_merged_mapping_is_shown_where_it_stands(config: ConfigFile) -> None:
    said = config.said("types:\n  a: &a {provider: simulator, tier: hard}\n  b: {<<: *a, teir: medium}")

    assert said == [
        "2:37: types.a.tier: must be one of: simple, medium, complex",
        "2:37: types.b.tier: must be one of: simple, medium, complex",
        "3:15: types.b.teir: unknown key 'teir' (did you mean 'tier'?)",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("types: {a: {<<: 5}}", "<< takes a mapping"),
        ("types: {a: {<<: [5]}}", "<< takes a mapping"),
        ("types: &x\n  a: *x", "an alias that holds itself"),
        ("types: &x {a: {<<: *x}}", "an alias that holds itself"),
        ("types: {? [a] : b}", "a key must be a word"),
        ("types: !!python/object/apply:os.system {}", "tags are not used here"),
        ("database: !!python/name:os.system", "tags are not used here"),
        ("database: !secret x", "tags are not used here"),
        ("worker: {concurrency: !!int x}", "this is not what !!int says it is"),
        ("a: " + "[" * 80 + "]" * 80, "nested deeper than 60 levels"),
    ],
)
def test_what_yaml_can_do_and_a_configuration_must_not_is_refused(
    config: ConfigFile, content: str, said: str
) -> None:
    assert any(said in line for line in config.said(content))


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(config: ConfigFile) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    said = [line for line in config.said("\n".join(lines)) if "unknown key" not in line]

    assert len(said) == 1
    assert "the file holds more than 50000 values, counting aliases each time" in said[0]


def test_standard_tags_say_what_a_value_is(config: ConfigFile) -> None:
    settings = config.load(
        "worker: {concurrency: !!int '7'}\n"
        "types: {t: {provider: simulator, model: !!str 1.10, background: !!bool 'false',"
        " request: {a: !!float 2, b: !!int '${N}', c: !!null ''}}}",
        N="5",
    )

    assert settings.worker.concurrency == 7
    assert settings.types["t"].model == "1.10"
    assert settings.types["t"].background is False
    assert settings.types["t"].request == {"a": 2.0, "b": 5, "c": None}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"- a\n", "1:1: the file holds a list: sections like `providers:` are needed"),
        (b"just text\n", "1:1: the file holds text: sections like `providers:` are needed"),
        ("keys: {}\n".encode("utf-16"), "the file is UTF-16: save it as UTF-8"),
        (b"keys: {}\n\0", "2:1: the file holds a NUL byte: this is no text file"),
        ("键: \xff".encode("latin-1", "ignore") + b"a: \xff", "1:6: the file is not UTF-8"),
        (b"a: 1\nb: \x07", "2:4: a character that YAML does not allow (U+0007)"),
        ("a: \u0085b\x9f".encode(), "1:6: a character that YAML does not allow (U+009F)"),
        (b"x" * ((4 << 20) + 1), "larger than 4194304 bytes"),
    ],
)
def test_a_file_that_is_no_configuration_gets_one_line(config: ConfigFile, content: bytes, said: str) -> None:
    if "not UTF-8" in said:
        content = b"a: bc\xff"
    assert config.said(content) == [said]


@pytest.mark.parametrize(
    "content", [b"", b"# only a comment\n", b"---\n", b"~\n", b"{}", b"\n\n", b"\xef\xbb\xbf"]
)
def test_an_empty_file_means_the_defaults(config: ConfigFile, content: bytes) -> None:
    assert config.load(content).types.keys() == {"demo"}


def test_a_byte_order_mark_and_windows_line_ends_are_fine(config: ConfigFile) -> None:
    settings = config.load(b"\xef\xbb\xbfkeys: {ttl: 1d}\r\nworker:\r\n  concurrency: 7\r\n")

    assert settings.worker.concurrency == 7
    assert [line.split(":")[:2] for line in config.said(b"\xef\xbb\xbfkeyz: 1\r\nworkr: 2\r\n")] == [
        ["1", "1"],
        ["2", "1"],
    ]


def test_columns_count_characters_not_bytes(config: ConfigFile) -> None:
    (said,) = config.said("types: {摘要: {provider: simulator, 层: 1}}")

    assert said.startswith("1:35: types.摘要.层: unknown key '层'")


def test_a_missing_file_a_folder_and_a_closed_file_get_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()

    (missing,), (folder,) = faults_of(tmp_path / "no.yaml"), faults_of(tmp_path / "folder.yaml")
    (odd,) = faults_of(Path("a\0b"))

    assert str(missing) == f"{tmp_path / 'no.yaml'}: no such file"
    assert folder.message == "this is a directory"
    assert odd.message == "cannot be read: not a usable file name"
    assert faults_of(Path("/dev/null")) == ()


def test_a_file_nobody_may_read_gets_one_line(config: ConfigFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    (fault,) = faults_of(Path("aijobs.yaml"))

    assert str(fault) == "aijobs.yaml: not allowed to read it"


def test_words_other_parsers_take_for_booleans_are_names_and_texts(config: ConfigFile) -> None:
    settings = config.load(
        "providers: {on: {kind: simulator}}\ntypes:\n"
        "  no: {provider: on, model: NO}\n  y: {provider: on, version: off}\n"
        "  null: {provider: on}\n  1: {provider: on}\nnotify: {n: {kind: log, on: [succeeded]}}"
    )

    assert {"no", "y", "null", "1"} <= settings.types.keys()
    assert settings.types["no"].model == "NO"
    assert settings.types["y"].version == "off"
    assert settings.notify["n"].on == ("succeeded",)


def test_free_data_keeps_the_text_of_what_parsers_disagree_on(config: ConfigFile) -> None:
    settings = config.load(
        "schedules:\n  s:\n    type: demo\n    every: 5m\n"
        "    input: {day: 2026-01-01, at: 2026-01-01 00:00:00 -5, id: 0123456,"
        " n: 1_000, t: 1:30, no: no, f: 1e3, o: 0o10, h: 0x1F,"
        " big: 123456789012345678901234567890, nothing: ~, yes: true}"
    )

    assert settings.schedules["s"].input == {
        "day": "2026-01-01",
        "at": "2026-01-01 00:00:00 -5",
        "id": "0123456",
        "n": "1_000",
        "t": "1:30",
        "no": "no",
        "f": 1000.0,
        "o": 8,
        "h": 31,
        "big": 123456789012345678901234567890,
        "nothing": None,
        "yes": True,
    }


_WORDS = st.sampled_from(
    [
        "types", "providers", "p", "t", "kind", "provider", "simulator", "background", "notify", "retry",
        "<<", "${X}", "null", "no", "-1", "1e999", ".nan", "2026-01-01", "5m", "*a", "&a", "!!int",
        "{", "}", "[", "]", ",", "'", '"', "|", "#", "?", "é", "摘",
        "- ", ": ", " #", "\n", "\n  ", "\n    ", "\t", "---\n",
    ]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(_WORDS, max_size=40).map("".join)))
def test_whatever_the_file_holds_it_is_settings_or_faults_with_a_message(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    faults = faults_of(path)

    assert all(fault.message and "\n" not in str(fault) for fault in faults)
