"""Every field of every kind of configuration file, in the order in which a person writes them.

Sources: `docs` is the original product's documentation (2017-2018), `template` the comments in the files it generated,
`files` real files of public projects, `sdk` the successor SDK of 2018, `conda` and `spark` those projects' own
documentation, `workbench` what this program adds.
"""

from __future__ import annotations

import os

from tui_workbench.config.schema.field_types import (
    ANY,
    BOOLEAN,
    CHOICE,
    DEPENDENCIES,
    FRAMEWORKS,
    GPUS,
    INTEGER,
    MAPPING,
    PROCESSES,
    ROWS,
    STRINGS,
    Field,
    FileKind,
)
from tui_workbench.core.directories import settings_path
from tui_workbench.core.target_types import SYNONYMS, built_in_names

_COMPUTE_FIELDS = (
    Field(
        "type",
        "What kind of machine this is: this one, Docker here, Docker over SSH, Python over SSH, or a Spark cluster.",
        CHOICE,
        choices=built_in_names(),
        synonyms=tuple(SYNONYMS.items()),
        required=True,
        nullable=False,
    ),
    Field(
        "address",
        "Name or IP address of the machine, with `:PORT` when SSH does not listen on 22; an alias of "
        "~/.ssh/config works.",
        example="gpu-box.example.org",
    ),
    Field(
        "username",
        "The user to log in as; for a cluster the SSH user (`sshuser` by default), not `admin`.",
        example="research",
    ),
    Field(
        "password",
        "A reference to the password in the keyring, `AzureMlSecret=<target>#<user>#<id>`; never the password itself.",
        secret=True,
        example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
    ),
    Field(
        "privateKey",
        "A private key file to log in with; without one those of the SSH agent and of ~/.ssh are tried.",
        completion="file",
        example="~/.ssh/id_ed25519",
        source="workbench",
    ),
    Field(
        "privateKeyPassphrase",
        "A reference to the private key's passphrase in the keyring, `AzureMlSecret=...`; never the passphrase.",
        secret=True,
        example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
        source="workbench",
    ),
    Field(
        "pythonLocation",
        "The Python interpreter that runs scripts; `python` is the one that is first on the PATH.",
        default="python",
        completion="python",
        example="/opt/venv/bin/python",
    ),
    Field(
        "sparkSubmitLocation",
        "The spark-submit program for local Spark runs.",
        default="spark-submit",
        completion="file",
        source="template",
    ),
    Field(
        "baseDockerImage",
        "The Docker image that a run's environment is built on; for a GPU it must hold CUDA.",
        completion="image",
        example="microsoft/mmlspark:plus-gpu-0.9.9",
    ),
    Field("nvidiaDocker", "Gives the container the machine's NVIDIA GPUs (Linux hosts only).", BOOLEAN, default=False),
    Field(
        "gpus",
        "Which GPUs a run gets: `all`, a number of free ones, `free` for one, or a list of numbers or ids as in "
        "nvidia-smi. A free one is held by nobody's process and by no other run of yours.",
        GPUS,
        example="free",
        source="workbench",
    ),
    Field(
        "sharedVolumes",
        "Mounts the project into the container instead of copying it; the shared folder is mounted either way.",
        BOOLEAN,
        default=True,
    ),
    Field(
        "nativeSharedDirectory",
        "Base of the folder that all runs of a project share on this target ($AZUREML_NATIVE_SHARE_DIRECTORY).",
        default="~/.azureml/share/",
        completion="folder",
    ),
    Field(
        "userManagedEnvironment",
        "True: the target's Python is used as it is. False: an environment is made from the conda dependencies file.",
        BOOLEAN,
        default=True,
    ),
    Field(
        "maxConcurrentRuns",
        "How many runs may go on here at a time, from all projects of this user; more wait in line. 0 for no "
        "limit. Without it there is none, but with `nvidiaDocker` a run waits until a GPU is free.",
        INTEGER,
        example="2",
        minimum=0,
        source="workbench",
    ),
    Field(
        "yarnDeployMode",
        "Where the Spark driver runs; `client` is needed for notebooks.",
        CHOICE,
        default="cluster",
        choices=("cluster", "client"),
    ),
    Field(
        "cluster", "Old form of `type: cluster`, from the summer of 2017.", BOOLEAN, replaced_by="type", source="files"
    ),
    Field(
        "native", "Old mark of a cluster target, from the summer of 2017.", BOOLEAN, replaced_by="type", source="files"
    ),
)
COMPUTE = FileKind(
    "compute",
    "Compute target",
    "aml_config/NAME.compute",
    "A machine or engine that runs scripts. The file's name is the target's name.",
    _COMPUTE_FIELDS,
)

