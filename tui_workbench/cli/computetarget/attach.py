"""`computetarget attach|detach|login|disconnect`: add and remove targets, and log in to them."""

from __future__ import annotations

import argparse
import shlex
import sys

from tui_workbench.cli.computetarget import type_options
from tui_workbench.cli.computetarget.check import HOST_KEYS, RESULT, accept_host_keys, exit_code, print_checks, record
from tui_workbench.cli.shared import prompts
from tui_workbench.cli.shared.output import emit, is_text, notify, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import counted, visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.attaching.attach import Attached, Attachment, AttachRequest
from tui_workbench.targets.attaching.attachable import attachable_types
from tui_workbench.targets.attaching.detach import detach, move_secrets, plan_detaching
from tui_workbench.targets.base.attaching import Address, Attaching
from tui_workbench.targets.hosts.host import LoginRefused
from tui_workbench.targets.hosts.secrets import KeyringResult, plain_text_secrets
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.login_secrets import ssh_host_of, store_typed

ASK = object()
"""The value of an option that was given without a value."""

NAME = option("name", metavar="NAME", help="the compute target")

configure_detach = options(
    option("name", metavar="NAME", nargs="?", help="the compute target"),
    option("-n", "--name", dest="old_name", metavar="NAME", help="the same as NAME"),
    option("--force", action="store_true", help="detach even if the target has active runs"),
    RESULT,
)
configure_login = options(
    NAME,
    option("--password-stdin", action="store_true", help="read the secret from stdin"),
    option("--move-secrets", action="store_true", help="move secrets from the target's file to the keyring"),
    HOST_KEYS,
    RESULT,
)
configure_disconnect = options(NAME, RESULT)


def configure_attach(parser: argparse.ArgumentParser) -> None:
    types = attachable_types()
    parser.usage = type_options.usage(types)
    add = parser.add_argument
    add("type", metavar="TYPE", nargs="?", choices=tuple(types), help=type_options.list_of_types(types))
    add("-t", "--type", dest="old_type", metavar="TYPE", choices=tuple(types), help="the same as TYPE")
    add("-n", "--name", metavar="NAME", required=True, help="the name of the new target")
    add("-a", "--address", metavar="HOST[:PORT]", default="", help="host name, IP address or alias in ~/.ssh/config")
    add("-u", "--username", metavar="USER", default="", help="SSH user (default: the user that ssh would choose)")
    _configure_login(parser)
    machine = parser.add_argument_group("target")
    type_options.configure(parser, machine, types)
    machine.add_argument("--no-check", action="store_true", help="write the files without contacting the machine")
    RESULT(parser)


def _configure_login(parser: argparse.ArgumentParser) -> None:
    login = parser.add_argument_group("login (default: as ssh does, with your agent, keys and ~/.ssh/config)")
    add = login.add_argument
    add("--private-key-file", metavar="FILE", default="", help="log in with this key")
    add("--private-key-passphrase", metavar="TEXT", nargs="?", const=ASK,
        help="the passphrase of the key; without TEXT, you are asked for it")  # fmt: skip
    add("-k", "--use-azureml-ssh-key", dest="workbench_key", action="store_true",
        help="log in with the workbench's own key: create it if missing, and install it on the machine")  # fmt: skip
    add("-w", "--password", metavar="TEXT", nargs="?", const=ASK,
        help="log in with a password; without TEXT, you are asked for it")  # fmt: skip
    add("--password-stdin", action="store_true", help="read the password from stdin")
    HOST_KEYS(login)


def run_attach(arguments: argparse.Namespace) -> int:
    """Attach a target and check it. Return 4 if it is attached but a check fails."""
    project = Project.find(arguments.project)
    request = _request(arguments)
    try:
        attachment, attached = _attach(project, request, arguments)
    except LoginRefused as error:
        if not error.offers_password or request.workbench_key or not prompts.can_ask():
            raise
        notify(f"{error.message}. The machine accepts a password.")
        # The machine has refused the keys, so the next attempt uses only the password.
        request = request._replace(has_password=True, private_key="")
        attachment, attached = _attach(project, request, arguments)
    if is_text(arguments):
        files = (attached.compute, attached.run_configuration)
        write_lines([*(f"wrote {_short(project, path)}" for path in files), *(kept.text for kept in attached.kept)])
    target = project.target(request.name)
    key = attachment.install_by_hand
    if key is not None:
        notify(f"the workbench's key is not installed on {request.address} yet. Run this command there:")
        sys.stderr.write(f"    {visible(key.install_command)}\n")
    checks = [] if arguments.no_check or key is not None else print_checks(checks_for(target).run(), target, arguments)
    result = {
        "name": request.name,
        "type": request.type,
        "compute": attached.compute,
        "runconfig": attached.run_configuration,
        "secrets": list(map(_secret_place, attached.kept)),
        "check": [record(check) for check in checks],
        "install": key.install_command if key is not None else None,
    }
    code = exit_code(checks)
    emit(result, arguments, text=[_next_step(request.name, is_ready=not code, by_hand=key is not None)])
    return code


