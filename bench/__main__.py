"""All benchmarks, or the parts that are named: `python bench [PART ...] [--quick] [--repeat N] [--write]`."""

import argparse
import subprocess
import sys

from measure import HERE
from run import PARTS

WHOLE = ("validate", "run", "metrics", "pages", "machines")
PEERS = "peers"
LONG = ("many", "soak")


def main() -> None:
    """Measure validation, runs, metrics, pages and runs on many machines; or other frameworks, which have options of their own."""
    if sys.argv[1:2] == [PEERS]:
        measure("peers.py", sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="bench", description="Measure all that assay does.")
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(WHOLE)}, {', '.join(LONG)}, or of run: {', '.join(PARTS)}; default: all but {' and '.join(LONG)}. "
        f"`{PEERS}` alone measures other frameworks, see `{PEERS} --help`",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: the ratios are rough")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--rows", action="append", metavar="N", help="of many: so many rows; may be repeated")
    parser.add_argument("--write", action="store_true", help="renew the pages in docs/explanation")
    options = parser.parse_args()
    parts = options.parts or WHOLE
    unknown = [part for part in parts if part not in (*WHOLE, *LONG, *PARTS)]
    if unknown:
        parser.error(f"there is no part '{unknown[0]}'")
    passed = ["--repeat", str(options.repeat), *["--quick"] * options.quick, *["--write"] * options.write]
    only = [word for part in parts if part in PARTS for word in ("--only", part)]
    if "validate" in parts:
        measure("validate.py", passed)
    if "run" in parts or only:
        measure("run.py", passed + ([] if "run" in parts else only))
    if "metrics" in parts:
        measure("metrics.py", passed)
    if "pages" in parts:
        measure("pages.py", passed)
    if "machines" in parts:
        measure("machines.py", passed)
    if "many" in parts:
        measure("many.py", passed + [word for rows in options.rows or () for word in ("--rows", rows)])
    if "soak" in parts:
        measure("soak.py", passed)


def measure(name: str, options: list[str]) -> None:
    """One benchmark in a process of its own; when it fails, so does this one."""
    code = subprocess.run([sys.executable, HERE / name, *options], check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
