"""The verdict on a run's use of GPUs as lists and head lines show it: a glyph and a word, never a colour alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tui_workbench.ui.words import StateLook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tui_workbench.model import Run

VERDICTS = {
    "proven": StateLook("✓", "GPU", "success"),
    "idle": StateLook("▲", "GPU idle", "warning"),
    "not used": StateLook("✗", "no GPU", "error"),
    "shared": StateLook("◆", "GPU shared", "warning"),
    "unknown": StateLook("?", "GPU unknown", "muted"),
}
"""How each word of `runs.gpu.verdict` is shown."""

PROVEN_SENTENCE = "its processes computed on "
"""What the text of a proven verdict begins with, up to which GPUs; its figures follow a colon."""


def verdict_look(word: str) -> StateLook:
    """How a verdict is shown, also one of a later version."""
    return VERDICTS.get(word, VERDICTS["unknown"])


def verdict_label(word: str, *, short: bool = False) -> str:
    """`✓ GPU`, `▲ GPU idle`; short `✓ GPU`, `▲ GPU`."""
    look = verdict_look(word)
    return f"{look.glyph} {'GPU' if short else look.word}"


def verdict_text(brief: Mapping[str, Any]) -> str:
    """What stands behind the word, of any origin: figures of a proven verdict, else the sentence that says why."""
    text = str(brief.get("text", ""))
    if brief.get("verdict") == "proven" and text.startswith(PROVEN_SENTENCE):
        return text.partition(": ")[2] or text
    return text


def read_verdicts(runs: Iterable[Run]) -> dict[str, str]:
    """The verdict's word of each run, by id; empty for one that no GPU was in reach of. Blocks."""
    from tui_workbench.runs.rundir import GPU_SAMPLES, GPU_VERDICT

    found = {}
    for run in runs:
        word = ""
        if any(os.path.exists(os.path.join(run.directory, name)) for name in (GPU_VERDICT, GPU_SAMPLES)):
            from tui_workbench.runs.gpu.reading import brief_of

            word = str(brief_of(run.directory).get("verdict", ""))
        found[run.run_id] = word
    return found
