"""One MLflow server for all tests; each pushes into an experiment of its own."""

import os
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.integrations.mlflow.serving import MlflowServer


@pytest.fixture(scope="session")
def mlflow() -> Any:
    """The library; its own import warns of what other libraries have deprecated."""
    if find_spec("mlflow") is None and not os.environ.get("CI"):
        pytest.skip("MLflow is not installed")
    # It would tell its makers what is used.
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module("mlflow")


@pytest.fixture(scope="session")
def server(mlflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:  # noqa: ARG001  # skips without it
    with MlflowServer(tmp_path_factory.mktemp("mlflow")) as serving:
        yield serving


@pytest.fixture(scope="session")
def client(mlflow: Any, server: MlflowServer) -> Any:
    return mlflow.MlflowClient(server.uri)
