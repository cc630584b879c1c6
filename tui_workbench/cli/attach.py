"""`computetarget attach|detach|login|disconnect`: machines come and go, and the secrets that let us in."""

from __future__ import annotations

import sys

from tui_workbench.cli.asking import (
    ask_secret,
    keep,
    log_in,
    reach,
    require_terminal,
    secret_from_stdin,
    warn_of_visible_secret,
)
from tui_workbench.cli.output import emit
from tui_workbench.cli.targetcheck import (
    add_host_key_option,
    add_result_options,
    climb,
    exit_code,
    is_text,
    record,
)
from tui_workbench.errors import UsageError
from tui_workbench.model import REMOTE_TYPES
from tui_workbench.plaintext import visible
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.attach import LOCAL_DOCKER, REMOTE, TYPES, Attachment, AttachRequest

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.attach import Attached
    from tui_workbench.targets.secrets import Kept

ASK = object()
"""Stands for the value of an option that was given without one."""


def configure_attach(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget attach`."""
    parser.usage = (
        "%(prog)s remotedocker --name NAME --address HOST[:PORT] [--username USER] [login options]\n"
        "       %(prog)s remote       --name NAME --address HOST[:PORT] [--username USER] [login options]\n"
        "       %(prog)s localdocker  --name NAME"
    )
    parser.add_argument("type", metavar="TYPE", nargs="?", choices=TYPES,
                        help="remotedocker (Docker over SSH), remote (Python over SSH) or localdocker")  # fmt: skip
    parser.add_argument("-t", "--type", dest="old_type", metavar="TYPE", choices=TYPES, help="the old form of TYPE")
    parser.add_argument("-n", "--name", metavar="NAME", required=True, help="what to call the target")
    parser.add_argument("-a", "--address", metavar="HOST[:PORT]", default="",
                        help="name, address, or an alias of ~/.ssh/config")  # fmt: skip
    parser.add_argument("-u", "--username", metavar="USER", default="", help="default: as ssh would choose")
    login = parser.add_argument_group("login (default: what ssh would use: its agent, your keys, ~/.ssh/config)")
    login.add_argument("--private-key-file", metavar="FILE", default="", help="a key to log in with")
    login.add_argument("--private-key-passphrase", metavar="TEXT", nargs="?", const=ASK,
                       help="what opens it; asked for when no TEXT is given")  # fmt: skip
    login.add_argument("-k", "--use-azureml-ssh-key", dest="workbench_key", action="store_true",
                       help="a key of the workbench's own, made once and installed on the machine")  # fmt: skip
    login.add_argument("-w", "--password", metavar="TEXT", nargs="?", const=ASK,
                       help="log in with a password; asked for when no TEXT is given")  # fmt: skip
    login.add_argument("--password-stdin", action="store_true", help="the same, read from stdin")
    add_host_key_option(login)  # type: ignore[arg-type]  # a group takes arguments as a parser does
    machine = parser.add_argument_group("the target")
    machine.add_argument("--image", metavar="IMAGE", default="", help="baseDockerImage (default: suits the machine)")
    gpu = machine.add_mutually_exclusive_group()
    gpu.add_argument("--gpu", dest="gpu", action="store_true", default=None, help="nvidiaDocker: true")
    gpu.add_argument("--no-gpu", dest="gpu", action="store_false", help="false (default: whether there is one)")
    machine.add_argument("--python", metavar="PATH", default="", help="pythonLocation of a remote target")
    machine.add_argument("--no-check", action="store_true", help="write the files without asking the machine anything")
    add_result_options(parser)


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
            reach(attachment.connect, attachment.accept_host_key, attachment.give)
        attached = attachment.write()
    except BaseException:
        attachment.abandon()
        raise
    in_text = is_text(arguments)
    if in_text:
        _say(_written(project, attached))
    target = project.target(request.name)
    key = attachment.install_by_hand
    if key is not None:
        _warn(f"the workbench's key is not on {request.address} yet. On it, copy this:\n    {key.install_command}")
    rungs = [] if arguments.no_check or key is not None else climb(target, in_text=in_text)
    code = exit_code(rungs)
    if in_text:
        _say([_what_next(request.name, is_ready=not code, by_hand=key is not None)])
    else:
        result = _result(request, attached)
        result["check"] = [record(rung) for rung in rungs]
        result["install"] = key.install_command if key is not None else None
        emit(result, arguments)
    return code


def configure_detach(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget detach`."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the compute target")
    parser.add_argument("-n", "--name", dest="old_name", metavar="NAME", help="the same")
    parser.add_argument("--force", action="store_true", help="even while runs are active on it")
    add_result_options(parser)


def run_detach(arguments: argparse.Namespace) -> int:
    """Move the target's files to the trash and remove its secrets."""
    from tui_workbench.runs import Runs
    from tui_workbench.targets.detach import detach, plan_detaching

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
    gone = [change.path for change in detachment.change_set.changes if change.after is None]
    kept = [change.path for change in detachment.change_set.changes if change.after not in (None, b"*\n")]
    if is_text(arguments):
        _say([f"moved to the trash: {_short(project, path)}" for path in gone])
        _say(["its secret is removed"] if detachment.references else [])
        _say(detachment.change_set.notes)
    else:
        result = {"name": name, "files": gone, "trash": kept, "secrets_removed": len(detachment.references)}
        emit(result | {"notes": list(detachment.change_set.notes)}, arguments)
    return 0


