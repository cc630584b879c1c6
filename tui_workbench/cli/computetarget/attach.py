"""`computetarget attach|detach|login|disconnect`: machines come and go, and the secrets that let us in."""

from __future__ import annotations

import argparse
import sys

from tui_workbench.cli.computetarget.check import HOST_KEYS, RESULT, accept_host_keys, climb, exit_code, record
from tui_workbench.cli.shared import prompts
from tui_workbench.cli.shared.output import emit, is_text, tell, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.base.attach import LOCAL_DOCKER, REMOTE, TYPES, Attachment, AttachRequest
from tui_workbench.targets.base.detach import detach, move_secrets, plan_detaching, secrets_in_file
from tui_workbench.targets.base.secrets import KeyringResult
from tui_workbench.targets.checks.check import run_checks
from tui_workbench.targets.hosts.host_for import ssh_host_of

ASK = object()
"""Stands for the value of an option that was given without one."""


NAME = option("name", metavar="NAME", help="the compute target")

configure_detach = options(
    option("name", metavar="NAME", nargs="?", help="the compute target"),
    option("-n", "--name", dest="old_name", metavar="NAME", help="the same"),
    option("--force", action="store_true", help="even while runs are active on it"),
    RESULT,
)
configure_login = options(
    NAME,
    option("--password-stdin", action="store_true", help="read the secret from stdin, do not ask for it"),
    option(
        "--move-secrets", action="store_true", help="move a password that stands in the target's file to the keyring"
    ),
    HOST_KEYS,
    RESULT,
)
configure_disconnect = options(NAME, RESULT)


