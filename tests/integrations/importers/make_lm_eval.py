"""Writes the lm-eval samples of the fixtures: `python make_lm_eval.py FOLDER`, in an environment that has lm_eval.

The model is lm-eval's own `dummy`, which answers at random; two tiny tasks of our own, one generates and one chooses.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TQDM_DISABLE": "1"}
ABOUT_MACHINE = ("pretty_env_info", "transformers_version", "upper_git_hash", "git_hash")
"""What the results say of the machine, and nobody wants to know of ours."""
GENERATED = [
    {"question": "What is 2 + 2?", "answer": "4"},
    {"question": "Say lol.", "answer": "lol"},
    {"question": "What is the capital of Peru?", "answer": "Lima"},
]
CHOSEN = [
    {"question": "Which is a colour?", "choices": ["green", "seven"], "label": 0},
    {"question": "Which is a number?", "choices": ["green", "seven"], "label": 1},
    {"question": "Which is a weekday?", "choices": ["Rhine", "Monday"], "label": 1},
]
TASKS = {
    "tiny_generated": """
task: tiny_generated
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "Q: {{{{question}}}}\\nA:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], temperature: 0.0}}
repeats: 1
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
""",
    "tiny_chosen": """
task: tiny_chosen
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Q: {{{{question}}}}\\nA:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
""",
}


def main(folder: Path) -> None:
    """Evaluate both tasks, and keep the samples of each and the results under plain names."""
    work = Path(tempfile.mkdtemp())
    for name, rows in (("tiny_generated", GENERATED), ("tiny_chosen", CHOSEN)):
        questions = work / f"{name}.jsonl"
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (work / f"{name}.yaml").write_text(TASKS[name].format(file=questions))
    command = [
        "--model",
        "dummy",
        "--model_args",
        "pretrained=tiny-dummy",
        "--tasks",
        ",".join(TASKS),
        "--include_path",
        str(work),
        "--seed",
        "1",
    ]
    output = ["--output_path", str(work / "out"), "--log_samples"]
    subprocess.run([sys.executable, "-m", "lm_eval", *command, *output], check=True, env={**os.environ, **OFFLINE}, cwd=work)
    for name in TASKS:
        [written] = (work / "out").rglob(f"samples_{name}_*.jsonl")
        shutil.copy(written, folder / f"samples_{name}.jsonl")
    [aggregated] = (work / "out").rglob("results_*.json")
    kept = {name: value for name, value in json.loads(aggregated.read_text()).items() if name not in ABOUT_MACHINE}
    text = json.dumps(kept, indent=2).replace(str(work), "questions")
    (folder / "lm_eval_results.json").write_text(text + "\n")
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
