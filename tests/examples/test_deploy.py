"""The deployment that is shipped: its commands and variables are those that the program knows."""

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from assay.surfaces.cli.program import program

FOLDER = Path(__file__).parents[2] / "examples" / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
OURS = sorted(name for name, service in COMPOSE["services"].items() if service["image"] == "assay")


def command_of(service: str) -> tuple[click.Command, list[str]]:
    name, *arguments = COMPOSE["services"][service]["command"]
    context = click.Context(program)
    found = program.get_command(context, name)
    assert found is not None
    return found, arguments


def variables(command: click.Command) -> set[str]:
    return {option.envvar for option in command.params if isinstance(option, click.Option) and isinstance(option.envvar, str)}


def test_the_service_and_the_workers_are_ours() -> None:
    assert OURS == ["service", "worker"]


@pytest.mark.parametrize("service", OURS)
def test_the_command_of_a_container_is_one_that_the_program_takes(service: str) -> None:
    command, arguments = command_of(service)
    given: dict[str, Any] = command.make_context(command.name, arguments, resilient_parsing=False).params
    assert set(given) >= {"runs_dir", "ledger"}


@pytest.mark.parametrize("service", OURS)
def test_every_variable_of_a_container_is_one_that_its_command_reads(service: str) -> None:
    command, _ = command_of(service)
    assert set(COMPOSE["services"][service]["environment"]) <= variables(command)


def test_only_workers_have_the_keys_of_providers() -> None:
    assert [name for name, service in COMPOSE["services"].items() if "env_file" in service] == ["worker"]


def test_nothing_listens_beyond_the_machine_unless_somebody_decides_so() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports == ["127.0.0.1:8321:8321"]