_RUNCONFIG_FIELDS = (
    Field(
        "ArgumentVector",
        "The script and its arguments; `$file` stands for the script that is selected when the run starts.",
        STRINGS,
        default=("$file",),
        example="[$file, --epochs, 10]",
    ),
    Field(
        "Target",
        "Name of the compute target to run on.",
        required=True,
        nullable=False,
        completion="target",
        example="local",
    ),
    Field(
        "EnvironmentVariables", "Environment variables set for the run.", MAPPING, default={}, example="{EPOCHS: 10}"
    ),
    Field(
        "Framework",
        "What starts the script: plain Python, or Spark. A missing line means PySpark.",
        CHOICE,
        default="PySpark",
        choices=FRAMEWORKS,
    ),
    Field(
        "CondaDependenciesFile",
        "The conda environment file of this configuration, relative to the project.",
        default="aml_config/conda_dependencies.yml",
        completion="conda-file",
    ),
    Field(
        "SparkDependenciesFile",
        "The Spark packages file of this configuration, relative to the project; read with `Framework: PySpark` only.",
        default="aml_config/spark_dependencies.yml",
        completion="spark-file",
    ),
    Field(
        "PrepareEnvironment",
        "Builds the environment as part of the run; when false, it must have been prepared before.",
        BOOLEAN,
        default=False,
    ),
    Field("TrackedRun", "Keeps a snapshot of the project and the run's outputs in the history.", BOOLEAN, default=True),
    Field(
        "DataReferences",
        "Files and folders that runs read where they are: never in a snapshot, never copied, linked into the "
        "run's copy. Paths are relative to the project, or absolute.",
        STRINGS,
        default=(),
        completion="file",
        example="[data, /srv/datasets/imagenet]",
        source="workbench",
    ),
    Field(
        "UseSampling", "Uses the active samples of data sources; data sources are not read here.", BOOLEAN, default=True
    ),
    Field(
        "ProcessesPerNode",
        "Starts the script under torch.distributed.run (torchrun), with so many processes: a number, or `gpus` "
        "for one on each GPU that the run is given. Without it the script is started by itself.",
        PROCESSES,
        example="gpus",
        source="workbench",
    ),
    Field(
        "RequireGpu",
        "Ends the run as failed when it does not use a GPU: at once where there is none or the framework says "
        "that it found none, else after ten minutes or at its end.",
        BOOLEAN,
        default=False,
        source="workbench",
    ),
    Field(
        "StopIfIdleMinutes",
        "Ends the run when nothing of it has computed on a GPU for so many minutes. Without it: never.",
        INTEGER,
        example="30",
        minimum=1,
        source="workbench",
    ),
    Field(
        "MaxDurationMinutes",
        "Ends the run after so many minutes. Without it: never.",
        INTEGER,
        example="720",
        minimum=1,
        source="workbench",
    ),
    Field(
        "DataSourceSettings",
        "Chooses the sample of a data source: `my.dsource: {Sampling: {Sample: Name}}`; not read here.",
        ANY,
        example="{my.dsource: {Sampling: {Sample: Full}}}",
    ),
    Field(
        "DataSourceSubstitutions",
        "Reads one data source in place of another: `a.dsource: b.dsource`; data sources are not read here.",
        MAPPING,
        example="{train.dsource: small.dsource}",
    ),
    Field("Description", "A text about the configuration, from before September 2017.", source="old"),
    Field(
        "CondaFile",
        "Old name of CondaDependenciesFile.",
        completion="conda-file",
        replaced_by="CondaDependenciesFile",
        source="files",
    ),
    Field(
        "ManagedEnvironment",
        "Whether the environment is made from the conda file, from before September 2017; the target's type "
        "decides now.",
        BOOLEAN,
        source="old",
    ),
)
RUNCONFIG = FileKind(
    "runconfig",
    "Run configuration",
    "aml_config/NAME.runconfig",
    "How to run a script: where, with what arguments, in which environment. The file's name is what the run bar shows.",
    _RUNCONFIG_FIELDS,
)

