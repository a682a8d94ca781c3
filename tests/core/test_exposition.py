"""The text format: what Prometheus would refuse as a whole must never be written."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aijobs.core.exposition import counter, gauge, histogram, render


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("value", ['we"ird', "C:\\", "two\nlines", "{}", "trailing\\", "größe 🦊", ',="', ""])
def test_every_label_value_comes_back_as_it_was(value):
    text = render([gauge("m", "h", [({"type": value}, 1)])])

    assert parsed(text) == {("m", (("type", value),)): 1}


def test_a_help_text_of_many_lines_stays_one_line():
    text = render([gauge("m", 'two\nlines, a \\ and a "', [({}, 1)])])

    (family,) = text_string_to_metric_families(text)
    assert family.documentation == 'two\nlines, a \\ and a "'
    assert text.count("\n") == 3


def test_the_text_ends_with_a_newline_and_numbers_have_a_point():
    text = render([gauge("m", "h", [({"n": "1"}, 0.5), ({"n": "2"}, 3.0), ({"n": "3"}, math.inf)])])

    assert text.endswith('m{n="1"} 0.5\nm{n="2"} 3\nm{n="3"} +Inf\n')


def test_what_is_not_known_is_left_out():
    assert parsed(render([gauge("m", "h", [({"n": "1"}, None), ({"n": "2"}, 0)])])) == {
        ("m", (("n", "2"),)): 0
    }


def test_the_buckets_of_a_histogram_add_up_and_end_with_all():
    text = render([histogram("m", "h", [({"type": "t"}, {"0.5": 1, "+Inf": 2}, 9.5)], (0.5, 1.0))])

    found = parsed(text)
    assert [found["m_bucket", (("le", bound), ("type", "t"))] for bound in ("0.5", "1", "+Inf")] == [1, 1, 3]
    assert (found["m_count", (("type", "t"),)], found["m_sum", (("type", "t"),)]) == (3, 9.5)


def test_a_line_given_twice_and_a_name_that_is_none_are_refused():
    with pytest.raises(ValueError, match="twice"):
        render([counter("m_total", "h", [({"a": "1"}, 1), ({"a": "1"}, 2)])])
    with pytest.raises(ValueError, match="not a name"):
        render([counter("m-total", "h", [])])
    with pytest.raises(ValueError, match="not a name"):
        render([counter("m_total", "h", [({"a-b": "1"}, 1)])])