def _attach(project: Project, request: AttachRequest, arguments: argparse.Namespace) -> tuple[Attachment, Attached]:
    """Log in, unless the arguments say otherwise, and write the files."""
    attachment = Attachment(project.root, request)
    for fingerprint in arguments.accept_host_key:
        attachment.accept_host_key(fingerprint)
    try:
        _give_secrets(attachment, arguments)
        if not arguments.no_check:
            prompts.reach(attachment.connect, attachment.accept_host_key, attachment.give)
        return attachment, attachment.write()
    except BaseException:  # also Ctrl-C at a prompt
        attachment.abandon()
        raise


def run_detach(arguments: argparse.Namespace) -> int:
    name = arguments.name or arguments.old_name
    if not name:
        raise UsageError("no target given", remedy="Give its name: `workbench-tui computetarget detach NAME`.")
    project = Project.find(arguments.project)
    detachment = plan_detaching(project, name)
    active = [run.run_id for run in Runs(project).list() if run.is_active and run.target == name]
    if active and not arguments.force:
        raise UsageError(
            f"target {name!r} has active runs: {', '.join(active)}",
            remedy="Wait until they end, cancel them with `workbench-tui experiment cancel -r ID`, or add `--force`.",
        )
    detach(detachment)
    notes, secrets = detachment.change_set.notes, detachment.references
    removed = [change.path for change in detachment.change_set.changes if change.after is None]
    kept = [change.path for change in detachment.change_set.changes if change.after not in (None, b"*\n")]
    text = [f"moved to the trash: {_short(project, path)}" for path in removed]
    text += [*([f"removed {counted(len(secrets), 'secret')}"] if secrets else []), *notes]
    result = {"name": name, "files": removed, "trash": kept, "secrets_removed": len(secrets), "notes": list(notes)}
    return emit(result, arguments, text=text)


def run_login(arguments: argparse.Namespace) -> int:
    """Log in, and store the entered secrets. With `--move-secrets`, first move secrets from the file to the keyring."""
    project = Project.find(arguments.project)
    target = _over_ssh(project, arguments.name)
    if arguments.move_secrets:
        target = _move_secrets(project, target)
    host = ssh_host_of(target)
    accept_host_keys(host, arguments.accept_host_key)
    if arguments.password_stdin:
        reference = target.password or target.private_key_passphrase
        if not reference:
            raise UsageError(f"target {target.name!r} needs no secret", remedy="Omit --password-stdin.")
        typed = {reference: prompts.secret_from_stdin()}
        host.give_secret(reference, typed[reference])
        host.run(["true"])
    else:
        typed = prompts.log_in(host)
    kept = store_typed(host, typed)
    status = host.status()
    text = [
        f"logged in to {target.address} as {status.get('username') or target.username}",
        *(stored.text for stored in kept),
    ]
    return emit({"name": target.name, **status, "secrets": list(map(_secret_place, kept))}, arguments, text=text)


def run_disconnect(arguments: argparse.Namespace) -> int:
    """Close the SSH connection that all programs of the user share. The next use of the target logs in again."""
    target = _over_ssh(Project.find(arguments.project), arguments.name)
    ssh_host_of(target).disconnect()
    text = [f"disconnected from {target.address}; runs continue there"]
    return emit({"name": target.name, "state": "down"}, arguments, text=text)


