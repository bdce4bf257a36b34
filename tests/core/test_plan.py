"""Sections of a plan: the defaults of the settings, and what a plan states."""

import msgspec
import pytest

from assay.core.plan import Plan
from assay.core.settings import PanelSection, RunFile, RunSection, stated

DECIDED = {"datasets", "judges", "providers", "on_invalid", "batch", "retention", "response_source", "strict_parameters", "group"}
"""Settings that planning turns into something else."""


@pytest.mark.parametrize("section", [RunFile, RunSection])
def test_a_plan_has_the_defaults_of_the_settings(section: type[msgspec.Struct]) -> None:
    planned = {field.name: field.default for field in msgspec.structs.fields(Plan)}
    same = {field.name: field.default for field in msgspec.structs.fields(section) if field.name in planned.keys() - DECIDED}
    assert len(same) >= 10
    assert {name: planned[name] for name in same} == same


def test_a_section_of_a_plan_states_its_numbers_even_if_they_are_the_defaults() -> None:
    assert msgspec.to_builtins(PanelSection()) == {}
    assert msgspec.to_builtins(stated(PanelSection())) == {"min_confidence": 0.7}