_CONDA_FIELDS = (
    Field("name", "Name of the environment.", default="project_environment", source="conda"),
    Field(
        "channels",
        "Where conda packages come from, the first one first.",
        STRINGS,
        default=(),
        example="[conda-forge]",
        source="conda",
    ),
    Field(
        "dependencies",
        "Conda packages (`numpy=1.13`), and under `pip:` Python packages (`keras==2.1.2`), wheel addresses or "
        "local wheel files.",
        DEPENDENCIES,
        default=(),
        required=True,
        source="conda",
    ),
    Field("variables", "Environment variables that conda sets in the environment.", MAPPING, source="conda"),
    Field("prefix", "Where the environment was exported from; not used here.", source="conda"),
)
CONDA = FileKind(
    "conda",
    "Conda dependencies",
    "aml_config/conda_dependencies.yml",
    "The packages of a run's environment: an ordinary conda environment file. Not used by targets whose environment "
    "is the user's own.",
    _CONDA_FIELDS,
)

_MAVEN = (
    Field("group", "Maven group.", required=True, nullable=False, example="com.microsoft.ml.spark"),
    Field("artifact", "Maven artifact.", required=True, nullable=False, example="mmlspark_2.11"),
    Field("version", "Version.", required=True, nullable=False, example="0.9.9"),
)

_SPARK_FIELDS = (
    Field("configuration", "Spark properties of the run.", MAPPING, default={}, example="{spark.executor.memory: 4g}"),
    Field("repositories", "Maven repositories to look for packages in.", STRINGS, default=()),
    Field("packages", "Spark packages by their Maven coordinates.", ROWS, default=(), row=_MAVEN),
    Field(
        "version", "Version of the file's form; written by later releases and not used here.", INTEGER, source="files"
    ),
)
SPARK = FileKind(
    "spark",
    "Spark dependencies",
    "aml_config/spark_dependencies.yml",
    "What Spark needs for a run; read with `Framework: PySpark` only.",
    _SPARK_FIELDS,
)

