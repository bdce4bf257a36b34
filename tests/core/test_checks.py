from typing import get_args

import msgspec
import pytest

from assay.core.checks import (
    Check,
    CheckType,
    ContainsCheck,
    EqualsCheck,
    IsJsonCheck,
    LengthCheck,
    NumberCheck,
    merged_checks,
    named_checks,
)


def test_every_type_has_a_struct_that_its_name_chooses() -> None:
    structs = {struct.__struct_config__.tag: struct for struct in get_args(Check)}
    assert tuple(structs) == get_args(CheckType)
    made = {"type": "length", "max": 3}
    assert msgspec.convert(made, Check) == LengthCheck(max=3)  # type: ignore[call-overload]


def test_a_check_is_called_by_its_type_and_a_second_one_gets_a_number() -> None:
    named = named_checks((ContainsCheck(any=("a",)), ContainsCheck(any=("b",)), EqualsCheck(name="contains-2"), ContainsCheck()))
    assert [check.name for check in named] == ["contains", "contains-3", "contains-2", "contains-4"]


def test_a_records_own_check_takes_the_place_of_the_runs_check_of_its_name() -> None:
    run = (EqualsCheck(name="exact"), LengthCheck(name="short", max=10))
    own = (LengthCheck(name="short", max=99), IsJsonCheck(name="json"))
    assert merged_checks(run, own) == (run[0], own[0], own[1])
    assert merged_checks(run, ()) == run


@pytest.mark.parametrize(
    ("check", "needs"),
    [
        (EqualsCheck(), True),
        (EqualsCheck(value=None), False),
        (ContainsCheck(), True),
        (ContainsCheck(none=("a",)), False),
        (NumberCheck(value=0.0), False),
        (IsJsonCheck(), False),
    ],
)
def test_a_check_without_a_value_needs_references(check: EqualsCheck, *, needs: bool) -> None:
    assert check.needs_references is needs


def test_a_check_is_written_as_it_was_given() -> None:
    assert msgspec.to_builtins(EqualsCheck(value="Paris")) == {"type": "equals", "value": "Paris"}
