"""The score of a benchmark in words: the headline, what it rests on, and what it leaves out."""

from assay.surfaces.reporters.run_numbers import ends_text, figure_text
from assay.surfaces.reporters.run_view import Json
from assay.surfaces.reporters.wording import counted


def profile_name(profile: Json) -> str:
    """`prbench`, or `prbench (compat)`."""
    return f"{profile['id']} (compat)" if profile["compat"] else str(profile["id"])


def headline_text(profile: Json) -> str:
    """`0.42 [0.30, 0.55]`."""
    return figure_text(profile, "headline")


def profile_text(profile: Json) -> str:
    """`prbench (compat) 0.42 [0.30, 0.55] · scale 0-1 · 38 records · 2 unscored (timeout 2): 0.40 at worst, 0.45 at best`."""
    parts = [f"{profile_name(profile)} {headline_text(profile)}", f"scale {profile['scale']}", counted(profile["n"], "record")]
    if profile["n_unscored"]:
        why = ", ".join(f"{reason} {count:,}" for reason, count in profile["unscored"].items())
        ends = ends_text(profile.get("headline_bounds"))
        parts.append(f"{profile['n_unscored']:,} unscored ({why})" + (f": {ends}" if ends else ""))
    return " · ".join(parts)
