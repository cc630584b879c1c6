"""Regular expressions of others, such as those of a project, and of searches in large files.

RE2 matches in time linear in the text, with limited memory. The `re` module can need years for `(x+x+)+y`, and blocks
all threads meanwhile. In return, RE2 has no lookaround and no backreferences.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast


def compile_text(pattern: str) -> re.Pattern[str]:
    """Compile an expression for texts. The result has the interface of `re.Pattern`. Raises ValueError."""
    return cast("re.Pattern[str]", _compiled(pattern, _options()))


def compile_bytes(pattern: bytes) -> re.Pattern[bytes]:
    """Compile an expression without groups for bytes, as `compile_text` does."""
    return cast("re.Pattern[bytes]", _compiled(pattern, _byte_options()))


def compile_search(expression: str, *, ignore_case: bool) -> re.Pattern[bytes]:
    """Compile an expression for UTF-8 in which `^` and `$` match at each line. Raises ValueError."""
    compile_text(expression)  # an error quotes the expression without the flags
    flagged = f"(?{'i' if ignore_case else ''}m){expression}"
    return cast("re.Pattern[bytes]", _compiled(flagged.encode(), _options()))


def _compiled(pattern: str | bytes, options: Any) -> Any:
    # Importing RE2 takes some milliseconds, and most commands need no such pattern.
    import re2

    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


@cache
def _byte_options() -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.never_capture = True
    return options
