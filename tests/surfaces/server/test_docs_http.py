"""The pages about the server say what the code says."""

from pathlib import Path

import msgspec
from msgspec import inspect

from assay.surfaces.server.app import addresses
from assay.surfaces.server.openapi import reference
from assay.surfaces.server.settings import ServerSettings
from tests.regenerating import check_file

DOCS = Path(__file__).parents[3] / "docs"


def settings_table() -> str:
    """The settings of a service as a table."""
    info = inspect.type_info(ServerSettings)
    assert isinstance(info, inspect.StructType)
    rows = []
    for field in info.fields:
        assert isinstance(field.type, inspect.Metadata)
        said = (field.type.extra_json_schema or {})["description"]
        shown = f"`{msgspec.json.encode(field.default).decode()}`" if field.default else ""
        rows.append(f"| `{field.name}` | {said} | {shown} |")
    return "\n".join(rows)


def test_reference_page_is_that_of_the_openapi_document() -> None:
    check_file(DOCS / "reference" / "http.md", reference(addresses()))


def test_every_setting_is_documented() -> None:
    page = (DOCS / "how-to" / "operate-a-server.md").read_text(encoding="utf-8")
    assert settings_table() in page
