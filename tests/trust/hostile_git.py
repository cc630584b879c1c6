"""A received folder in which every place that can name a program names a trap.

The traps are in the received folder, and beside it at a path that only the project names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import count
from pathlib import Path

from tests.runs.support import write_configuration, write_files
from tests.trust.hostile import Hostile

PROGRAM_KEYS = (
    "alias.*",
    "browser.<tool>.cmd", "browser.<tool>.path",
    "core.alternateRefsCommand", "core.askPass", "core.editor", "core.fsmonitor", "core.gitProxy", "core.hooksPath",
    "core.pager", "core.sshCommand",
    "credential.helper", "credential.<url>.helper",
    "diff.<driver>.command", "diff.<driver>.textconv", "diff.external", "diff.guitool", "diff.tool",
    "difftool.<tool>.cmd", "difftool.<tool>.path",
    "filter.<driver>.clean", "filter.<driver>.smudge", "filter.<driver>.process",
    "gpg.<format>.program", "gpg.program", "gpg.ssh.defaultKeyCommand",
    "guitool.<name>.cmd",
    "help.browser",
    "imap.tunnel",
    "init.templateDir",
    "instaweb.browser", "instaweb.httpd",
    "interactive.diffFilter",
    "lfs.customtransfer.<name>.path", "lfs.extension.<name>.clean", "lfs.extension.<name>.smudge",
    "lfs.standalonetransferagent",
    "man.<tool>.cmd", "man.<tool>.path",
    "merge.<driver>.driver", "merge.guitool", "merge.tool",
    "mergetool.<tool>.cmd", "mergetool.<tool>.path",
    "pager.<cmd>",
    "receive.procReceiveRefs",
    "remote.<name>.receivepack", "remote.<name>.uploadpack", "remote.<name>.vcs", "remote.<name>.proxy",
    "sendemail.ccCmd", "sendemail.headerCmd", "sendemail.sendmailCmd", "sendemail.smtpServer", "sendemail.tocmd",
    "sequence.editor",
    "submodule.<name>.update",
    "tar.<format>.command",
    "trailer.<token>.cmd", "trailer.<token>.command",
    "uploadpack.packObjectsHook",
    "web.browser",
)  # fmt: skip
"""The keys of git, and of git-lfs, whose value is a program or a folder with programs."""

SCOPE_KEYS = ("include.path", "includeIf.<condition>.path")
"""The keys that include another configuration file."""

_OTHER = """
browser.<tool>.path clean.requireForce clone.filterSubmodules color.pager color.status.updated column.clean
commit.cleanup commit.template commitGraph.maxNewFilters completion.commands core.fsmonitorHookVersion
diff.<driver>.binary diff.<driver>.cachetextconv diff.<driver>.wordRegex diff.<driver>.xfuncname
difftool.prompt difftool.trustExitCode fetch.showForcedUpdates format.coverFromDescription
fsck.gitmodulesUpdate fsmonitor.allowRemote fsmonitor.socketDir gitcvs.dbDriver gui.newBranchTemplate
http.proxy http.proxyAuthMethod http.proxySSLCAInfo http.proxySSLCert http.proxySSLCertPasswordProtected
http.proxySSLKey merge.<driver>.name merge.<driver>.recursive mergetool.hideResolved mergetool.keepBackup
mergetool.keepTemporaries mergetool.prompt mergetool.writeToTemp notes.rewrite.<command>
rebase.abbreviateCommands rebase.rescheduleFailedExec rebase.updateRefs receive.fsck.gitmodulesUpdate
receive.shallowUpdate receive.updateServerInfo remote.<name>.partialclonefilter remote.<name>.proxyAuthMethod
remote.<name>.skipDefaultUpdate repack.updateServerInfo rerere.autoUpdate sendemail.aliasFileType
sendemail.aliasesFile sendemail.forbidSendmailVariables sendemail.smtpServerOption sendemail.smtpServerPort
uploadpack.allowFilter uploadpackfilter.<filter>.allow uploadpackfilter.allow uploadpackfilter.tree.maxDepth
repack.filter repack.filterTo maintenance.autoDetach core.logAllRefUpdates push.recurseSubmodules
"""

OTHER_KEYS = frozenset(_OTHER.split())
"""Keys whose names look like those of programs, but whose values are not programs."""

_LOOKS_LIKE_A_PROGRAM = re.compile(
    r"command|cmd|program|helper|editor|pager|hook|proxy|tool\b|driver|clean|smudge|process|textconv|external|askpass"
    r"|monitor|browser|filter|tunnel|vcs|pack$|sendmail|smtpserver|alias|httpd|update|template|exec|script|\.path$",
    re.IGNORECASE,
)
_MESSAGES = re.compile(r"advice\.|guitool\.<name>\.|mergetool\.<(?:tool|variant)>\.|mergetool\.\w+\.\w+|.*escription")

DRIVERS = ("evil", "", "lfs", "a.b", "a=b", "EVIL", "ä")
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-rewrite", "post-update", "pre-auto-gc", "pre-commit", "pre-push",
    "pre-rebase", "prepare-commit-msg", "proc-receive", "push-to-checkout", "query-watchman", "reference-transaction",
)  # fmt: skip
COMMANDS = ("status", "diff", "config", "check-attr", "ls-files", "log", "cat-file", "ls-tree", "version", "init")

PROGRAMS = (
    "git", "git-lfs", "git-status", "sh", "bash", "env", "python", "python3", "nvidia-smi", "amd-smi", "rocm-smi",
    "docker", "ssh", "tmux", "less", "vi", "nano", "uv", "ps", "df", "stat", "readlink", "java", "spark-submit",
    "xclip", "squeue", "sbatch", "conda", "rm", "uname",
)  # fmt: skip
"""Names of programs that the workbench or its programs may look up."""

MODULES = ("sitecustomize", "usercustomize", "json", "yaml", "torch", "textual", "workbench", "conftest", "setup")


def unknown_program_keys() -> list[str]:
    """Return the keys in git's own list that look like programs, but that this module does not know."""
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout.split("\n")
    known = {key.lower() for key in (*PROGRAM_KEYS, *SCOPE_KEYS, *OTHER_KEYS)}
    like = [key for key in listed if _LOOKS_LIKE_A_PROGRAM.search(key) and not _MESSAGES.match(key)]
    assert len(like) > 50, "git lists its keys in another form"
    return [key for key in like if key.lower() not in known]


