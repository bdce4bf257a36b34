"""The records of a run as an evaluation dataset of MLflow, which is known by what it holds and not by what it is called."""

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from assay import api
from assay.core.canonical import sha256_hex
from assay.integrations.mlflow.traces import expectations_of, inputs_of
from assay.integrations.mlflow.tracking import TrackedRun, TrackingConnection

Json = dict[str, Any]
DIGEST = 32
"""Digits of the hash that fit into MLflow's digest."""
AT_ONCE = 200
"""Records in one request."""
LONGEST_NAME = 200
CONTENT_TAG = "assay.records_sha256"
_UNQUOTABLE = re.compile(r"[\"'`\\]")


class EvaluationDataset(msgspec.Struct, frozen=True):
    """Names of a run's dataset in MLflow."""

    dataset_id: str
    name: str
    digest: str
    records: int


def push_dataset(run: api.RunReader, tracking: TrackingConnection, target: TrackedRun) -> EvaluationDataset:
    """Keep the records of a run as a dataset, once for all runs over the same ones, and name it as the run's input."""
    # Sorted, so that the order of the records does not matter; hashes are of the records as they were graded.
    hashes = sorted({line.record_sha256 for line in run.predictions()})
    digest = sha256_hex("\n".join(hashes).encode())
    # The digest is part of the name: two versions of a dataset are two datasets of MLflow.
    name = f"{_UNQUOTABLE.sub('_', run.run_manifest.dataset_id)[:LONGEST_NAME]}@{digest[:12]}"
    stored = _find_dataset(tracking, name, target) or _create_dataset(tracking, name, target=target, tags=_tags(run, digest))
    # A push that was interrupted left fewer records than the dataset has.
    if _count(stored) < len(hashes):
        records = _records(run)
        while part := list(islice(records, AT_ONCE)):
            # Upsert: MLflow recognises a record by its inputs, so repeating adds nothing.
            tracking.store.upsert_dataset_records(stored.dataset_id, part)
    dataset = EvaluationDataset(stored.dataset_id, name, digest[:DIGEST], len(hashes))
    _name_as_input(tracking, target, dataset)
    return dataset


def _find_dataset(tracking: TrackingConnection, name: str, target: TrackedRun) -> Any:
    found = tracking.client.search_datasets([target.experiment_id], f"name = '{name}'", max_results=1)
    return tracking.client.get_dataset(found[0].dataset_id) if found else None


def _create_dataset(tracking: TrackingConnection, name: str, *, target: TrackedRun, tags: dict[str, str]) -> Any:
    # Without a source the client would add the name of the user who is logged in here.
    return tracking.store.create_dataset(name=name, tags=tags, experiment_ids=[target.experiment_id])


def _tags(run: api.RunReader, digest: str) -> dict[str, str]:
    manifest = run.run_manifest
    return {CONTENT_TAG: digest, "assay.contract": manifest.contract, "assay.dataset_version": manifest.dataset_version}


# MLflow keeps the number of records in the profile of a dataset, as JSON.
def _count(stored: Any) -> int:
    profile = msgspec.json.decode(stored.profile) if stored.profile else {}
    return int(profile.get("num_records") or 0)


def _records(run: api.RunReader) -> Iterator[dict[str, object]]:
    """Yield each record once, regardless of its samples; MLflow identifies records by inputs, so equal ones get the id."""
    seen: set[str] = set()
    taken: set[bytes] = set()
    for prediction, asked in run.pairs():
        if prediction.record_sha256 in seen:
            continue
        seen.add(prediction.record_sha256)
        inputs = inputs_of(asked)
        key = msgspec.json.encode(inputs, order="deterministic")
        named = {"record_id": prediction.record_id} if key in taken else {}
        taken.add(key)
        yield {
            "inputs": {**inputs, **named},
            "expectations": expectations_of(asked),
            "tags": {"assay.record_id": prediction.record_id, "assay.record_sha256": prediction.record_sha256},
        }


def _name_as_input(tracking: TrackingConnection, target: TrackedRun, dataset: EvaluationDataset) -> None:
    entities, tag = tracking.entities, import_module("mlflow.entities.input_tag").InputTag
    source = msgspec.json.encode({"dataset_id": dataset.dataset_id}).decode()
    profile = msgspec.json.encode({"num_records": dataset.records}).decode()
    entity = entities.Dataset(dataset.name, dataset.digest, "mlflow_evaluation_dataset", source, profile=profile)
    given = entities.DatasetInput(entity, [tag("mlflow.data.context", "evaluation")])
    tracking.client.log_inputs(target.run_id, [given])
