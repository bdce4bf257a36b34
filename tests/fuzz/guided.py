"""`python -m tests.fuzz.guided json|yaml [FOLDER] [libFuzzer options]`: coverage-guided inputs for a door, with atheris."""

import sys

import atheris

with atheris.instrument_imports(include=["assay"]):
    from assay import ValidationConfig
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Starts from the files in FOLDER; does not return, because libFuzzer ends the process."""
    fuzz, config = TARGETS[sys.argv[1]], ValidationConfig()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda content: fuzz(content, config))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
