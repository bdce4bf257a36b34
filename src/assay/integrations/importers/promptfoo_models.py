"""Providers of promptfoo as models of a run: those that assay knows by name."""

from collections.abc import Iterator

from assay.core.provider import PROVIDER_KINDS
from assay.datasets.converters.rows import Row
from assay.datasets.imports.items import ImportState
from assay.integrations.importers.json_values import mapping

_KINDS = {"togetherai": "together", "gemini": "google", "azureopenai": "azure"}
"""Names of promptfoo for providers that have another name here."""
_FORMS = frozenset({"chat", "messages", "completion", "completions", "responses", "converse", "deployment"})
"""Parts of an id that name the API, which assay chooses itself."""
_OTHERS = frozenset(
    {
        "embedding",
        "embeddings",
        "image",
        "video",
        "audio",
        "realtime",
        "live",
        "speech",
        "assistant",
        "agents",
        "moderation",
        "transcription",
        "tts",
        "codex-sdk",
        "codex-app-server",
        "agent",
    }
)
"""Parts of an id of something else than a model of texts."""
_NOT_MODELS = frozenset({"http", "function", "local", "replay", "scripted", "litellm"})


def note_models(config: Row, reading: ImportState) -> None:
    """Record the models that a config asks, and the one that judges for it."""
    for provider in _ids(config.get("providers", config.get("targets"))):
        reading.models |= dict.fromkeys(model_names(provider))
    options = mapping(mapping(config.get("defaultTest")).get("options"))
    grader = options.get("provider")
    # One for texts and one for embeddings may be named apart.
    given = mapping(grader).get("text", grader) if isinstance(grader, dict) and "id" not in grader else grader
    for provider in _ids(given):
        reading.judges |= dict.fromkeys(model_names(provider))


def _ids(given: object) -> Iterator[str]:
    for provider in given if isinstance(given, list) else [given]:
        if isinstance(provider, dict) and not isinstance(provider.get("id"), str):
            # An older form has the id as the only key.
            yield from (name for name in provider if len(provider) == 1)
        else:
            found = provider.get("id") if isinstance(provider, dict) else provider
            yield from [found] if isinstance(found, str) else []


def model_names(provider: str) -> Iterator[str]:
    """Yield `openai/gpt-6-luna` for `openai:chat:gpt-6-luna`; nothing for a provider that assay does not know."""
    if provider == "echo":
        yield "scripted/echo"
        return
    name, _, rest = provider.partition(":")
    kind = _KINDS.get(name, name)
    parts = rest.split(":")
    if kind not in PROVIDER_KINDS or kind in _NOT_MODELS or not rest or parts[0] in _OTHERS:
        return
    model = ":".join(parts[1:] if parts[0] in _FORMS and parts[1:] else parts)
    if model and "{{" not in model and not model.startswith(("http", "file")):
        yield f"{kind}/{model}"
