"""`python -m tests.fuzz.guided json|yaml [libFuzzer options]`: coverage-guided inputs for a door, with atheris."""

import sys

import atheris

with atheris.instrument_imports(include=["assay.core", "assay.datasets"]):
    from assay import ValidationConfig
    from tests.fuzz.targets import TARGETS, fixtures

DEFAULT = ValidationConfig()


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    fuzz = TARGETS[sys.argv[1]]
    contents = [content for content in fixtures(sys.argv[1]) if len(content) < 4096]
    position = iter(contents)

    def one_input(content: bytes) -> None:
        # libFuzzer starts from nothing; the shipped datasets come first, so that their coverage guides the rest.
        fuzz(next(position, content), DEFAULT)
        fuzz(content, DEFAULT)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
