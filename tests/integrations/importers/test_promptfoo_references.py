"""References of a config are followed, in itself and in files next to it, as far as they lead somewhere."""

from pathlib import Path
from typing import Any

import pytest

from assay.datasets.imports.items import ImportSource, ImportState
from assay.integrations.importers.promptfoo_files import ConfigFiles
from assay.integrations.importers.promptfoo_references import MAX_NODES, ReferenceResolver


def resolved(document: Any) -> tuple[Any, dict[str, int]]:
    Path("promptfooconfig.yaml").touch()
    reading = ImportState()
    files = ConfigFiles(ImportSource("promptfooconfig.yaml"), reading)
    return ReferenceResolver(document, files).resolve(document), dict(reading.left_out)


def test_a_reference_is_what_it_points_at_and_members_next_to_it_count_more() -> None:
    document = {"defs": {"a b": [{"x": 1, "y": {"$ref": "#/defs/z~1"}}], "z/": 3}, "use": {"$ref": "#/defs/a%20b/0", "x": 2}}
    assert resolved(document)[0]["use"] == {"x": 2, "y": 3}


def test_references_lead_into_files_and_on_from_there() -> None:
    Path("deep").mkdir()
    Path("deep/a.yaml").write_text("one: {$ref: '#/two'}\ntwo: {$ref: 'b.json#/k'}\n")
    Path("deep/b.json").write_text('{"k": [1]}')
    assert resolved({"use": {"$ref": "deep/a.yaml#/one"}, "also": {"$ref": "file://deep/b.json"}})[0] == {
        "use": [1],
        "also": {"k": [1]},
    }


@pytest.mark.parametrize(
    ("reference", "loss"),
    [
        ("#/none", "$ref that leads nowhere"),
        ("#/use", "$ref that leads to itself"),
        ("http://localhost:1/x#/a", "$ref to another host"),
        ("none.yaml#/a", "file:// that cannot be read"),
        ("../x.yaml", "file:// outside of the config's folder"),
    ],
)
def test_any_other_reference_stays_and_is_listed(reference: str, loss: str) -> None:
    document = {"use": {"$ref": reference}}
    found, left_out = resolved(document)
    assert (found, left_out) == (document, {loss: 1})


def test_references_that_multiply_come_to_an_end() -> None:
    document: dict[str, Any] = {"d0": [1] * 10, **{f"d{n}": [{"$ref": f"#/d{n - 1}"}] * 10 for n in range(1, 12)}}

    def size(value: Any) -> int:
        return 1 + sum(map(size, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()))

    assert size(resolved(document)[0]) < 20 * MAX_NODES
