"""Tables, plain text, JSON, talk, progress and questions, whatever the data holds."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from aijobs.cli.plain import aligned, cell, clean, to_json, width, wrapped
from aijobs.cli.printer import Printer, Verbosity
from aijobs.core.errors import AijobsError, ConfigError, ConfigFault, UsageError
from tests.support.clock import ManualClock

HOSTILE = (
    "x\nINFO job 7 completed \x1b[2J\x07 \u202egnp.exe \u2066\u200b\x9b[0m [red]b[/red] list[/int] :smile:"
)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Screen:
    """A printer and what it wrote."""

    def __init__(
        self, *, json: bool = False, verbosity: Verbosity = Verbosity.NORMAL, terminal: bool = False,
        columns: int = 100, typed: str = "", environ: dict[str, str] | None = None,
        monkeypatch: pytest.MonkeyPatch | None = None,
    ) -> None:  # fmt: skip
        stream = Terminal if terminal else io.StringIO
        self.stdout, self.stderr = stream(), stream()
        self.clock = ManualClock()
        if monkeypatch:
            monkeypatch.setenv("COLUMNS", str(columns))
            monkeypatch.setenv("TERM", "xterm-256color")
        self.printer = Printer(
            json=json, verbosity=verbosity, clock=self.clock, stdin=stream(typed), stdout=self.stdout,
            stderr=self.stderr, environ=environ or {},
        )  # fmt: skip

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()


# --- Safe text --------------------------------------------------------------------------------------


def test_cleaned_text_cannot_steer_a_terminal_or_forge_a_line() -> None:
    text = clean(HOSTILE)

    assert text.isprintable()
    assert "\\nINFO job 7" in text
    assert "\\e[2J" in text
    assert "\\u202e" in text
    assert "\\x9b[0m" in text
    assert "[red]b[/red] list[/int] :smile:" in text


def test_cleaned_text_keeps_every_language() -> None:
    text = "你好，世界 🎉 café Ω עברית"

    assert clean(text) == text


def test_json_is_valid_and_holds_no_character_that_steers_a_terminal() -> None:
    text = to_json({"text": HOSTILE, "half": "\ud800", "cjk": "你好"})

    assert json.loads(text) == {"text": HOSTILE, "half": "\ud800", "cjk": "你好"}
    assert text.isprintable()
    assert "你好" in text


def test_json_times_end_in_z_and_spans_are_seconds() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)

    assert (
        to_json({"at": at, "span": timedelta(minutes=1)})
        == '{"at":"2026-01-02T03:04:05.006000Z","span":60.0}'
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        (datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (timedelta(seconds=3725), "1h2m"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(days=2, hours=3), "2d3h"),
        (timedelta(milliseconds=1250), "1.25s"),
        (0.25, "0.25"),
        ({"tokens": {"left": 5, "reset": None}, "by": "x\x1b[2J"}, "tokens (left 5, reset -), by x\\e[2J"),
        (["a", 1], "a, 1"),
        ({}, "-"),
    ],
)
def test_a_cell_shows_unknown_apart_from_zero(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_wide_characters_do_not_shift_the_columns() -> None:
    lines = aligned(("USER", "STATUS"), [("安娜🎉", "failed"), ("bo", "pending")])

    starts = {width(line[: line.rindex(" ") + 1]) for line in lines}
    assert starts == {8}


# --- Tables -----------------------------------------------------------------------------------------


def test_a_piped_table_is_plain_text_without_any_drawing() -> None:
    screen = Screen()

    screen.printer.table(("ID", "NOTE"), [("1", HOSTILE), ("22", None)])

    assert screen.out.splitlines() == ["ID  NOTE", f"1   {clean(HOSTILE)}", "22  -"]


def test_a_wide_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True, monkeypatch=monkeypatch)

    screen.printer.table(("ID", "NOTE"), [("1", "[red]b[/red]")])

    assert "─" in screen.out
    assert "[red]b[/red]" in screen.out


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(terminal=True, monkeypatch=monkeypatch)

    screen.printer.table(("ID", "NOTE"), [("1", "text")])

    assert "\x1b[3" not in screen.out


def test_a_table_wider_than_the_terminal_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen(terminal=True, columns=16, monkeypatch=monkeypatch)

    screen.printer.table(
        ("ID", "USER", "NOTE", "AT"), [("1", "安娜🎉", "failed", "09:12"), ("2", "bo", "ok", None)]
    )

    assert screen.out.splitlines() == [
        "ID  USER",
        "  NOTE    AT",
        "1   安娜🎉",
        "  failed  09:12",
        "2   bo",
        "  ok      -",
    ]


def test_a_column_wider_than_the_terminal_has_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True, columns=20, monkeypatch=monkeypatch)

    screen.printer.table(("", "ID", "NOTE"), [("ok", "1", "a longer note than fits")])

    assert screen.out.splitlines() == ["    ID", "  NOTE", "ok  1", "  a longer note than", "  fits"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a longer note", ["a longer", "note"]),
        ("x " + "i" * 12 + " y", ["x", "i" * 12, "y"]),
        ("服务中断，等待恢复", ["服务中断，", "等待恢复"]),
        ("ab服务cd 中断", ["ab服务cd", "中断"]),
        ("服务中断了，等待", ["服务中断", "了，等待"]),
        ("abc，服务 abcdefghi，中断", ["abc，服务", "abcdefghi，", "中断"]),
    ],
)  # fmt: skip
def test_text_is_broken_at_spaces_and_beside_wide_characters_and_never_within_a_word(
    text: str, lines: list[str]
) -> None:
    assert wrapped(text, 10) == lines


@pytest.mark.parametrize(
    "command",
    [
        "`kill -CONT 4711 && tail -f 服务.log`",
        "(`fuser -v aijobs.db`),",
        "aijobs resume --all --reason 'a, b'",
        "'aijobs switch list'",
    ],
)
def test_a_command_to_be_copied_is_never_broken(command: str) -> None:
    lines = wrapped(f"it waits: {command}, or 等待恢复，then wait and see", 12)

    assert any(command in line for line in lines)
    assert all(width(line) <= 12 for line in lines if command not in line)


@pytest.mark.parametrize("cells", range(1, 9))
def test_an_emoji_of_several_characters_stays_one(cells: int) -> None:
    parts = ["🎉", "👩‍💻", "👍🏽", "❤️", "🎊"]
    text = "".join(parts)

    lines = wrapped(text, cells)

    assert "".join(lines) == text
    assert {len("".join(lines[:n])) for n in range(len(lines))} <= {text.index(part) for part in parts}


def test_without_a_terminal_a_table_is_as_wide_as_it_is_unless_columns_says_how_wide() -> None:
    free, told, nonsense = (Screen(environ=said) for said in ({}, {"COLUMNS": "16"}, {"COLUMNS": "wide"}))

    for screen in (free, told, nonsense):
        screen.printer.table(("ID", "NOTE"), [("1", "a note"), ("2", "a longer note")])

    assert free.out == nonsense.out == "ID  NOTE\n1   a note\n2   a longer note\n"
    assert told.out == "ID\n  NOTE\n1\n  a note\n2\n  a longer note\n"


def test_a_dumb_terminal_gets_plain_text() -> None:
    screen = Screen(terminal=True, environ={"TERM": "dumb"})

    screen.printer.table(("ID",), [("1",)])

    assert screen.out == "ID\n1\n"


def test_a_sentence_that_does_not_fit_goes_on_below_to_the_right() -> None:
    free, narrow = Screen(), Screen(environ={"COLUMNS": "20"})

    for screen in (free, narrow):
        screen.printer.sentence("next: look at it", hang=6)
        screen.printer.sentence("next: give it a longer time\x1b[2J", hang=6)

    assert free.out.splitlines() == ["next: look at it", clean("next: give it a longer time\x1b[2J")]
    shown = narrow.out.splitlines()
    assert shown[:2] == ["next: look at it", "next: give it a"]
    assert [line[:6] for line in shown[2:]] == [" " * 6] * len(shown[2:])
    assert max(map(width, shown)) <= 20


def test_the_first_line_of_a_sentence_has_the_whole_room() -> None:
    narrow = Screen(environ={"COLUMNS": "20"})

    narrow.printer.sentence("ok     store: at /db of", hang=7)

    assert narrow.out.splitlines() == ["ok     store: at /db", "       of"]


def test_an_empty_table_is_talk_and_no_data() -> None:
    screen = Screen()

    screen.printer.table(("ID",), [], empty="no jobs")

    assert (screen.out, screen.err) == ("", "no jobs\n")


def test_fields_are_one_a_line() -> None:
    screen = Screen()

    screen.printer.fields([("id", "1"), ("status", None)])

    assert screen.out == "id:     1\nstatus: -\n"


def test_a_value_that_does_not_fit_goes_on_below_itself_and_a_word_below_its_name() -> None:
    screen = Screen(environ={"COLUMNS": "20"})

    screen.printer.fields([("id", "1"), ("reason", "a longer reason"), ("input_hash", "4" * 16)])

    assert screen.out.splitlines() == [
        "id:         1",
        "reason:     a longer",
        "            reason",
        "input_hash:",
        "  4444444444444444",
    ]


# --- JSON, talk and errors --------------------------------------------------------------------------


def test_a_document_is_one_line_in_a_pipe_and_indented_on_a_terminal() -> None:
    piped, terminal = Screen(json=True), Screen(json=True, terminal=True)

    piped.printer.document({"a": 1})
    terminal.printer.document({"a": 1})

    assert piped.out == '{"a":1}\n'
    assert terminal.out == '{\n  "a": 1\n}\n'


def test_an_error_is_told_on_stderr_and_as_json_on_stdout() -> None:
    screen = Screen(json=True)

    screen.printer.error(AijobsError("it \x1b[2J broke", hint="mend it"))

    assert json.loads(screen.out) == {
        "error": {"kind": "error", "message": "it \x1b[2J broke", "hint": "mend it"}
    }
    assert screen.err == "error: it \\e[2J broke\nhint: mend it\n"


LONG = AijobsError(
    "the store 服务中断🎉 in /var/lib/aijobs/a-long-name.db answers to nobody at all",
    hint="end whoever holds it (`fuser -v /var/lib/aijobs/a-long-name.db`), and try again",
)


def test_on_a_terminal_an_error_is_folded_and_what_is_to_be_copied_stays_whole() -> None:
    screen = Screen(terminal=True, environ={"COLUMNS": "30"})

    screen.printer.error(LONG)
    screen.printer.warn("a note of which not all is on one line")

    assert screen.err.splitlines() == [
        "error: the store 服务中断🎉 in",
        "       /var/lib/aijobs/a-long-name.db",
        "       answers to nobody at",
        "       all",
        "hint: end whoever holds it",
        "      (`fuser -v /var/lib/aijobs/a-long-name.db`),",
        "      and try again",
        "warning: a note of which not",
        "         all is on one line",
    ]


@pytest.mark.parametrize(
    ("terminal", "environ"),
    [(False, {"COLUMNS": "30"}), (True, {"COLUMNS": "30", "TERM": "dumb"}), (True, {})],
    ids=["piped", "dumb", "of no size"],
)
def test_elsewhere_an_error_stays_on_one_line(terminal: bool, environ: dict[str, str]) -> None:
    screen = Screen(terminal=terminal, environ=environ)

    screen.printer.error(LONG)

    assert screen.err == f"error: {LONG.message}\nhint: {LONG.hint}\n"


def test_all_faults_of_a_configuration_are_told() -> None:
    screen = Screen(json=True)
    faults = [ConfigFault(file="a.yaml", line=n, column=1, path=f"types.{n}", message="no") for n in (1, 2)]

    screen.printer.error(ConfigError(faults))

    assert screen.err.splitlines() == ["error: a.yaml:1:1: types.1: no", "error: a.yaml:2:1: types.2: no"]
    assert [fault["line"] for fault in json.loads(screen.out)["error"]["faults"]] == [1, 2]


@pytest.mark.parametrize(
    ("verbosity", "said"),
    [
        (Verbosity.QUIET, ["warning: w"]),
        (Verbosity.NORMAL, ["s", "warning: w"]),
        (Verbosity.VERBOSE, ["s", "d", "warning: w"]),
    ],
)
def test_warnings_are_said_even_when_quiet(verbosity: Verbosity, said: list[str]) -> None:
    screen = Screen(verbosity=verbosity)

    screen.printer.say("s")
    screen.printer.detail("d")
    screen.printer.warn("w")

    assert screen.err.splitlines() == said
    assert screen.out == ""


# --- Progress ---------------------------------------------------------------------------------------


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    screen = Screen()

    with screen.printer.progress("enqueue", total=1000) as progress:
        progress.advance(100)
        screen.clock.advance(seconds=10)
        progress.advance(100)
        screen.clock.advance(seconds=5)
        progress.advance(100)

    assert screen.err == "enqueue: 200 of 1,000 (20.0/s, 40s left)\n"


def test_progress_of_unknown_length_tells_the_rate() -> None:
    screen = Screen()

    with screen.printer.progress("enqueue") as progress:
        screen.clock.advance(seconds=20)
        progress.advance(50)

    assert screen.err == "enqueue: 50 so far (2.5/s)\n"


def test_progress_on_a_terminal_is_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True, monkeypatch=monkeypatch)

    with screen.printer.progress("enqueue", total=10) as progress:
        progress.advance(10)

    assert "10/10" in screen.err
    assert screen.err.endswith("\x1b[2K")
    assert screen.out == ""


def test_what_is_said_beside_a_bar_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True, monkeypatch=monkeypatch)

    with screen.printer.progress("enqueue", total=10) as progress:
        screen.printer.say("created [red]the store[/red]")
        progress.advance(10)
    screen.printer.say("afterwards")

    assert "\x1b[2Kcreated [red]the store[/red]\n" in screen.err
    assert screen.err.endswith("afterwards\n")


def test_json_on_a_terminal_has_no_bar_to_be_mixed_with(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True, json=True, monkeypatch=monkeypatch)

    with screen.printer.progress("enqueue", total=10) as progress:
        progress.advance(10)

    assert screen.err == ""


def test_quiet_has_no_progress() -> None:
    screen = Screen(verbosity=Verbosity.QUIET)

    with screen.printer.progress("enqueue", total=10) as progress:
        screen.clock.advance(seconds=60)
        progress.advance(10)

    assert screen.err == ""


# --- Questions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_a_person_on_a_terminal_is_asked(typed: str, agreed: bool) -> None:
    screen = Screen(terminal=True, typed=typed)

    assert screen.printer.confirm("Cancel 2 jobs?", yes=False) is agreed
    assert screen.err.startswith("Cancel 2 jobs? [y/N] ")


def test_yes_answers_without_asking() -> None:
    screen = Screen()

    assert screen.printer.confirm("Cancel 2 jobs?", yes=True)
    assert screen.err == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_terminal_and_without_yes_it_refuses(as_json: bool) -> None:
    screen = Screen(json=as_json)

    with pytest.raises(UsageError, match="no terminal"):
        screen.printer.confirm("Cancel 2 jobs?", yes=False)
