"""Files of other evaluation tools into items to import: a reader for each format, and the detection of the format."""

from collections.abc import Mapping

from assay.datasets.imports import ImportFormat, ImportReader
from assay.integrations.importers.deepeval import read_deepeval
from assay.integrations.importers.format_detection import detect_format, open_sources
from assay.integrations.importers.inspect_log import read_inspect
from assay.integrations.importers.inspect_samples import read_inspect_samples
from assay.integrations.importers.lm_eval import read_lm_eval
from assay.integrations.importers.openai_evals_api import read_openai_evals_api
from assay.integrations.importers.openai_files import read_openai_batch, read_openai_evals
from assay.integrations.importers.promptfoo import read_promptfoo

__all__ = ["READERS", "detect_format", "open_sources"]

READERS: Mapping[ImportFormat, ImportReader] = {
    "inspect": read_inspect,
    "inspect-samples": read_inspect_samples,
    "promptfoo": read_promptfoo,
    "openai-evals": read_openai_evals,
    "openai-evals-api": read_openai_evals_api,
    "openai-batch": read_openai_batch,
    "lm-eval": read_lm_eval,
    "deepeval": read_deepeval,
}
