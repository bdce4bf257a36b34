"""What was installed, as a bill of materials in CycloneDX that is the same for the same commit and platform."""

import json
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.spdx import is_supported_id
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.building import Commit
from release.commands import ReleaseProblem, call
from release.installing import Archive, Installed

SCHEMA = SchemaVersion.V1_6
SAY_PLATFORM = (
    "import platform, sysconfig; print(platform.python_implementation(), platform.python_version(), sysconfig.get_platform())"
)
OWN = canonicalize_name("assay")
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "assay")


def write_sbom(installed: Installed, commit: Commit, path: Path) -> int:
    """Write the bill of materials of an environment; how many are in it. Raises ReleaseProblem when the schema forbids it."""
    found = {canonicalize_name(package.name): package for package in distributions(path=[str(installed.packages)])}
    archives = {canonicalize_name(archive.name): archive for archive in installed.archives}
    if found.keys() != archives.keys():
        raise ReleaseProblem(f"pip installed {sorted(archives)}, and the environment holds {sorted(found)}")
    components = {name: _component(found[name], archive) for name, archive in archives.items()}
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SCHEMA.to_version(),
        "version": 1,
        "metadata": {
            "timestamp": commit.when.isoformat(),
            "component": {**components.pop(OWN), "type": "application"},
            "properties": [
                {"name": "assay:commit", "value": commit.sha},
                {"name": "assay:platform", "value": call([installed.python, "-c", SAY_PLATFORM], folder=path.parent).strip()},
            ],
        },
        "components": [components[name] for name in sorted(components)],
        "dependencies": [_needs(found[name], found) for name in sorted(found)],
    }
    # The number is made of what it stands for, so that it is new when anything is and the same otherwise.
    document["serialNumber"] = uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True)).urn
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    problem = JsonStrictValidator(SCHEMA).validate_str(text)
    if problem is not None:
        raise ReleaseProblem(f"the bill of materials breaks the schema of CycloneDX: {problem}")
    path.write_text(text, encoding="utf-8")
    return len(found)


def _component(package: Distribution, archive: Archive) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "description": package.metadata["Summary"],
        "licenses": list(_licences(package.metadata)),
        "purl": _purl(package),
        "hashes": [{"alg": "SHA-256", "content": archive.sha256}],
        "properties": [{"name": "assay:file", "value": archive.file_name}],
    }


def _licences(metadata: PackageMetadata) -> Iterator[dict[str, Any]]:
    """The licence as an expression; by name where a package has none; raises ReleaseProblem for a package without a licence."""
    named = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if line.startswith("License :: ")]
    if "License-Expression" in metadata:
        yield {"expression": metadata["License-Expression"]}
    elif "License" in metadata and is_supported_id(metadata["License"]):
        yield {"license": {"id": metadata["License"]}}
    elif named:
        yield from ({"license": {"name": name}} for name in named)
    else:
        raise ReleaseProblem(f"{metadata['Name']} does not say under which licence it is")


def _needs(package: Distribution, found: dict[Any, Distribution]) -> dict[str, Any]:
    """The distributions that one asks for and that are there; those of extras and of other platforms are not."""
    names = {canonicalize_name(Requirement(line).name) for line in package.requires or []}
    return {"ref": _purl(package), "dependsOn": sorted(_purl(found[name]) for name in names & found.keys())}


def _purl(package: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(package.name)}@{package.version}"
