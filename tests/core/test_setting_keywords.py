"""Settings as keyword arguments of Python."""

from pathlib import Path
from typing import get_type_hints

from assay.core.setting_keywords import SettingKeywords
from assay.core.settings import run_settings

TYPING = Path(__file__).parents[1] / "typing" / "public_api.py"


def test_every_setting_is_a_keyword_and_there_is_no_other() -> None:
    assert list(SettingKeywords.__annotations__) == list(run_settings())


def test_every_keyword_may_be_none_which_leaves_the_setting_as_it_is() -> None:
    hints = get_type_hints(SettingKeywords)
    assert [name for name, kind in hints.items() if type(None) not in kind.__args__] == []


def test_a_setting_has_the_type_that_it_takes() -> None:
    hints = {name: str(kind) for name, kind in SettingKeywords.__annotations__.items()}
    assert hints["limit"] == "int | None"
    assert hints["max_cost"] == "float | None"
    assert hints["runs_dir"] == "str | pathlib.Path | None"
    assert "'reject', 'skip'" in hints["on_invalid"]
    assert hints["check_gates"].startswith("collections.abc.Mapping[str, float]")
