"""Notebooks for tests, as Jupyter writes them."""

from __future__ import annotations

import json
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG image of 70 bytes in Base64."""


def code(source: str, *outputs: dict[str, Any], number: int | None = None) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "metadata": {}, "source": lines, "outputs": outputs, "execution_count": number}


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


def display(**data: str) -> dict[str, Any]:
    """Return an output with data by type; `image__png` is image/png."""
    return {"output_type": "display_data", "metadata": {}, "data": {k.replace("__", "/"): v for k, v in data.items()}}


def notebook(*cells: dict[str, Any] | str, **metadata: Any) -> str:
    """Return a notebook; a string is the source of a code cell."""
    found = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    return json.dumps({"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4})