_SDK_FIELDS = (
    Field("script", "The script to run.", completion="file"),
    Field("arguments", "The arguments of the script.", STRINGS, default=()),
    Field("target", "Name of the compute target to run on.", required=True, nullable=False, completion="target"),
    Field(
        "framework", "What starts the script: plain Python, or Spark.", CHOICE, default="PySpark", choices=FRAMEWORKS
    ),
    Field("prepareEnvironment", "Builds the environment as part of the run.", BOOLEAN, default=False),
    Field("environment.environmentVariables", "Environment variables set for the run.", MAPPING, default={}),
    Field("environment.python.userManagedDependencies", "Uses the target's Python as it is.", BOOLEAN, default=False),
    Field(
        "environment.python.interpreterPath",
        "The Python interpreter, when the environment is the user's.",
        default="python",
        completion="python",
    ),
    Field(
        "environment.python.condaDependenciesFile",
        "The conda environment file, relative to the project.",
        default="aml_config/conda_dependencies.yml",
        completion="conda-file",
    ),
    Field("environment.docker.enabled", "Runs in a Docker container.", BOOLEAN, default=False),
    Field("environment.docker.baseImage", "The Docker image of the run.", completion="image"),
    Field("environment.docker.sharedVolumes", "Mounts the project into the container.", BOOLEAN, default=True),
    Field("environment.docker.gpuSupport", "Gives the container the GPUs.", BOOLEAN, default=False),
    Field("environment.docker.baseImageRegistry.address", "Host name of the image registry."),
    Field("environment.docker.baseImageRegistry.username", "User of the image registry."),
    Field("environment.docker.baseImageRegistry.password", "Password of the image registry.", secret=True),
    Field("environment.spark.repositories", "Maven repositories of Spark packages.", STRINGS, default=()),
    Field("environment.spark.packages", "Spark packages by their Maven coordinates.", ROWS, default=(), row=_MAVEN),
    Field("history.enabled", "Keeps the run in the history.", BOOLEAN, default=True),
    Field("spark.configuration", "Spark properties.", MAPPING, default={}),
    Field(
        "hdi.yarnDeployMode", "Where the Spark driver runs.", CHOICE, default="cluster", choices=("cluster", "client")
    ),
    Field("batchai.nodeCount", "Machines of a Batch AI job; not used here.", INTEGER, default=1),
    Field("containerInstance.cpuCores", "Cores of a container instance; not used here.", INTEGER, default=1),
    Field("containerInstance.memoryGb", "Memory of a container instance in GB; not used here.", INTEGER, default=4),
    Field("containerInstance.region", "Region of a container instance; not used here."),
)
"""The form that the successor SDK wrote in 2018: understood, and not offered for new files."""

SDK_RUNCONFIG = FileKind(
    "sdk-runconfig",
    "Run configuration (SDK form)",
    "aml_config/NAME.runconfig",
    "The form that the successor SDK wrote in 2018. Where and how a run executes is decided by its target: a key of "
    "this form that disagrees with the target is an error, in `config check` and at submit.",
    tuple(field._replace(source="sdk") for field in _SDK_FIELDS),
)

_SETTINGS_FIELDS = (
    Field(
        "notifications",
        "How the end of a run is reported: not at all, in the screens, or there and by the terminal when it does not "
        "have the focus.",
        CHOICE,
        default="terminal",
        choices=("off", "toast", "terminal"),
    ),
    Field(
        "notification_sequence",
        "The sequence that asks the terminal to notify; `auto` chooses by the terminal's name.",
        CHOICE,
        default="auto",
        choices=("auto", "osc9", "osc777"),
    ),
    Field(
        "window_title",
        "Whether the title of the terminal's window says what runs.",
        CHOICE,
        default="on",
        choices=("on", "off"),
    ),
)
SETTINGS = FileKind(
    "settings",
    "Settings",
    "~/.config/workbench-tui/settings.yaml",
    "The user's choices for all projects.",
    tuple(field._replace(nullable=False, source="workbench") for field in _SETTINGS_FIELDS),
)

KINDS = (COMPUTE, RUNCONFIG, SDK_RUNCONFIG, CONDA, SPARK, SETTINGS)


def kind_of(path: str, keys: tuple[str, ...] = ()) -> FileKind | None:
    """The kind of the file at `path` with these top-level keys; None when it is no configuration file."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(".compute"):
        return COMPUTE
    if name.endswith(".runconfig"):
        # The form of 2018's SDK begins its keys with small letters.
        has_sdk = any(field.path[0] in keys for field in _SDK_FIELDS)
        return SDK_RUNCONFIG if has_sdk and not any(key[:1].isupper() for key in keys) else RUNCONFIG
    if not name.endswith((".yml", ".yaml")):
        return None
    if os.path.abspath(path) == settings_path():
        return SETTINGS
    has_spark = not {"configuration", "repositories", "packages"}.isdisjoint(keys)
    has_conda = not {"channels", "dependencies", "prefix"}.isdisjoint(keys)
    if has_spark != has_conda:
        return SPARK if has_spark else CONDA
    if "conda" in name or name.startswith("environment."):
        return CONDA
    return SPARK if "spark" in name else None


def is_known_key(key: str) -> bool:
    """Whether any kind of file has this top-level key."""
    return any(field.path[0] == key for kind in KINDS for field in kind.fields)
