"""What a release has proven, and what it has not, in sentences."""

from typing import NamedTuple

from release.advisories import Audit, not_proven_by, proven_by
from release.building import Built
from release.sbom import SCHEMA


class Evidence(NamedTuple):
    """All that was found out about a release."""

    built: Built
    version: str
    is_rehearsal: bool
    """Whether the change log calls its newest part unreleased."""
    wheel_files: int
    sdist_files: int
    supported: tuple[str, ...]
    """Versions of Python that the metadata name."""
    tried: tuple[str, ...]
    """Versions of Python with which the wheel was installed and the demo shown."""
    distributions: int
    """How many are in the bill of materials, with assay itself."""
    audit: Audit


def proven(evidence: Evidence) -> list[str]:
    """What anybody may now rely on."""
    wheel, sdist, others = evidence.wheel_files, evidence.sdist_files, evidence.distributions - 1
    pythons = ", ".join(evidence.tried)
    return [
        "The sdist was built twice and the wheel three times, in different folders, times, time zones and rights: the same bytes.",
        f"The {wheel} files of the wheel and the {sdist} of the sdist are those that git keeps. The metadata are right.",
        f"With Python {pythons}: the wheel and its {others} dependencies install under hashes, alone, and the demo runs.",
        f"The bill of materials lists assay and those {others} with licences and hashes, in valid CycloneDX {SCHEMA.to_version()}.",
        *proven_by(evidence.audit),
    ]


def not_proven(evidence: Evidence) -> list[str]:
    """What nobody should take for granted."""
    missing = [version for version in evidence.supported if version not in evidence.tried]
    return [
        *not_proven_by(evidence.audit),
        *(f"Whether it works with Python {version}, which was not found here; PYTHONS=... names one." for version in missing),
    ]
