"""Prompt templates: they compute text from the input, and can do nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from aijobs.core import prompt_budget
from aijobs.core.errors import InvalidInput
from aijobs.core.prompt import check, render

grown = (
    "{{% set n = namespace(x={first}) %}}{{% for i in range(60) %}}{{% set n.x = {value} %}}{{% endfor %}}"
)


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
        "{{ cycler('a').__init__.__globals__ }}",
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


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for x in [1, 2] recursive %}{% if loop.depth < 99 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}{{ 'x' * 9000 }}{% endfor %}{% endset %}{{ x | length }}",
        "{% set x %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}{{ x | length }}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% set y = s.upper() %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% set y = s[1:] %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% if s == t %}{% endif %}{% endfor %}",
        "{% set l = range(99999) | list %}{% for i in l %}{% if 'x' in l %}{% endif %}{% endfor %}",
    ],
)
def test_a_template_cannot_work_without_end(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_budget, "WORK", 20_000_000)  # as much is refused, only sooner

    with pytest.raises(InvalidInput, match="asks for too much"):
        render(template, {"t": "x" * 9_000_000})


@pytest.mark.parametrize(
    "template",
    [
        grown.format(value="n.x + n.x", first="'x'"),
        grown.format(value="n.x ~ n.x", first="'x'"),
        grown.format(value="n.x * n.x", first="99"),
        grown.format(value="n.x.join(['y'] * 99)", first="'x'"),
        grown.format(value="(n.x, n.x)", first="1") + "{{ {n.x: 1} | length }}",
        grown.format(value="[n.x, n.x]", first="1") + "{{ n.x == [1] }}",
        grown.format(value="[n.x, n.x]", first="1") + "{{ n.x | string | length }}",
        grown.format(value="[n.x, n.x]", first="1") + "{{ n.x }}",
        "{{ [1] | batch(1000000000, 'x') | list | length }}",
        "{{ [1] | slice(1000000000) | list | length }}",
        "{{ range(99999) | join('x' * 99999) | length }}",
        "{{ {'a': 1} | tojson(indent=1000000000) | length }}",
        "{{ 5 | round(-1000000000) }}",
        "{{ 5 | round(1000000000, 'ceil') }}",
        "{{ ('a ' * 99999) | wordwrap(1, wrapstring='x' * 99999) | length }}",
        "{{ ('<!---->' * 40000) | striptags }}",
        "{{ [[1], [2]] | sum(start=[]) }}",
        "{{ ('<' * 200000) | forceescape | length }}",
    ],
)
def test_no_step_of_a_template_can_make_much_of_little(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_budget, "LONGEST", 400_000)

    with pytest.raises(InvalidInput):
        render(template, {})


def test_a_long_input_is_gone_through_a_hundred_times_without_reaching_a_bound() -> None:
    data = {"orders": [{"id": number, "text": "word " * 100} for number in range(200)]}
    template = (
        "{% for o in orders %}{{ orders | selectattr('id', 'eq', o.id) | map(attribute='id') | join(',') }} "
        "{% for p in orders if p.id < o.id %}{{ loop.index }}{% endfor %}{% endfor %}"
    )

    assert render(template, data).startswith("0 1 12 123 ")


def test_what_one_rendering_spends_is_not_missing_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_budget, "WORK", 3_000_000)

    for _ in range(3):
        assert render("{% for i in range(5000) %}{% endfor %}done", {}) == "done"


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
        ("{{ 3.٣ }}", "cannot be compiled"),
        ("{% macro f(a, a) %}{% endmacro %}", "cannot be compiled"),
        ("{{ f(a=1, a=2) }}", "cannot be compiled"),
        ("{{ " + "9" * 5000 + " }}", "cannot be compiled"),
    ],
)
def test_a_template_is_checked_without_being_rendered(template: str, fault: str | None) -> None:
    found = check(template)

    assert found is None if fault is None else found is not None and fault in found


def test_an_error_quotes_a_template_only_so_far_and_on_one_line() -> None:
    for template in ("{% macro" + "9" * 9999 + " %}", "{{ x | a\u200b }}", "{{ " + "y" * 9999 + " }}"):
        with pytest.raises(InvalidInput) as refused:
            render(template, {"x": 1})
        assert len(refused.value.message) < 600
        assert "\u200b" not in refused.value.message
        assert len(check(template) or "") < 600