class Received:
    """A received folder with the project `root`; `tools` is beside the project, `named` beside the folder."""

    def __init__(self, folder: Path, remote: dict[str, str] | None = None) -> None:
        self.folder = folder / "received"
        self.folder.mkdir()
        hostile = Hostile(self.folder)
        self.root = hostile.root
        self.canary = hostile.canary
        self.tools = self.folder / "tools"
        self.named = folder / "named"
        self._numbers = count(1)
        for place in (self.tools, self.named):
            place.mkdir()
        shutil.rmtree(self.root / ".git")
        self._add_files()
        self._commit()
        self._add_configuration(remote)
        self._add_scopes()
        self._add_snapshot_repository()
        for path in self.root.glob("driven/**/*.py"):
            if path.parent.name == "top":
                path.write_text("2\n")
            os.utime(path, (1, 1))

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The folders that contain no program that may be executed."""
        return os.path.realpath(self.folder), os.path.realpath(self.named)

    def trap(self, path: Path | None = None) -> str:
        """Create a program that creates the canary, by default at a new path outside the received folder."""
        path = path or self.named / f"trap-{next(self._numbers)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.canary}'\ncase $* in *sys*) echo 3.9.1 ;; esac\ncat\n")
        path.chmod(0o755)
        return str(path)

    def _add_files(self) -> None:
        for folder in (self.root, self.root / "bin", self.root / ".venv" / "bin", self.tools):
            for name in PROGRAMS:
                self.trap(folder / name)
        python = self.root / "linked" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to("/usr/bin/python3")
        code = f"open({str(self.canary)!r}, 'a').write(__name__)\n"
        for name in MODULES:
            write_files(self.root, {f"{name}.py": code})
        write_files(self.root / "linked", {"pyvenv.cfg": "home = /usr/bin\nversion = 3.11.2\n"})
        write_files(
            self.root, {f"linked/lib/python3.{n}/site-packages/evil.pth": f"import os; {code}" for n in (9, 11)}
        )
        shell = f"touch '{self.canary}'\n"
        for name in (".envrc", ".bashrc", ".profile", ".env", ".python-version", ".tool-versions", ".tmux.conf"):
            write_files(self.root, {name: shell})
        write_files(
            self.root,
            {
                "themes/evil.yaml": f"name: evil\nprogram: {self.trap()}\n",
                "keys.yaml": f"run: {self.trap()}\n",
                "settings.yaml": f"editor: {self.trap()}\nshell: {self.trap()}\n",
                ".vscode/settings.json": f'{{"python.defaultInterpreterPath": "{self.trap()}"}}',
                "pyproject.toml": f'[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
                f'[tool.uv]\npython = "{self.trap()}"\n',
                "uv.toml": f'python = "{self.trap()}"\n',
                "Makefile": f"all:\n\t{self.trap()}\n",
                "conda.yml": "dependencies:\n  - python=3.11\n  - pip:\n    - numpy\n    - -e .\n",
                ".lfsconfig": f'[lfs "extension.evil"]\n\tclean = {self.trap()}\n',
                ".gitmodules": f'[submodule "inner"]\n\tpath = inner\n\turl = ext::{self.trap()}\n'
                f"\tupdate = !{self.trap()}\n",
            },
        )

    def _commit(self) -> None:
        """Commit the files, with one file for each driver, before the configuration becomes hostile."""
        self._git("init", "-q")
        for source in ("top", "folder", "info"):
            for number in range(len(DRIVERS) * len(self._scopes())):
                write_files(self.root / "driven" / source, {f"f{number}.py": "1\n"})
        inner = self.root / "inner"
        inner.mkdir()
        write_files(inner, {"f0.py": "1\n"})
        subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
        for folder in (inner, self.root):
            self._git("add", "-A", folder=folder)
            self._git("commit", "-q", "-m", "first", folder=folder)
        os.utime(inner / "f0.py", (1, 1))

    def _git(self, *arguments: str, folder: Path | None = None) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.excludesFile=/dev/null")
        words = ["git", *identity, "-c", "advice.addEmbeddedRepo=false", *arguments]
        subprocess.run(words, cwd=folder or self.root, check=True, capture_output=True)

    def _scopes(self) -> dict[str, str]:
        """Return the scopes: the file of the configuration, and the section in `config` that includes it."""
        included = {
            "include": "[include]",
            "gitdir": '[includeIf "gitdir:**"]',
            "gitdir-case": '[includeIf "gitdir/i:**"]',
            "branch": '[includeIf "onbranch:**"]',
            "remote": '[includeIf "hasconfig:remote.*.url:https://x.example/**"]',
        }
        return {"config": "", "config.worktree": "", **{f"{name}.inc": section for name, section in included.items()}}

    def _add_scopes(self) -> None:
        scopes = self._scopes()
        config = (
            '[extensions]\n\tworktreeConfig = true\n[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
        )
        for name, section in scopes.items():
            config += f"{section}\n\tpath = {name}\n" if section else ""
        self._append(".git/config", config)
        self._append(".git/config.worktree", '[remote "y"]\n\turl = https://x.example/a\n')
        lines: dict[str, list[str]] = {"top": [], "folder": [], "info": []}
        number = 0
        for scope in scopes:
            drivers = [f"{driver}-{scope}" if driver == "evil" else driver for driver in DRIVERS]
            self._append(f".git/{scope}", self._every_key(drivers, scope))
            for driver in drivers:
                for source, found in lines.items():
                    prefix = {"top": "driven/top/", "folder": "", "info": "driven/info/"}[source]
                    found.append(f"{prefix}f{number}.py filter={driver} diff={driver} merge={driver}\n")
                number += 1
        (self.root / ".gitattributes").write_text("".join(lines["top"]))
        (self.root / "driven/folder/.gitattributes").write_text("".join(lines["folder"]))
        (self.root / ".git/info/attributes").write_text("".join(lines["info"]))
        self._append("inner/.git/config", self._every_key(["evil"], "inner"))
        write_files(self.root, {"inner/.gitattributes": "* filter=evil diff=evil\n"})
        for folder in (".git/hooks", "inner/.git/hooks"):
            for hook in HOOKS:
                self.trap(self.root / folder / hook)

    def _every_key(self, drivers: list[str], scope: str) -> str:
        """Return a configuration with every key that names a program; the names of the traps contain the scope."""
        text = []
        for key in PROGRAM_KEYS:
            section, *middle, name = key.split(".")
            if (section == "core" and name == "hooksPath") or section == "init":
                value = str(self.named / "hooks")
                for hook in HOOKS:
                    self.trap(self.named / "hooks" / hook)
            else:
                mark = "!" if section in ("alias", "submodule", "credential") else ""
                value = mark + self.trap(self.named / f"{scope}-{section}-{name.strip('*<>')}")
            if name in ("*", "<cmd>"):
                text += [f"[{section}]", *(f"\t{command} = {value}" for command in COMMANDS)]
                continue
            place = ".".join(middle)
            # A driver with `process` does not use `clean`.
            chosen = drivers if name != "process" else ["EVIL"]
            for driver in chosen if "<driver>" in middle else ["evil"]:
                inner = re.sub(r"<\w+>", lambda _, driver=driver: driver, place)  # type: ignore[misc]
                header = f'[{section} "{inner}"]' if middle else f"[{section}]"
                text += [header, f"\t{name} = {value}"]
        text += ['[remote "origin"]', "\tpromisor = true", "\tpartialclonefilter = blob:none"]
        if not scope.endswith(".inc"):  # git refuses URLs in files whose inclusion can depend on URLs
            text += [f"\turl = ext::{self.trap()}"]
        return "\n".join(text) + "\n"

    def _add_snapshot_repository(self) -> None:
        repository = self.root / ".workbench" / "snapshots.git"
        self._append(".workbench/snapshots.git/config", self._every_key(["evil"], "inner"))
        (repository / "info").mkdir(exist_ok=True)
        (repository / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
        for hook in HOOKS:
            self.trap(repository / "hooks" / hook)

    def _append(self, name: str, text: str) -> None:
        with (self.root / name).open("a") as file:
            file.write(text)

    def _add_configuration(self, remote: dict[str, str] | None) -> None:
        """Add targets and run configurations, whose values name programs."""
        pythons = {
            "local": "bin/python3", "beside": "../tools/python3", "outside": self.trap(self.named / "python3"),
            "venv": ".venv/bin/python", "linked": "linked/bin/python", "bare": "python",
        }  # fmt: skip
        variables = {
            "PATH": f"{self.root}/bin", "PYTHONPATH": str(self.root), "PYTHONSTARTUP": str(self.root / "json.py"),
            "LD_PRELOAD": self.trap(), "SPARK_HOME": str(self.root), "JAVA_HOME": str(self.root),
            "EDITOR": self.trap(), "SHELL": self.trap(), "GIT_SSH_COMMAND": self.trap(),
            "GIT_EXTERNAL_DIFF": self.trap(),
        }  # fmt: skip
        for name, python in pythons.items():
            for managed in (False, True):
                target = f"{name}-managed" if managed else name
                write_configuration(
                    self.root, target, suffix="compute", type="local", pythonLocation=python, gpus="1",
                    userManagedEnvironment=not managed, sparkSubmitLocation=f"{self.root}/bin/spark-submit",
                    nativeSharedDirectory=str(self.root / "share"),
                )  # fmt: skip
                write_configuration(
                    self.root, target, suffix="runconfig", Target=target, EnvironmentVariables=variables,
                    TrackedRun=True, Framework="PySpark" if name == "venv" else "Python", RequireGpu=name == "linked",
                    CondaDependenciesFile="conda.yml", PrepareEnvironment=True, ArgumentVector=["$file"],
                )  # fmt: skip
        write_configuration(
            self.root, "engine", suffix="compute", type="docker", address=f"unix://{self.named}/engine",
            baseDockerImage=f"$({self.trap()})", sharedVolumes=True,
        )  # fmt: skip
        write_configuration(self.root, "engine", suffix="runconfig", Target="engine", Framework="Python")
        for number, change in enumerate(
            (
                {"address": f"x:1 -oProxyCommand={self.trap()} y.corp"},
                {"address": "y.corp", "username": f"a -oProxyCommand={self.trap()}"},
                {"address": f"-oProxyCommand={self.trap()}"},
                {"address": f"$({self.trap()}).corp"},
                {"address": "y.corp", "username": f"`{self.trap()}`"},
            )
        ):
            values = {"type": "remote", "username": "u", "pythonLocation": self.trap(), **change}
            write_configuration(self.root, f"box{number}", suffix="compute", **values)
            write_configuration(
                self.root, f"box{number}", suffix="runconfig", Target=f"box{number}", Framework="Python"
            )
        if remote is not None:
            write_configuration(self.root, "machine", suffix="compute", **remote)
            write_configuration(
                self.root, "machine", suffix="runconfig", Target="machine", Framework="Python", TrackedRun=True,
                ArgumentVector=["$file"],
            )  # fmt: skip
