"""What may enter as a job's input, and how what comes back is made storable (F04, F05, F07, F08, G17)."""

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.errors import InvalidInput
from aijobs.core.payload import (
    CUT,
    check_schema,
    clean_json,
    clean_parsed,
    clean_text,
    dump_json,
    input_hash,
    parse_json,
    parse_object,
    path_text,
    schema_fault,
)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


def refusal(text: str | bytes, **limits: int) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_json(text, what="--input", **limits)
    return caught.value.message


# --- Reading: what is let in ------------------------------------------------------------------------


@given(JSON_VALUES)
def test_whatever_is_dumped_reads_back_as_the_same_value_and_the_same_text(value):
    text = dump_json(value)

    again = parse_json(text, what="x")

    assert again == value
    assert dump_json(again) == text
    assert parse_json(text.encode(), what="x") == value


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('{"t":"a\\u0000b"}', '{"t":"a\\u0000b"}'),
        ('{"t":"\\\\u0000"}', '{"t":"\\\\u0000"}'),
        ('{"k\\u0000": 1}', '{"k\\u0000":1}'),
        ("1.10", "1.1"),
        ("-0.0", "-0.0"),
        ("-0", "-0.0"),
        ("0.0e99999", "0.0"),
        ("-0e-99999999999999999999", "-0.0"),
        ("9007199254740993", "9007199254740993"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0.10000000000000001", "0.1"),
        ("5e-324", "5e-324"),
        ("1E400".replace("400", "3"), "1000.0"),
        ('"\\ud83d\\ude00"', '"😀"'),
        ("\ufeff[]", "[]"),
        ('{\r\n"a": [1,\t2]}\r\n', '{"a":[1,2]}'),
    ],
)
def test_legal_json_survives_unchanged(text, stored):
    assert dump_json(parse_json(text, what="x")) == stored
    assert dump_json(parse_json(text.encode(), what="x")) == stored


def test_the_store_keeps_a_nul_only_as_an_escape():
    assert "\x00" not in dump_json({"a\x00": "b\x00"})


# --- Reading: what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        ("{} {}", "line 1 column 4: not JSON: something follows the value"),
        ("{'a':1}", "line 1 column 2: not JSON"),
        ('{"a":01}', "line 1 column 7: not JSON"),
        ('{"a":\n ٣}', "line 2 column 2: not JSON"),
        ('{"a": 1 "b": 2}', "line 1 column 9: not JSON"),
        ('{"a": 1,}', ": not JSON"),
        ('"a\nb"', "line 1 column 3: not JSON"),
        ('{"b":1,"a":2,"b":3}', "b: the name is given twice"),
        ('{"t":[0,{"x":{"y":1,"y":2}}]}', "t[1].x.y: the name is given twice"),
        ('[{"a":NaN},{"b":1,"b":2}]', "[0].a: NaN is not a JSON number"),
        ('{"b":1,"c":{"d":Infinity},"b":2}', "c.d: Infinity is not a JSON number"),
        ("-Infinity", "top level: -Infinity is not a JSON number"),
        ("1e400", "top level: a number that would come back as another one"),
        ("-1e400", "top level: a number that would come back as another one"),
        ("1e-400", "top level: a number that would come back as another one"),
        ("1e99999999999999999999", "top level: a number that would come back as another one"),
        ("1e-99999999999999999999", "top level: a number that would come back as another one"),
        ("[" + "[]," * 200 + "[" * 100 + "]" * 100 + "]", "line 1 column 701: nested deeper than 100 levels"),
        ("9007199254740993.0", "top level: a number that would come back as another one"),
        ("3.14159265358979323846264338327950288", "top level: a number that would come back"),
        ("1" * 5000, "top level: a number of more than 1000 digits"),
        ("-" + "1" * 1000, "top level: a number of more than 1000 digits"),
        ("1." + "1" * 5000, "top level: a number of more than 1000 digits"),
        ('{"a":["ok","\\ud83d"]}', "a[1]: half a surrogate pair"),
        ('{"a":"\\uDE00\\uD83D"}', "a: half a surrogate pair"),
        ('{"\\ud800":1}', '["\ufffd"]: a name with half a surrogate pair'),
        ('{\n"a": "\udcff"}', "line 2 column 7: not UTF-8 text"),
        (b'{\n"\xc3\xa4": "\xff"}', "line 2 column 7: not UTF-8 text"),
        ('{"a":1}'.encode("utf-16"), "line 1 column 1: not UTF-8 text"),
        ("[" * 101 + "]" * 101, "line 1 column 101: nested deeper than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100 levels"),
        ("[" * 50_000, "line 1 column 101: nested deeper than 100 levels"),
        ('{"a":' * 1_000_000, "nested deeper than 100 levels"),
    ],
)
def test_what_is_not_acceptable_is_refused_with_its_place(text, said):
    message = refusal(text)

    assert message.startswith("--input: ")
    assert said in message