def configure_login(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget login`."""
    parser.add_argument("name", metavar="NAME", help="the compute target")
    parser.add_argument("--password-stdin", action="store_true", help="read the secret from stdin, do not ask for it")
    parser.add_argument("--move-secrets", action="store_true",
                        help="move a password that stands in the target's file to the keyring")  # fmt: skip
    add_host_key_option(parser)
    add_result_options(parser)


def run_login(arguments: argparse.Namespace) -> int:
    """Log in, give the secret that is missing, and keep it."""
    project = Project.find(arguments.project)
    target = _over_ssh(project, arguments.name)
    if arguments.move_secrets:
        target = _move_secrets(project, target)
    from tui_workbench.targets.host_for import ssh_host_of

    host = ssh_host_of(target)
    for fingerprint in arguments.accept_host_key:
        host.accept_host_key(fingerprint)
    if arguments.password_stdin:
        reference = target.password or target.private_key_passphrase
        if not reference:
            raise UsageError(f"{target.name} needs no secret", remedy="Leave --password-stdin out.")
        typed = {reference: secret_from_stdin()}
        host.give_secret(reference, typed[reference])
        host.run(["true"])
    else:
        typed = log_in(host)
    kept = keep(typed)
    status = host.status()
    if is_text(arguments):
        _say([f"logged in on {target.address} as {status.get('username') or target.username}", *map(_kept, kept)])
    else:
        emit({"name": target.name, **status, "secrets": [one._asdict() for one in kept]}, arguments)
    return 0


def configure_disconnect(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget disconnect`."""
    parser.add_argument("name", metavar="NAME", help="the compute target")
    add_result_options(parser)


def run_disconnect(arguments: argparse.Namespace) -> int:
    """End the connection that all programs share; runs go on, and who needs the machine next logs in anew."""
    target = _over_ssh(Project.find(arguments.project), arguments.name)
    from tui_workbench.targets.host_for import ssh_host_of

    ssh_host_of(target).disconnect()
    if is_text(arguments):
        _say([f"disconnected from {target.address}; what runs there goes on"])
    else:
        emit({"name": target.name, "state": "down"}, arguments)
    return 0


# -- attaching -------------------------------------------------------------------------------------------------------


def _request(arguments: argparse.Namespace) -> AttachRequest:
    kind = arguments.type or arguments.old_type
    if kind is None:
        raise UsageError("what kind of target?", remedy=f"After `attach` comes one of: {', '.join(TYPES)}.")
    if arguments.type and arguments.old_type and arguments.type != arguments.old_type:
        raise UsageError(f"is it {arguments.type} or {arguments.old_type}?", remedy="Leave --type out.")
    if arguments.old_type:
        _warn(f"--type is the old form. The current one: workbench-tui computetarget attach {kind} --name ...")
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
        require_terminal()
    # Who connects asks for it, once the machine is known to be the right one.
    asks_now = arguments.no_check
    if arguments.password_stdin:
        attachment.give_password(secret_from_stdin())
    elif arguments.password is ASK and asks_now:
        user = f"{arguments.username}@" if arguments.username else ""
        attachment.give_password(ask_secret(f"Password of {user}{arguments.address}"))
    elif arguments.password not in (None, ASK):
        warn_of_visible_secret("--password")
        attachment.give_password(arguments.password)
    if arguments.private_key_passphrase is ASK and asks_now:
        attachment.give_passphrase(ask_secret(f"Passphrase of {arguments.private_key_file}"))
    elif arguments.private_key_passphrase not in (None, ASK):
        warn_of_visible_secret("--private-key-passphrase")
        attachment.give_passphrase(arguments.private_key_passphrase)


def _what_next(name: str, *, is_ready: bool, by_hand: bool) -> str:
    if by_hand:
        return f"{name} is attached. When the key is there: workbench-tui computetarget check {name}"
    if not is_ready:
        return f"{name} is attached, and not ready yet. When that is mended: workbench-tui computetarget check {name}"
    return f"{name} is attached. Run on it: workbench-tui experiment submit -c {name} SCRIPT"


def _written(project: Project, attached: Attached) -> list[str]:
    files = [f"wrote {_short(project, path)}" for path in (attached.compute, attached.run_configuration)]
    return files + [_kept(one) for one in attached.kept]


def _result(request: AttachRequest, attached: Attached) -> dict[str, Any]:
    return {
        "name": request.name,
        "type": request.type,
        "compute": attached.compute,
        "runconfig": attached.run_configuration,
        "secrets": [one._asdict() for one in attached.kept],
    }


def _kept(kept: Kept) -> str:
    if kept.in_keyring:
        return "the secret is in the keyring"
    return (
        f"the secret is held in memory only ({kept.reason}): "
        "after a day without use, or a restart, `computetarget login` asks for it again"
    )


# -- the others ------------------------------------------------------------------------------------------------------


def _over_ssh(project: Project, name: str) -> ComputeTarget:
    target = project.target(name)
    if target.type not in REMOTE_TYPES:
        raise UsageError(f"{name} is this machine: there is no login", remedy="Name a target over SSH.")
    return target


def _move_secrets(project: Project, target: ComputeTarget) -> ComputeTarget:
    from tui_workbench.targets.detach import move_secrets, secrets_in_file

    if secrets_in_file(target):
        move_secrets(target)
        _warn(
            f"the secrets of {_short(project, target.path)} are in the keyring now. Where the file was committed or "
            "copied before, they still stand: change them."
        )
    return project.target(target.name)


def _short(project: Project, path: str) -> str:
    return path.removeprefix(f"{project.root}/")


def _say(lines: list[str] | tuple[str, ...]) -> None:
    for line in lines:
        sys.stdout.write(visible(line) + "\n")
    sys.stdout.flush()


def _warn(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write("workbench-tui: " + "\n".join(visible(line) for line in text.split("\n")) + "\n")
