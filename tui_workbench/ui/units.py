"""Formatting of measured values with their units. A value that was not reported is `—`."""

from __future__ import annotations

NOT_REPORTED = "—"


def amount(value: float | None, unit: str) -> str:
    """Format a value with its unit: `83 %`, `55 °C`, `1590 MHz`."""
    return NOT_REPORTED if value is None else f"{value:.0f} {unit}"


def size(mib: float | None) -> str:
    """Format a size given in MiB: `8.1 GiB`, `512 MiB`."""
    return f"{mib / 1024:.1f} GiB" if mib is not None and mib >= 1024 else amount(mib, "MiB")


def memory(used: float | None, total: float | None) -> str:
    """Format used and total memory, given in MiB: `8.1/15.0 GiB`."""
    if total is None:
        return size(used)
    return f"{NOT_REPORTED if used is None else f'{used / 1024:.1f}'}/{total / 1024:.1f} GiB"


def watts(value: float | None, limit: float | None = None) -> str:
    """Format a power in watts, with its limit if known: `61 W`, `61/70 W`."""
    return f"{value:.0f}/{limit:.0f} W" if limit and value is not None else amount(value, "W")


def watt_hours(value: float) -> str:
    """Format an energy in watt-hours: `61 Wh`, `1.2 kWh`."""
    return f"{value:.3g} Wh" if value < 1000 else f"{value / 1000:.3g} kWh"
