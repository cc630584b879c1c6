"""Add and remove the user's channels for notifications, with their URLs in the keyring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.locks import cache_lock
from tui_workbench.runs.notify import pending
from tui_workbench.runs.notify.buses import remember_bus
from tui_workbench.runs.notify.channels import Channel, check_name, load_channels, parse_condition, save_channels
from tui_workbench.runs.notify.delivery import is_known_service
from tui_workbench.targets.hosts.secrets import SecretStore, new_reference

_LOCK = "channels"  # two processes must not replace the file of the channels at once


def check_channel(name: str, metrics: Sequence[str], *, replace: bool = False) -> None:
    """Check everything about a new channel that does not need its URL.

    Raises UsageError if the name or a condition on a metric is invalid or, unless `replace`, a channel with this name
    exists. Also raises the errors of `load_channels`.
    """
    check_name(name)
    for text in metrics:
        parse_condition(text)
    if not replace and any(channel.name == name for channel in load_channels()):
        raise UsageError(
            f"a channel named {name!r} already exists",
            remedy="Choose another name, or remove that channel first. On the command line, `--replace` replaces it.",
        )


def add_channel(
    name: str, url: str, events: Iterable[str], metrics: Sequence[str], *, replace: bool = False
) -> Channel:
    """Store the URL in the keyring, and the channel in the file of the channels.

    Raises the errors of `check_channel`, UsageError if Apprise does not support the URL or is not installed, and
    WorkbenchError if the keyring does not accept the URL.
    """
    check_channel(name, metrics, replace=replace)
    channel = Channel(name, new_reference(f"notify/{name}", "url"), tuple(dict.fromkeys(events)), tuple(metrics))
    if not channel.events and not channel.metrics:
        raise UsageError("the channel reports nothing", remedy="Choose an event, or write a condition on a metric.")
    if not is_known_service(url):
        raise UsageError(
            "Apprise does not support this URL",
            remedy="Write a URL such as `ntfy://ntfy.sh/TOPIC` or `mailto://USER:PASSWORD@gmail.com`. The "
            "documentation of Apprise lists all services.",
        )
    # The URL is stored before the file, and the URL of a replaced channel is removed after it, so that the file never
    # names a reference without a URL.
    kept = SecretStore().put(channel.reference, url)
    if not kept.in_keyring:
        raise WorkbenchError(
            f"cannot store the URL, which contains a secret: {kept.reason}",
            remedy="Unlock your keyring. If you have no keyring, `workbench-tui doctor` shows how to get one.",
        )
    with cache_lock(_LOCK):
        channels = {other.name: other for other in load_channels()}
        save_channels([*(channels | {name: channel}).values()])
    remember_bus()
    if name in channels:
        SecretStore().forget(channels[name].reference)
    return channel


def remove_channel(channel: Channel) -> None:
    """Remove a channel, its URL and its unsent notifications. Raises ConfigurationError and StorageError."""
    with cache_lock(_LOCK):
        save_channels([other for other in load_channels() if other.name != channel.name])
    SecretStore().forget(channel.reference)
    pending.discard(channel.name)
