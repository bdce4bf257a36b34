"""The records of a run as a dataset of MLflow."""

import json
from pathlib import Path
from typing import Any

from tests.integrations.mlflow.pushing import golden_run, pushed
from tests.integrations.mlflow.serving import MlflowServer


def test_the_dataset_is_known_by_its_records_and_not_by_its_name(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    runs = [golden_run(one, "a"), golden_run(one, "b", model="scripted/say-5"), golden_run(other, "c", limit=3)]
    stored = [client.get_run(pushed(run, server.uri, "datasets").mlflow_run_id) for run in runs]
    same, again, less = ([given.dataset.digest for given in run.inputs.dataset_inputs] for run in stored)
    assert (same == again, same == less, len(same)) == (True, False, 1)
    datasets = client.search_datasets([stored[0].info.experiment_id])
    profiles = [json.loads(client.get_dataset(found.dataset_id).profile) for found in datasets]
    assert sorted(profile["num_records"] for profile in profiles) == [3, 5]
