"""Prompt templates: they compute text from the input, and can do nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from aijobs.core.errors import InvalidInput
from aijobs.core.prompt import check, render


@pytest.mark.parametrize(
    ("template", "data", "expected"),
    [
        ("Summarize: {{ text }}", {"text": "一段 🎉"}, "Summarize: 一段 🎉"),
        ("{{ text }}", {"text": "{{ other }} {% x %}"}, "{{ other }} {% x %}"),
        ("{{ input.text }}", {"text": "whole input"}, "whole input"),
        ("{{ order.items }}", {"order": {"items": [1, "é"]}}, '[1, "é"]'),
        (
            "{{ a }} {{ b }} {{ c }} {{ d }}",
            {"a": True, "b": None, "c": {"k": 1.5}, "d": 7},
            'true  {"k": 1.5} 7',
        ),
        ("{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", {"m": {"a": 1, "b": 2}}, "a=1;b=2;"),
        ("{{ m | tojson }}", {"m": {"t": "<b>&'"}}, '{"t": "<b>&\'"}'),
        ("{{ t | replace('a', 'b') | upper }}", {"t": "aXa"}, "BXB"),
        ("{{ t | indent(2) }}", {"t": "a\nb"}, "a\n  b"),
        ("{{ missing | default('none') }}", {}, "none"),
        ("{{ self }}{{ x }}", {"x": 1}, None),
        ("{{ a }}\n", {"a": "kept newline"}, "kept newline\n"),
        ("<{{ a }}>", {"a": "<not escaped>"}, "<<not escaped>>"),
    ],
)
def test_a_template_is_filled_from_the_input(
    template: str, data: Mapping[str, Any], expected: str | None
) -> None:
    if expected is None:
        with pytest.raises(InvalidInput):
            render(template, data)
    else:
        assert render(template, data) == expected


@pytest.mark.parametrize(
    ("template", "data", "named"),
    [
        ("{{ text }}", {}, "'text' is undefined"),
        ("{{ m.nope }}", {"m": {}}, "no attribute 'nope'"),
        ("{% for x in texts %}{{ x }}{% endfor %}", {}, "'texts' is undefined"),
    ],
)
def test_a_name_the_input_lacks_is_an_error_that_names_it(
    template: str, data: Mapping[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInput, match=named):
        render(template, data)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}",
        "{{ input.__class__ }}",
        "{{ x.__init__.__globals__ }}",
        "{{ x | attr('__class__') }}",
        "{{ x.append(1) }}",
        "{{ m.clear() }}",
        "{{ m.update(a=1) }}",
        "{{ self._TemplateReference__context }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{{ lipsum() }}",
        "{{ [1, 2] | random }}",
        "{{ range }}",
        "{{ x.append }}",
    ],
)
def test_a_template_cannot_reach_out_of_the_sandbox(template: str) -> None:
    data = {"x": [1], "m": {"k": 1}}

    with pytest.raises(InvalidInput):
        render(template, data)

    assert data == {"x": [1], "m": {"k": 1}}


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * [1] }}",
        "{{ 2 ** 1000000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 'x'.ljust(1000000000) }}",
        "{{ ('x' * 9999) | replace('x', 'y' * 9999) }}",
        "{{ 'x' | indent(1000000000, true) }}",
        "{{ range(1000000000) | list }}",
        "{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}",
    ],
)
def test_a_template_cannot_grow_without_end(template: str) -> None:
    with pytest.raises(InvalidInput):
        render(template, {})


def test_the_size_of_a_prompt_is_bounded_in_bytes() -> None:
    assert render("{{ t }}", {"t": "é" * 5}, most_bytes=10) == "é" * 5

    with pytest.raises(InvalidInput, match="longer than 10 bytes"):
        render("{{ t }}x", {"t": "é" * 5}, most_bytes=10)


def test_an_error_never_repeats_the_input() -> None:
    secret = "sk-demo-0123456789abcdef"

    for template in ("{{ a + 1 }}", "{{ m.x[a] }}", "{{ m[a] }}", "{{ a.b }}", "{{ a() }}"):
        with pytest.raises(InvalidInput) as refused:
            render(template, {"a": secret, "m": {}})
        assert secret not in f"{refused.value} {refused.value.hint}"
        assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ text }}", None),
        ("{% if a %}x{% endif %}", None),
        ("{{ text", "line 1: unexpected end of template"),
        ("a\n{% if %}", "line 2"),
        ("{{ x | nofilter }}", "No filter named 'nofilter'"),
        ("{{ x | random }}", "No filter named 'random'"),
        ("{% include 'x' %}", "include"),
        ("{% if a %}{% import 'x' as y %}{% endif %}", "import"),
        ("{% from 'x' import y %}", "from ... import"),
        ("{% extends 'x' %}", "extends"),
        ("{{ " + "(" * 5000, ""),
    ],
)
def test_a_template_is_checked_without_being_rendered(template: str, fault: str | None) -> None:
    found = check(template)

    assert found is None if fault is None else found is not None and fault in found