def test_a_size_above_the_limit_is_refused_before_anything_is_parsed():
    assert "larger than 10 bytes" in refusal("[" * 11, max_bytes=10)
    assert "larger than 10 bytes" in refusal(b"[" * 11, max_bytes=10)
    assert "larger than 10 bytes" in refusal('"äääää"', max_bytes=10)  # 7 characters, 12 bytes
    assert parse_json('"ääää"', what="x", max_bytes=10) == "ääää"


def test_nesting_at_the_limit_is_let_in_and_brackets_in_texts_do_not_count():
    assert parse_json("[" * 100 + "]" * 100, what="x")
    assert parse_json(json.dumps(["[{" * 300, '\\"[' * 300]), what="x")
    assert parse_json("[" + ",".join(["[]"] * 500) + "]", what="x")


def test_no_depth_that_a_caller_allows_reaches_the_interpreters_own_limit():
    assert "nested deeper than 400" in refusal("[" * 100_000, max_depth=1_000_000)


def test_an_unterminated_text_full_of_quotes_is_scanned_once():
    assert "not JSON" in refusal("[" * 50 + '"' + '\\"' * 500_000)
    assert "not JSON" in refusal("[" * 50 + '"' + "\\" * 500_001 + "[" * 60)


def test_an_object_with_a_million_names_is_searched_once_for_the_repeated_one():
    names = ",".join(f'"{n}":0' for n in range(200_000))

    assert "199999: the name is given twice" in refusal(f'{{{names},"199999":1}}').replace('["', "").replace(
        '"]', ""
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is an array"),
        ('"x"', "is a text"),
        ("null", "is null"),
        ("1", "is a number"),
        ("true", "is a boolean"),
    ],
)
def test_a_jobs_input_must_be_an_object(text, said):
    with pytest.raises(InvalidInput, match=said):
        parse_object(text, what="--input")

    assert parse_object('{"a":1}', what="--input") == {"a": 1}


def test_paths_are_written_as_people_write_them():
    assert path_text(["t", 3, "x"]) == "t[3].x"
    assert path_text(["a b", "c"]) == '["a b"].c'
    assert path_text(["x\n\x1b[2J"]) == '["x \ufffd[2J"]'
    assert path_text([]) == "top level"
    assert len(path_text(["n" * 10_000] * 50)) <= 600


# --- Hash -------------------------------------------------------------------------------------------


def test_the_hash_ignores_the_order_of_names_and_white_space_and_nothing_else():
    first = input_hash(parse_json('{"a": 1, "b": {"d": 2, "c": 3}}', what="x"))

    assert first == input_hash(parse_json('{"b":{"c":3,"d":2},"a":1}', what="x"))
    assert first != input_hash(parse_json('{"b":{"c":3,"d":2},"a":"1"}', what="x"))
    assert first != input_hash(parse_json('{"b":{"c":3,"d":[2]},"a":1}', what="x"))
    assert first != input_hash(parse_json('{"b":{"c":3,"d":2},"a":1.0}', what="x"))
    assert len(first) == 64


# --- Results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("ok \ud83d", '"ok \ufffd"'),
        ({"\udcff": ["a\x00b"]}, '{"\ufffd":["a\\u0000b"]}'),
        ([float("nan"), float("inf"), float("-inf"), 1.5], "[null,null,null,1.5]"),
        ((1, True, None), "[1,true,null]"),
        ({}, "{}"),
    ],
)
def test_a_result_is_made_storable(value, stored):
    assert clean_json(value) == stored


@given(JSON_VALUES)
def test_a_result_that_is_in_order_is_kept_as_it_is(value):
    assert clean_json(value) == dump_json(value)


@given(JSON_VALUES, st.integers(1024, 3000))
def test_a_result_never_exceeds_its_limit_and_stays_json(value, limit):
    text = clean_json([value, "x" * 900, value, "\x00é\ud800" * 300, {"k" * 500: value}], max_bytes=limit)

    assert len(text.encode()) <= limit
    json.loads(text)


@given(JSON_VALUES, st.integers(1024, 3000), st.integers(1, 6))
def test_a_parsed_value_is_made_storable_in_the_same_way_as_any(value, max_bytes, max_depth):
    for one in (value, [value] * 50, [value, "\ud800", float("nan")], ["x" * 900, value]):
        quick = clean_parsed(one, max_bytes=max_bytes, max_depth=max_depth)

        assert quick == clean_json(one, max_bytes=max_bytes, max_depth=max_depth)


def test_a_result_above_the_limit_is_cut_and_says_so():
    result = json.loads(clean_json({"id": 7, "text": "ä" * 5000, "rest": [1, 2]}, max_bytes=2000))

    assert result["aijobs_truncated"] == {"max_bytes": 2000, "max_depth": 100}
    assert result["partial"]["id"] == 7
    assert result["partial"]["text"].startswith("äää")
    assert result["partial"]["text"].endswith("…")
    assert "rest" not in result["partial"]


def test_a_result_with_too_many_or_too_deep_parts_is_cut_and_says_so():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    shared: list[object] = ["x"]
    for _ in range(90):
        shared = [shared, shared]
    loop: list[object] = []
    loop.append(loop)

    for value in (deep, loop, shared, [0] * 10_000, [[]] * 10_000, {str(n): n for n in range(9999)}):
        text = clean_json(value, max_bytes=4096)

        assert "aijobs_truncated" in text
        assert len(text.encode()) <= 4096


