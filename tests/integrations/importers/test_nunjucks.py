"""Templates of promptfoo are rendered without running code: the same text as Nunjucks, or a refusal."""

from typing import Any

import pytest

from assay.integrations.importers.nunjucks import MAX_STEPS, TemplateRefused, is_template, names_in, render

VALUES = {
    "name": "bo",
    "n": 3,
    "half": 2.5,
    "whole": 4.0,
    "yes": True,
    "none": None,
    "options": ["x", "y"],
    "deep": {"a": [{"b": "c"}]},
    "padded": " a  b ",
    "empty": "",
    "markup": "<b>a</b> & b",
    "numbers": [3, 1, 2],
    "json": '{"k": [1]}',
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("Hi {{ name }}", "Hi bo"),
        ("{{name}}{{ n }}{{half}}{{whole}}{{yes}}{{none}}", "bo32.54true"),
        ("{{ options }} {{ deep }} {{ deep.a }}", 'x,y {"a":[{"b":"c"}]} [{"b":"c"}]'),
        ("{{ deep.a[0].b }} {{ options[1] }} {{ options.length }}", "c y 2"),
        ("{{ name | upper }} {{ 'A' | lower }} {{ padded | trim }}", "BO a a  b"),
        ("{{ name | capitalize }} {{ 'a bc' | title }} {{ name | replace('o', 'e') }}", "Bo A Bc be"),
        ("{{ options | join(', ') }} {{ options | first }} {{ options | last }} {{ options | length }}", "x, y x y 2"),
        ("{{ empty | default('d') }}{{ missing | default('d') }}{{ empty | default('e', true) }}", "de"),
        ("{{ deep | dump }} {{ 'q' | dump }} {{ deep | dump(1) | length }}", '{"a":[{"b":"c"}]} "q" 34'),
        ("{{ (json | load).k[0] }}", "1"),
        ("{{ numbers | sort | join }} {{ numbers | reverse | join }} {{ numbers | sum }}", "123 213 6"),
        ("{{ half | round }} {{ half | round(0, 'floor') }} {{ '7' | int + 1 }} {{ 'x' | int(9) }}", "3 2 8 9"),
        ("{{ markup | escape }} {{ markup | striptags }} {{ markup | safe }}", "&lt;b&gt;a&lt;/b&gt; &amp; b a & b <b>a</b> & b"),
        ("{{ 'a b c' | wordcount }} {{ 'a b c' | truncate(3) }} {{ 'a b' | urlencode }}", "3 a... a%20b"),
        ("{{ 'a\\nb' | indent(2) }} {{ 'a\\nb' | nl2br }}", "a\n  b a<br />\nb"),
        ("{% if n > 2 %}big{% else %}small{% endif %}", "big"),
        ("{% if name === 'x' %}1{% elseif name == 'bo' %}2{% endif %}{{ 'ne' if name !== 'x' else 'eq' }}", "2ne"),
        ("{% if options %}{% if empty %}e{% endif %}t{% endif %}{% if missing is defined %}d{% endif %}", "t"),
        ("{% if name in ['bo'] and not empty %}in{% endif %}{{ empty or name }}{{ name and n }}", "inbo3"),
        ("{% for o in options -%}\n{{ loop.index }}. {{ o }}{{ ',' if not loop.last }}\n{% endfor %}", "1. x,\n2. y\n"),
        ("{% for k, v in deep %}{{ k }}{% endfor %}{% for x in missing %}a{% else %}none{% endfor %}", "anone"),
        ("{% for i in range(2) %}{{ i }}{% endfor %}{% set z = name ~ '!' %}{{ z }}", "01bo!"),
        ("{{ n + 1 }} {{ name + n }} {{ n * 2 - 1 }} {{ 7 // 2 }} {{ -n }}", "4 bo3 5 3 -3"),
        ("{# note #}{% raw %}{{ name }}{% endraw %}", "{{ name }}"),
        ("line\n", "line\n"),
    ],
)
def test_a_template_becomes_the_text_that_nunjucks_makes(template: str, text: str) -> None:
    assert render(template, VALUES) == (text, [])


def test_a_variable_without_a_value_stays_in_sight_and_is_named() -> None:
    assert render("{{ a }} {{ deep.z }} {{ a | upper }}{{ env.KEY }}", VALUES) == (
        "{{a}} {{deep.z}} {{env.KEY}}",
        ["a", "deep.z", "a", "env.KEY"],
    )


@pytest.mark.parametrize("text", ["a {{ b", "{% if", "{{ a\n}}", "100 %} {", "{# open"])
def test_half_a_tag_is_text_as_in_promptfoo(text: str) -> None:
    assert not is_template(text)
    assert render(text, VALUES) == (text, [])


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% macro m() %}{% endmacro %}",
        "{{ name.upper() }}",
        "{{ cycler('a') }}",
        "{{ name | nope }}",
        "{{ name | attr('__class__') }}",
        "{{ name[0:2] }}",
        "{{ name | replace }}",
        "{% if %}x{% endif %}",
        "{{ n / 0 }}",
        "{{ name - 1 }}",
        "{{ name < n }}",
        "{{ range(9999999) }}",
        "{% for a, b in options %}{% endfor %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ name is callable }}",
        "{% for x in options if x %}{% endfor %}",
        "{{ '{' | load }}",
    ],
)
def test_anything_else_is_refused(template: str) -> None:
    with pytest.raises(TemplateRefused):
        render(template, VALUES)


@pytest.mark.parametrize("path", ["name.__class__", "deep.__init__", "options.append", "deep['a'].__len__"])
def test_no_attribute_of_an_object_is_reached(path: str) -> None:
    _, missing = render(f"{{{{ {path} }}}}", VALUES)
    assert missing


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}", {}),
        ("{% for i in r %}{{ r | sort }}{% endfor %}", {"r": list(range(MAX_STEPS // 4))}),
        ("{{ t | replace('', t) }}", {"t": "x" * 100_000}),
        ("{{ t | replace('x', t) }}", {"t": "x" * 100_000}),
        ("{{ r | join(t) }}", {"r": ["a"] * 1_000, "t": "x" * 100_000}),
        ("{% for a in r %}{{ t }}{% endfor %}", {"r": list(range(100)), "t": "x" * 100_000}),
        ("{% set a = t ~ t %}" * 20 + "{{ a }}", {"t": "x" * 1_000_000}),
        ("{% if x %}" * 2_000 + "{% endif %}" * 2_000, {"x": 1}),
    ],
)
def test_a_template_that_grows_is_refused(template: str, values: dict[str, Any]) -> None:
    with pytest.raises(TemplateRefused):
        render(template, values)


def test_the_words_in_the_tags_hold_the_names_of_all_variables() -> None:
    assert names_in("{{ a.b | upper }} c {% for d in e %}{% endfor %}") >= {"a", "d", "e"}
    assert "c" not in names_in("{{ a }} c")