def configure_attach(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget attach`, in groups."""
    parser.usage = (
        "%(prog)s remotedocker --name NAME --address HOST[:PORT] [--username USER] [login options]\n"
        "       %(prog)s remote       --name NAME --address HOST[:PORT] [--username USER] [login options]\n"
        "       %(prog)s localdocker  --name NAME"
    )
    add = parser.add_argument
    add("type", metavar="TYPE", nargs="?", choices=TYPES,
        help="remotedocker (Docker over SSH), remote (Python over SSH) or localdocker")  # fmt: skip
    add("-t", "--type", dest="old_type", metavar="TYPE", choices=TYPES, help="the old form of TYPE")
    add("-n", "--name", metavar="NAME", required=True, help="what to call the target")
    add("-a", "--address", metavar="HOST[:PORT]", default="", help="name, address, or an alias of ~/.ssh/config")
    add("-u", "--username", metavar="USER", default="", help="default: as ssh would choose")
    login = parser.add_argument_group("login (default: what ssh would use: its agent, your keys, ~/.ssh/config)")
    add = login.add_argument
    add("--private-key-file", metavar="FILE", default="", help="a key to log in with")
    add("--private-key-passphrase", metavar="TEXT", nargs="?", const=ASK,
        help="what opens it; asked for when no TEXT is given")  # fmt: skip
    add("-k", "--use-azureml-ssh-key", dest="workbench_key", action="store_true",
        help="a key of the workbench's own, made once and installed on the machine")  # fmt: skip
    add("-w", "--password", metavar="TEXT", nargs="?", const=ASK,
        help="log in with a password; asked for when no TEXT is given")  # fmt: skip
    add("--password-stdin", action="store_true", help="the same, read from stdin")
    HOST_KEYS(login)
    machine = parser.add_argument_group("the target")
    machine.add_argument("--image", metavar="IMAGE", default="", help="baseDockerImage (default: suits the machine)")
    gpu = machine.add_mutually_exclusive_group()
    gpu.add_argument("--gpu", dest="gpu", action="store_true", default=None, help="nvidiaDocker: true")
    gpu.add_argument("--no-gpu", dest="gpu", action="store_false", help="false (default: whether there is one)")
    machine.add_argument("--python", metavar="PATH", default="", help="pythonLocation of a remote target")
    machine.add_argument("--no-check", action="store_true", help="write the files without asking the machine anything")
    RESULT(parser)


def run_attach(arguments: argparse.Namespace) -> int:
    """Attach, then check; 4 when the target is attached and cannot be used yet."""
    project = Project.find(arguments.project)
    request = _request(arguments)
    attachment = Attachment(project.root, request)
    for fingerprint in arguments.accept_host_key:
        attachment.accept_host_key(fingerprint)
    try:
        _give_secrets(attachment, arguments)
        if not arguments.no_check:
            prompts.reach(attachment.connect, attachment.accept_host_key, attachment.give)
        attached = attachment.write()
    except BaseException:
        attachment.abandon()
        raise
    if is_text(arguments):
        files = (attached.compute, attached.run_configuration)
        write_lines([*(f"wrote {_short(project, path)}" for path in files), *map(_kept, attached.kept)])
    target = project.target(request.name)
    key = attachment.install_by_hand
    if key is not None:
        tell(f"the workbench's key is not on {request.address} yet. On it, copy this:")
        sys.stderr.write(f"    {visible(key.install_command)}\n")
    rungs = [] if arguments.no_check or key is not None else climb(run_checks(target), target, arguments)
    result = {
        "name": request.name,
        "type": request.type,
        "compute": attached.compute,
        "runconfig": attached.run_configuration,
        "secrets": [one._asdict() for one in attached.kept],
        "check": [record(rung) for rung in rungs],
        "install": key.install_command if key is not None else None,
    }
    code = exit_code(rungs)
    emit(result, arguments, text=[_what_next(request.name, is_ready=not code, by_hand=key is not None)])
    return code


def run_detach(arguments: argparse.Namespace) -> int:
    """Move the target's files to the trash and remove its secrets."""
    name = arguments.name or arguments.old_name
    if not name:
        raise UsageError("which target?", remedy="Name it: computetarget detach NAME.")
    project = Project.find(arguments.project)
    detachment = plan_detaching(project, name)
    active = [run.run_id for run in Runs(project).list() if run.is_active and run.target == name]
    if active and not arguments.force:
        raise UsageError(
            f"{name} is in use by {', '.join(active)}", remedy="Wait for its end, cancel it, or add --force."
        )
    detach(detachment)
    notes, secrets = detachment.change_set.notes, detachment.references
    gone = [change.path for change in detachment.change_set.changes if change.after is None]
    kept = [change.path for change in detachment.change_set.changes if change.after not in (None, b"*\n")]
    text = [f"moved to the trash: {_short(project, path)}" for path in gone]
    text += [*(["its secret is removed"] if secrets else []), *notes]
    result = {"name": name, "files": gone, "trash": kept, "secrets_removed": len(secrets), "notes": list(notes)}
    return emit(result, arguments, text=text)


def run_login(arguments: argparse.Namespace) -> int:
    """Log in, give the secret that is missing, and keep it."""
    project = Project.find(arguments.project)
    target = _over_ssh(project, arguments.name)
    if arguments.move_secrets:
        target = _move_secrets(project, target)
    host = ssh_host_of(target)
    accept_host_keys(host, arguments.accept_host_key)
    if arguments.password_stdin:
        reference = target.password or target.private_key_passphrase
        if not reference:
            raise UsageError(f"{target.name} needs no secret", remedy="Leave --password-stdin out.")
        typed = {reference: prompts.secret_from_stdin()}
        host.give_secret(reference, typed[reference])
        host.run(["true"])
    else:
        typed = prompts.log_in(host)
    kept = prompts.keep(typed)
    status = host.status()
    text = [f"logged in on {target.address} as {status.get('username') or target.username}", *map(_kept, kept)]
    return emit({"name": target.name, **status, "secrets": [one._asdict() for one in kept]}, arguments, text=text)


def run_disconnect(arguments: argparse.Namespace) -> int:
    """End the connection that all programs share; runs go on, and who needs the machine next logs in anew."""
    target = _over_ssh(Project.find(arguments.project), arguments.name)
    ssh_host_of(target).disconnect()
    text = [f"disconnected from {target.address}; what runs there goes on"]
    return emit({"name": target.name, "state": "down"}, arguments, text=text)


# -- attaching -------------------------------------------------------------------------------------------------------


def _request(arguments: argparse.Namespace) -> AttachRequest:
    kind = arguments.type or arguments.old_type
    if kind is None:
        raise UsageError("what kind of target?", remedy=f"After `attach` comes one of: {', '.join(TYPES)}.")
    if arguments.type and arguments.old_type and arguments.type != arguments.old_type:
        raise UsageError(f"is it {arguments.type} or {arguments.old_type}?", remedy="Leave --type out.")
    if arguments.old_type:
        tell(f"--type is the old form. The current one: workbench-tui computetarget attach {kind} --name ...")
    has_password = arguments.password is not None or arguments.password_stdin
    _refuse_contradictions(arguments, kind, has_password=has_password)
    return AttachRequest(
        type=kind,
        name=arguments.name,
        address=arguments.address,
        username=arguments.username,
        has_password=has_password,
        private_key=arguments.private_key_file,
        workbench_key=arguments.workbench_key,
        image=arguments.image,
        gpu=arguments.gpu,
        python=arguments.python,
    )


def _refuse_contradictions(arguments: argparse.Namespace, kind: str, *, has_password: bool) -> None:
    login = arguments.private_key_file or arguments.workbench_key or has_password
    if kind == LOCAL_DOCKER and (login or arguments.address or arguments.username):
        raise UsageError("localdocker is this machine's own Docker", remedy="Leave out address and login.")
    if kind == REMOTE and (arguments.image or arguments.gpu is not None):
        raise UsageError("a remote target has no Docker image and sees every GPU", remedy="Leave --image, --gpu out.")
    if kind != REMOTE and arguments.python:
        raise UsageError("--python is for remote targets", remedy="The image brings the Python of a Docker target.")
    if arguments.password is not None and arguments.password_stdin:
        raise UsageError("--password and --password-stdin cannot both be", remedy="Leave one out.")
    if arguments.private_key_file and has_password and not arguments.workbench_key:
        raise UsageError("a key or a password, not both", remedy="Leave one out.")
    if arguments.private_key_passphrase is not None and not arguments.private_key_file:
        raise UsageError("a passphrase without a key", remedy="Name the key with --private-key-file.")


def _give_secrets(attachment: Attachment, arguments: argparse.Namespace) -> None:
    if ASK in (arguments.password, arguments.private_key_passphrase):
        prompts.require_terminal()
    # Who connects asks for it, once the machine is known to be the right one.
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


def _what_next(name: str, *, is_ready: bool, by_hand: bool) -> str:
    if by_hand:
        return f"{name} is attached. When the key is there: workbench-tui computetarget check {name}"
    if not is_ready:
        return f"{name} is attached, and not ready yet. When that is mended: workbench-tui computetarget check {name}"
    return f"{name} is attached. Run on it: workbench-tui experiment submit -c {name} SCRIPT"


def _kept(kept: KeyringResult) -> str:
    if kept.in_keyring:
        return "the secret is in the keyring"
    return (
        f"the secret is held in memory only ({kept.reason}): "
        "after a day without use, or a restart, `computetarget login` asks for it again"
    )


# -- the others ------------------------------------------------------------------------------------------------------


def _over_ssh(project: Project, name: str) -> ComputeTarget:
    target = project.target(name)
    if not target.kind.is_remote:
        raise UsageError(f"{name} is this machine: there is no login", remedy="Name a target over SSH.")
    return target


def _move_secrets(project: Project, target: ComputeTarget) -> ComputeTarget:
    if secrets_in_file(target):
        move_secrets(target)
        tell(
            f"the secrets of {_short(project, target.path)} are in the keyring now. Where the file was committed or "
            "copied before, they still stand: change them."
        )
    return project.target(target.name)


def _short(project: Project, path: str) -> str:
    return path.removeprefix(f"{project.root}/")