def _request(arguments: argparse.Namespace) -> AttachRequest:
    kind, types = arguments.type or arguments.old_type, attachable_types()
    if kind is None:
        raise UsageError("no target type given", remedy=f"Choose one of: {', '.join(types)}.")
    if arguments.type and arguments.old_type and arguments.type != arguments.old_type:
        raise UsageError(
            f"the target type is given twice: {arguments.type} and {arguments.old_type}", remedy="Omit --type."
        )
    has_password = arguments.password is not None or arguments.password_stdin
    _refuse_unused_login(arguments, kind, types[kind], has_password=has_password)
    type_options.refuse_options_of_others(arguments, kind, types)
    _refuse_contradictions(arguments, has_password=has_password)
    return AttachRequest(
        type=kind,
        name=arguments.name,
        address=arguments.address,
        username=arguments.username,
        has_password=has_password,
        private_key=arguments.private_key_file,
        workbench_key=arguments.workbench_key,
        values=type_options.values_of(arguments, types[kind]),
    )


def _refuse_unused_login(arguments: argparse.Namespace, kind: str, described: Attaching, *, has_password: bool) -> None:
    login = arguments.private_key_file or arguments.workbench_key or has_password
    if described.address is Address.NONE and (login or arguments.address or arguments.username):
        raise UsageError(
            f"a {kind} target uses {described.service}, which needs no address and no login",
            remedy="Omit --address, --username and the options for keys and passwords.",
        )
    if described.address is Address.OPTIONAL and not arguments.address and (login or arguments.username):
        raise UsageError(
            "--username, --private-key-file, --use-azureml-ssh-key, --password and --password-stdin need the address "
            f"of {described.machine}",
            remedy=f"Add `--address HOST[:PORT]`, or omit these options to use {described.service}.",
        )


def _refuse_contradictions(arguments: argparse.Namespace, *, has_password: bool) -> None:
    if arguments.password is not None and arguments.password_stdin:
        raise UsageError(
            "--password cannot be used with --password-stdin", remedy="Omit --password or --password-stdin."
        )
    if arguments.private_key_file and has_password and not arguments.workbench_key:
        raise UsageError(
            "--private-key-file cannot be used with a password",
            remedy="Omit --private-key-file, or omit --password and --password-stdin.",
        )
    if arguments.private_key_passphrase is not None and not arguments.private_key_file:
        raise UsageError(
            "--private-key-passphrase needs --private-key-file",
            remedy="Add `--private-key-file FILE`, or omit --private-key-passphrase.",
        )


def _give_secrets(attachment: Attachment, arguments: argparse.Namespace) -> None:
    if ASK in (arguments.password, arguments.private_key_passphrase):
        prompts.require_terminal()
    # If the login is checked, `connect` asks for secrets after it has verified the host key.
    asks_now = arguments.no_check
    if arguments.password_stdin:
        attachment.give_password(prompts.secret_from_stdin())
    elif arguments.password is ASK and asks_now:
        user = f"{arguments.username}@" if arguments.username else ""
        attachment.give_password(prompts.ask_secret(f"Password of {user}{arguments.address}"))
    elif arguments.password not in (None, ASK):
        prompts.warn_of_visible_secret("--password")
        attachment.give_password(arguments.password)
    if arguments.private_key_passphrase is ASK and asks_now:
        attachment.give_passphrase(prompts.ask_secret(f"Passphrase of {arguments.private_key_file}"))
    elif arguments.private_key_passphrase not in (None, ASK):
        prompts.warn_of_visible_secret("--private-key-passphrase")
        attachment.give_passphrase(arguments.private_key_passphrase)


def _secret_place(kept: KeyringResult) -> dict[str, object]:
    return {"in_keyring": kept.in_keyring, "reason": kept.reason}


def _next_step(name: str, *, is_ready: bool, by_hand: bool) -> str:
    word = shlex.quote(name)
    if by_hand:
        return f"{name} is attached. Install the key, then run: workbench-tui computetarget check {word}"
    if not is_ready:
        return f"{name} is attached but not ready. Apply the fix, then run: workbench-tui computetarget check {word}"
    return f"{name} is attached. Run a script: workbench-tui experiment submit -c {word} SCRIPT"


def _over_ssh(project: Project, name: str) -> ComputeTarget:
    target = project.target(name)
    if not target.uses_ssh:
        raise UsageError(f"target {target.name!r} needs no login", remedy="Name a target that is reached over SSH.")
    return target


def _move_secrets(project: Project, target: ComputeTarget) -> ComputeTarget:
    if plain_text_secrets(target):
        move_secrets(target)
        notify(
            f"moved the secrets of {_short(project, target.path)} to the keyring. Change them if the file was "
            "committed or copied before."
        )
    return project.target(target.name)


def _short(project: Project, path: str) -> str:
    return path.removeprefix(f"{project.root}/")
