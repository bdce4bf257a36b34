"""YAML texts for those who rarely get one: the door for them is loaded with the first."""

from importlib import import_module

from assay.core.strict_json import Document

MAX_YAML_BYTES = 8 << 20
"""Bytes of one YAML text (characters of a str)."""


def parse_yaml(data: bytes | str) -> Document:
    """What `yaml_door.parse_yaml` makes of a text."""
    document: Document = import_module("assay.datasets.parsing.strict_yaml").parse_yaml(data)
    return document