def test_a_result_is_cut_exactly_where_it_is_too_deep():
    def nest(depth: int, *, names: bool) -> object:
        value: object = 1
        for _ in range(depth):
            value = {"a": value} if names else [value]
        return value

    for names in (True, False):
        assert "aijobs_truncated" not in clean_json(nest(100, names=names))
        cut = clean_json(nest(101, names=names))
        assert "aijobs_truncated" in cut
        assert "nested deeper than this" in cut


def test_an_integer_too_long_to_print_does_not_stop_a_result():
    assert "aijobs_truncated" in clean_json({"n": 10**50_000})


@pytest.mark.parametrize("value", [object(), {1: 2}, [b"x"], {"a": {2}}])
def test_what_json_cannot_say_is_no_result(value):
    with pytest.raises(InvalidInput, match="not a JSON value"):
        clean_json(value)
    with (
        pytest.raises(InvalidInput, match="not a JSON value")
        if value != {1: 2}
        else pytest.raises(InvalidInput)
    ):
        dump_json(value if value != {1: 2} else "\ud800")


def test_dumping_refuses_what_has_no_text():
    loop: list[object] = []
    loop.append(loop)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    for value in (loop, deep, float("nan"), float("inf"), "\udc00", 10**5000):
        with pytest.raises(InvalidInput, match="not a JSON value"):
            dump_json(value)


# --- Plain text -------------------------------------------------------------------------------------


def test_plain_text_is_one_harmless_line():
    hostile = "x\nINFO job 7 completed\r\n\x1b[2J\u202eabc\x00\x07\u2028\ud83d\x9b\u200b"

    assert (
        clean_text(hostile, 1000)
        == "x INFO job 7 completed \ufffd[2J\ufffdabc\ufffd\ufffd \ufffd\ufffd\ufffd"
    )


@given(st.text(), st.integers(0, 60))
def test_plain_text_never_exceeds_its_limit_and_is_stable(text, limit):
    cleaned = clean_text(text, limit)

    assert len(cleaned.encode()) <= limit
    assert clean_text(cleaned, limit) == cleaned


def test_plain_text_that_was_cut_says_so():
    assert clean_text("ä" * 100, 60).endswith(CUT)
    assert clean_text("ä" * 30, 60) == "ä" * 30
    assert clean_text("a" * 1_000_000, 2048).endswith(CUT)


# --- Schema -----------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "required": ["text", "n"],
    "properties": {"text": {"type": "string"}, "list": {"items": {"enum": ["a", "b"]}}, "n": {"maximum": 3}},
    "additionalProperties": False,
}


def test_a_value_is_checked_against_a_schema_without_repeating_the_value():
    value = {"text": ["secret text"], "list": ["a", "secret item"], "n": 7, "more": "secret"}

    faults = check_schema(value, SCHEMA)

    assert sorted(faults) == [
        'list[1]: breaks the rule enum: ["a", "b"]',
        "n: breaks the rule maximum: 3",
        "text: must be of type string, and is an array",
        "top level: breaks the rule additionalProperties: false",
    ]
    assert check_schema({}, SCHEMA) == ["top level: lacks text, n"]
    assert check_schema({"text": "x", "n": 1}, SCHEMA) == []


def test_many_faults_are_not_listed_without_end():
    assert len(check_schema(list(range(1000)), {"items": {"type": "string"}})) == 20


def test_a_schema_reference_is_never_fetched():
    schema = {
        "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}, "b": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {}},
    }

    assert check_schema({"b": 1}, schema) == []
    assert check_schema({"a": 1}, schema) == ["top level: the schema refers to something that is not in it"]


def test_a_schema_that_calls_itself_for_ever_is_a_fault_and_no_crash():
    assert check_schema(1, {"$ref": "#"}) == [
        "top level: the schema and the value are nested too deep to compare"
    ]


def test_a_bad_schema_is_told_from_a_good_one():
    assert schema_fault(SCHEMA) is None
    assert "type" in (schema_fault({"type": "strin"}) or "")
    assert "properties.a.maximum" in (schema_fault({"properties": {"a": {"maximum": "x"}}}) or "")
    assert "is an array" in (schema_fault([]) or "")


def test_a_nest_of_any_depth_is_either_read_or_refused_never_a_crash():
    for depth in (1, 99, 100, 101, 399, 400, 401, 900, 1100, 20_000):
        for shape, end in (("[", "]"), ('{"a":', "}")):
            text = shape * depth + "1" + end * depth
            if depth <= 400:
                assert parse_json(text, what="x", max_depth=400)
            else:
                assert "nested deeper" in refusal(text, max_depth=400)


def test_names_of_a_cut_object_stay_distinct_or_go():
    value = {f"{n}{'k' * 300}": n for n, _ in zip(count(), range(50), strict=False)}

    assert json.loads(clean_json(value, max_bytes=2048))["aijobs_truncated"]
