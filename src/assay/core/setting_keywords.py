"""Settings of a run as keyword arguments of Python; `make schema` makes this module from core/settings.py."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from assay.core.checks import Check
from assay.core.settings import DatasetEntry, GraderEntry, ModelEntry

Model = str | Callable[..., Any] | Mapping[str, Any] | ModelEntry
"""A model: its name as `provider/model`, a function, or a mapping with the keys of a candidate in a run file."""


class SettingKeywords(TypedDict, total=False):
    """Settings of a run; None leaves a setting to the run file or to its default."""

    datasets: Sequence[str | Path | Mapping[str, Any] | DatasetEntry] | None
    """Datasets of the run."""

    models: Sequence[Model] | None
    """Candidate models; each is a run of its own."""

    judges: Sequence[Model] | None
    """Judge models, for answers that no program can grade."""

    grader: str | Callable[..., Any] | None
    """Custom grader of every record: the name of a plugin, `module:function` or `file.py:function`."""

    checks: Sequence[str | Mapping[str, Any] | Check] | None
    """Checks of every answer, which no model is called for: in addition to a judge, or instead of one. Records may have checks of
    their own in `metadata.checks`.
    """

    graders: Sequence[Mapping[str, Any] | GraderEntry] | None
    """Several graders of every answer, instead of `judges`, `grader` and `checks`; one of them is primary."""

    policy: str | Callable[..., Any] | None
    """Custom policy, which builds the candidates' messages and may grade too; named in the same way."""

    policies: Mapping[str, str | Callable[..., Any]] | None
    """Custom policies of single records: `{house: own.py:function}` is used by the records whose `metadata.policy_id` is `house`.
    `policy` overrides them.
    """

    tools: Literal["replay", "stop"] | None
    """What answers tool calls of candidates: `replay` gives a call that equals a recorded one the recorded output, `stop` ends the
    answer with its first calls.
    """

    temperature: float | None
    """Sampling temperature of the candidates that state none; the option is for all of them."""

    max_tokens: int | None
    """Longest answer in tokens of the candidates that state none; the option is for all of them."""

    base_url: str | None
    """Address of the candidates' server, such as `http://localhost:8000/v1`, instead of that of their provider."""

    price: str | None
    """Price of the candidates in US dollars per million tokens sent and received, such as `2.5,10`; `0,0` for a server of your own.
    """

    prices: Mapping[str, Mapping[str, Any]] | None
    """Prices of single models, by the names that reports call them, instead of the price list's."""

    providers: Sequence[Mapping[str, Any]] | None
    """Custom servers, and limits for the well-known ones."""

    criteria: Sequence[Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]] | None
    """Criteria of batch_v1 records that name none. Default: `overall`."""

    responses: str | Path | None
    """File with the answers: JSONL, a JSON list or object, or the folder of an earlier run."""

    response_source: Literal["sampled", "prefilled", "part_of_conversation"] | None
    """`sampled` calls the candidates, `prefilled` reads their answers from `responses`, `part_of_conversation` takes those of an
    earlier run, or the recorded replies where no `responses` are named. Default: `prefilled` with `responses`,
    `part_of_conversation` for conversations without a candidate, else `sampled`.
    """

    runs_dir: str | Path | None
    """Folder that holds the runs, relative to the run file's folder. Default: `runs` in the current folder."""

    run_id: str | None
    """Run id; an unfinished run with the same id is resumed. Default: a new id every time."""

    group: str | None
    """Name that the run shares with others, so that commands such as `assay show` and `gate` take all of them. Default: the run id
    where there are several candidates, whose runs are called after it.
    """

    concurrency: int | None
    """Maximum concurrent calls."""

    system_prompt: str | None
    """Sent to candidates, except where a record has a system message of its own or a policy of a benchmark."""

    records: Sequence[str] | None
    """Use only the records with these ids."""

    limit: int | None
    """Use the first N records of the run."""

    sample: int | None
    """Use a random sample of N records, chosen by `seed` and their ids."""

    seed: int | None
    """Seed of the sample and of resampled intervals."""

    repeat: int | None
    """Answers per record, each evaluated; for pass@k, pass^k and the variance between answers."""

    quorum: int | None
    """Votes that a question needs; with fewer, the record ends in an error, without a score. Default: all that are asked."""

    escalate: bool | None
    """Call the first judge, and the others only if it is unsure."""

    batch: bool | None
    """Batches of the candidates' providers, for half the price."""

    batch_fallback: Literal["live", "fail"] | None
    """Requests without an answer in their batch: `live` repeats them as single calls at full price, `fail` does not."""

    max_cost: float | None
    """US dollars after which no new call is made; refused where no price is known."""

    strict_parameters: bool | None
    """Stop the run when a provider rejects a parameter that was set, instead of leaving the parameter out with a note."""

    on_invalid: Literal["reject", "skip"] | None
    """Records that break their contract: `reject` the run, or `skip` them. Default: `skip` for batch_v1, else `reject`."""

    allow_size: bool | None
    """Accept golden datasets with fewer than 5 or more than 20 cases."""

    null_as_absent: bool | None
    """Optional and forbidden fields that are null count as absent."""

    config: str | Path | None
    """File with settings of the validation, for every dataset without a file of its own."""

    prompt_column: str | None
    """Column with the question."""

    reference_column: str | None
    """Column with the reference answer."""

    context_columns: Sequence[str] | None
    """Column with text that belongs to the question, which the candidate sees too."""

    rubric_column: str | None
    """Column with the rubric."""

    choices_columns: Sequence[str] | None
    """Column with the list of choices, or a column for each choice."""

    answer_column: str | None
    """Column with the correct choice: its letter, number or text."""

    first_choice: int | None
    """Number of the first choice, where the answer is a number."""

    messages_column: str | None
    """Column with a conversation as a list of messages."""

    id_column: str | None
    """Column with the ids of the records."""

    metadata_columns: Sequence[str] | None
    """Column to store with the record; without it all other columns are."""

    sheet: str | None
    """Sheet of the datasets that are workbooks; also a split of a dataset on disk, or the member of a document."""

    profile: (
        Literal["prbench", "prbench_normalized", "healthbench", "apex_v1", "lexam_open", "lexam_mcq", "judge_1_5", "weighted_mean"]
        | None
    )
    """Benchmark whose official score is also computed; it must be able to score every record."""

    compat: bool | None
    """The profile treats errors as the benchmark does; otherwise they have no score."""

    pass_rate: float | None
    """Share of the graded records that pass."""

    min_score: float | None
    """Mean score: 0-1, or 1-5 where nothing is compared (golden_v1, batch_v1, recorded replies); of a profile, its headline."""

    max_error_rate: float | None
    """Share of all records that may end in an error (invalid ones included) or be cancelled."""

    max_truncated: float | None
    """Share of the answers that may end at the output limit."""

    min_tool_calls: float | None
    """Share of the expected tool calls that are made with the right arguments; with unknown ones, their worst case."""

    check_gates: Mapping[str, float] | Sequence[str] | None
    """Share of the answers that pass a check, by its name: `{exact: 0.9}`."""

    grader_gates: Mapping[str, float] | Sequence[str] | None
    """Share of the answers that pass by one of several graders, by its name: `{polite: 0.8}`."""

    slices: Sequence[str] | None
    """Metrics are grouped by: `tags`, `dataset`, `task_type`, `contract`, `policy_id`, or a member of metadata such as `court` or
    `court.name`: of the record, else of its `batch_v1` document.
    """

    cluster_key: str | None
    """Metadata key, of records or their document, whose values form clusters of records, for honest intervals."""
