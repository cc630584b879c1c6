"""The fields of all configuration files, in their usual order.

The `source` of a field names its documentation:

- `docs`: the documentation of Azure ML Workbench (2017-2018)
- `template`: comments in the files that Azure ML Workbench generated
- `files`: configuration files of public projects
- `old`: files from before September 2017
- `sdk`: the Azure ML SDK of 2018
- `conda`: the documentation of conda
- `workbench`: this program
"""

from __future__ import annotations

from tui_workbench.config.schema.data_references import DATA_FIELD
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
from tui_workbench.config.schema.limits import LIMITS
from tui_workbench.config.schema.retry import RETRY_OPTIONS
from tui_workbench.config.schema.slurm_options import NODES_FIELD, RUN_OPTIONS, TARGET_OPTIONS
from tui_workbench.config.schema.user_files import USER_KINDS, kind_of_user_file
from tui_workbench.core.addresses import address_mistake, username_mistake
from tui_workbench.core.model import MIN_POLL_SECONDS
from tui_workbench.core.target_types import SYNONYMS, built_in_names

_COMPUTE_FIELDS = (
    Field(
        "type",
        "Type of the target: this machine, Docker, a machine over SSH, Slurm, Spark, or a group of machines.",
        CHOICE,
        choices=built_in_names(),
        synonyms=tuple(SYNONYMS.items()),
        required=True,
        nullable=False,
    ),
    Field(
        "address",
        "Host name, IP address or alias in ~/.ssh/config, with `:PORT` if the SSH port is not 22. "
        "Without it, a `slurm` target uses the Slurm commands of this machine.",
        example="gpu-box.example.org",
        mistake_in=address_mistake,
        mistake_code="bad-address",
    ),
    Field(
        "username",
        "SSH user. The default SSH user of an HDInsight cluster is `sshuser`, not `admin`.",
        example="research",
        mistake_in=username_mistake,
        mistake_code="bad-username",
    ),
    Field(
        "password",
        "Reference to the password in the keyring: `AzureMlSecret=<target>#<user>#<id>`; never the password itself.",
        secret=True,
        example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
    ),
    Field(
        "privateKey",
        "Private key file. The default is the keys in the SSH agent, then each IdentityFile or the default key files.",
        completion="file",
        example="~/.ssh/id_ed25519",
        source="workbench",
    ),
    Field(
        "privateKeyPassphrase",
        "Reference to the private key's passphrase in the keyring: `AzureMlSecret=...`; never the passphrase itself.",
        secret=True,
        example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
        source="workbench",
    ),
    Field(
        "pythonLocation",
        "Python interpreter that runs scripts; `python` is the first on the PATH.",
        default="python",
        completion="python",
        example="/opt/venv/bin/python",
    ),
    Field(
        "sparkSubmitLocation",
        "Path of spark-submit. By default, SPARK_HOME, the packages of the target's Python and the PATH are searched.",
        default="spark-submit",
        completion="file",
        source="template",
    ),
    Field(
        "baseDockerImage",
        "Docker image that the environment is built on; for `slurm`, the image of `container`. For GPU runs, the image "
        "or the packages must contain CUDA or, for AMD GPUs, ROCm.",
        completion="image",
        example="microsoft/mmlspark:plus-gpu-0.9.9",
    ),
    Field(
        "nvidiaDocker",
        "Gives containers the GPUs of the machine, NVIDIA or AMD (Linux hosts only).",
        BOOLEAN,
        default=False,
    ),
    Field(
        "gpus",
        "GPUs of a run: `all`, a number of free GPUs, `free` for one free GPU, or a list of numbers or IDs from "
        "`nvidia-smi -L` or `amd-smi list`. A free GPU is used by no process and reserved by no other run.",
        GPUS,
        example="free",
        source="workbench",
    ),
    Field(
        "gpuReservations",
        "Folder on the machine that its users share, in which runs and `gpu reserve` reserve free GPUs. Runs with "
        "`gpus: free` or a number take no GPU that another user has reserved there, and wait for free GPUs.",
        pattern=r"/[^\x00-\x1f\\%]*",
        form="a path that begins with /, without % and backslashes",
        example="/srv/workbench-gpus",
        source="workbench",
    ),
    Field(
        "sharedVolumes",
        "Mounts the project into the container instead of copying it. `nativeSharedDirectory` is always mounted.",
        BOOLEAN,
        default=True,
    ),
    Field(
        "nativeSharedDirectory",
        "Parent of the folder that all runs of a project share on this target ($AZUREML_NATIVE_SHARE_DIRECTORY).",
        default="~/.azureml/share/",
        completion="folder",
    ),
    Field(
        "userManagedEnvironment",
        "If true, runs use the target's Python. If false, the workbench builds an environment from the conda "
        "dependencies file; only targets of type `local` support this.",
        BOOLEAN,
        default=True,
    ),
    Field(
        "maxConcurrentRuns",
        "Maximum number of your concurrent runs from all projects; other runs are queued. 0 means no limit. By "
        "default, there is a limit only with `nvidiaDocker`, or if `gpus` is `free` or a number: as many runs as the "
        "GPUs of this machine allow, or one run on another machine.",
        INTEGER,
        example="2",
        minimum=0,
        source="workbench",
    ),
    Field(
        "runRoot",
        "Folder for the runs of a cluster, on a file system that its login and compute nodes share.",
        default="~/.workbench-tui",
        pattern=r"(/|~/)[^\x00-\x1f\\%]*",
        form="a path that begins with / or ~/, without % and backslashes",
        example="/scratch/research/workbench",
        source="workbench",
    ),
    *TARGET_OPTIONS,
    Field(
        "members",
        "Targets of type `remote` or `remotedocker` on which torchrun starts. The first hosts the rendezvous.",
        STRINGS,
        example="[gpubox1, gpubox2]",
        completion="target",
        source="workbench",
    ),
    Field(
        "networkInterface",
        "Network interface through which the members of a group connect. The default is that of the SSH connection.",
        pattern=r"[^\x00-\x20/,^=]+",
        form="the name of an interface, such as eth0",
        example="eth0",
        source="workbench",
    ),
    Field(
        "onLostMember",
        "If a member does not answer for 5 minutes while the script runs, `wait` for it, or `end` the whole run.",
        CHOICE,
        default="wait",
        choices=("wait", "end"),
        source="workbench",
    ),
    Field(
        "setup",
        "Shell commands that a Slurm job executes before the script.",
        STRINGS,
        default=(),
        example="[module load cuda/12.4]",
        source="workbench",
    ),
    Field(
        "container",
        "Runs the script of a Slurm job in a container of `baseDockerImage`.",
        CHOICE,
        default="none",
        choices=("none", "pyxis", "apptainer", "oci"),
        source="workbench",
    ),
    Field(
        "pollSeconds",
        "Minimum time between two regular calls to squeue for all your runs on a cluster, in seconds.",
        INTEGER,
        default=MIN_POLL_SECONDS,
        minimum=MIN_POLL_SECONDS,
        source="workbench",
    ),
    Field(
        "yarnDeployMode",
        "Where YARN runs the Spark driver: `client`, on the head node, or `cluster`, on a node that YARN chooses. "
        "Only `client` keeps `outputs/`, logged metrics and stages. In 2017 the default was `cluster`.",
        CHOICE,
        default="client",
        choices=("cluster", "client"),
    ),
    Field(
        "cluster", "Old form of `type: cluster`, from the summer of 2017.", BOOLEAN, replaced_by="type", source="files"
    ),
    Field(
        "native", "Old form of `type: cluster`, from the summer of 2017.", BOOLEAN, replaced_by="type", source="files"
    ),
)
COMPUTE = FileKind(
    "compute",
    "Compute target",
    "aml_config/NAME.compute",
    "A machine, Docker engine, cluster or group that runs scripts. The file name without `.compute` is the name of the "
    "target.",
    _COMPUTE_FIELDS,
)

_RUNCONFIG_FIELDS = (
    Field(
        "ArgumentVector",
        "Script and arguments. `$file` is the script that you select for each run.",
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
    Field("EnvironmentVariables", "Environment variables of the run.", MAPPING, default={}, example="{EPOCHS: 10}"),
    Field(
        "Framework",
        "Starts the script with Python, or with spark-submit. The default is PySpark.",
        CHOICE,
        default="PySpark",
        choices=FRAMEWORKS,
    ),
    Field(
        "CondaDependenciesFile",
        "Conda environment file, relative to the project.",
        default="aml_config/conda_dependencies.yml",
        completion="conda-file",
    ),
    Field(
        "SparkDependenciesFile",
        "Spark packages file, relative to the project; used only with `Framework: PySpark`.",
        default="aml_config/spark_dependencies.yml",
        completion="spark-file",
    ),
    Field(
        "PrepareEnvironment",
        "Builds the environment as part of the run. If false, the environment must already be built.",
        BOOLEAN,
        default=False,
    ),
    Field(
        "TrackedRun",
        "Runs the script in a copy of the project, and keeps a snapshot and the outputs. Runs on other machines are "
        "always tracked.",
        BOOLEAN,
        default=True,
    ),
    DATA_FIELD,
    Field("UseSampling", "Uses the active samples of data sources. Ignored by the workbench.", BOOLEAN, default=True),
    NODES_FIELD,
    Field(
        "ProcessesPerNode",
        "Number of processes that torchrun starts on each node; `gpus` means one for each GPU of the run. "
        "By default, the script is started without torchrun.",
        PROCESSES,
        example="gpus",
        source="workbench",
    ),
    Field(
        "RequireGpu",
        "Fails a run that does not use a GPU: at once if no NVIDIA or AMD GPU is available or the framework reports "
        "none, otherwise after ten minutes or at its end.",
        BOOLEAN,
        default=False,
        source="workbench",
    ),
    *LIMITS,
    *RETRY_OPTIONS,
    Field(
        "DataSourceSettings",
        "Selects the sample of a data source: `my.dsource: {Sampling: {Sample: Name}}`. Ignored by the workbench.",
        ANY,
        example="{my.dsource: {Sampling: {Sample: Full}}}",
    ),
    Field(
        "DataSourceSubstitutions",
        "Replaces a data source: `a.dsource: b.dsource`. Ignored by the workbench.",
        MAPPING,
        example="{train.dsource: small.dsource}",
    ),
    *RUN_OPTIONS,
    Field("Description", "Description in files from before September 2017. Ignored by the workbench.", source="old"),
    Field(
        "CondaFile",
        "Old name of CondaDependenciesFile.",
        completion="conda-file",
        replaced_by="CondaDependenciesFile",
        source="files",
    ),
    Field(
        "ManagedEnvironment",
        "Builds the environment, in files from before September 2017. Ignored: the type of the target decides.",
        BOOLEAN,
        source="old",
    ),
)
RUNCONFIG = FileKind(
    "runconfig",
    "Run configuration",
    "aml_config/NAME.runconfig",
    "Target, arguments and environment of a run. The file name without `.runconfig` is the name in the run bar.",
    _RUNCONFIG_FIELDS,
)

_CONDA_FIELDS = (
    Field("name", "Name of the environment.", default="project_environment", source="conda"),
    Field(
        "channels",
        "Channels of conda packages, in order of priority.",
        STRINGS,
        default=(),
        example="[conda-forge]",
        source="conda",
    ),
    Field(
        "dependencies",
        "Conda packages (`numpy=1.13`), and under `pip:` Python packages (`keras==2.1.2`), wheel URLs or local wheels.",
        DEPENDENCIES,
        default=(),
        source="conda",
    ),
    Field("variables", "Environment variables that conda sets.", MAPPING, source="conda"),
    Field("prefix", "Folder of an exported environment. Ignored by the workbench.", source="conda"),
)
CONDA = FileKind(
    "conda",
    "Conda dependencies",
    "aml_config/conda_dependencies.yml",
    "Packages of the environment, as a conda environment file. Only Docker targets, and local targets with "
    "`userManagedEnvironment: false`, use it.",
    _CONDA_FIELDS,
)

_MAVEN = (
    Field("group", "Maven group.", required=True, nullable=False, example="com.microsoft.ml.spark"),
    Field("artifact", "Maven artifact.", required=True, nullable=False, example="mmlspark_2.11"),
    Field("version", "Version of the artifact.", required=True, nullable=False, example="0.9.9"),
)

_SPARK_FIELDS = (
    Field("configuration", "Spark properties of the run.", MAPPING, default={}, example="{spark.executor.memory: 4g}"),
    Field("repositories", "Maven repositories of packages.", STRINGS, default=()),
    Field("packages", "Maven coordinates of Spark packages.", ROWS, default=(), row=_MAVEN),
    Field("version", "Version of the file format. Ignored by the workbench.", INTEGER, source="files"),
)
SPARK = FileKind(
    "spark",
    "Spark dependencies",
    "aml_config/spark_dependencies.yml",
    "Spark properties and packages of a run; used only with `Framework: PySpark`.",
    _SPARK_FIELDS,
)

_SDK_FIELDS = (
    Field("script", "Script to run.", completion="file"),
    Field("arguments", "Arguments of the script.", STRINGS, default=()),
    Field("target", "Name of the compute target to run on.", required=True, nullable=False, completion="target"),
    Field(
        "framework",
        "Starts the script with Python, or with spark-submit.",
        CHOICE,
        default="PySpark",
        choices=FRAMEWORKS,
    ),
    Field("prepareEnvironment", "Builds the environment as part of the run.", BOOLEAN, default=False),
    Field("environment.environmentVariables", "Environment variables of the run.", MAPPING, default={}),
    Field("environment.python.userManagedDependencies", "Uses the target's Python.", BOOLEAN, default=False),
    Field(
        "environment.python.interpreterPath",
        "Python interpreter, used only with `userManagedDependencies: true`.",
        default="python",
        completion="python",
    ),
    Field(
        "environment.python.condaDependenciesFile",
        "Conda environment file, relative to the project.",
        default="aml_config/conda_dependencies.yml",
        completion="conda-file",
    ),
    Field("environment.docker.enabled", "Runs the script in a Docker container.", BOOLEAN, default=False),
    Field("environment.docker.baseImage", "Docker image of the run.", completion="image"),
    Field("environment.docker.sharedVolumes", "Mounts the project into the container.", BOOLEAN, default=True),
    Field("environment.docker.gpuSupport", "Gives the container the GPUs of the machine.", BOOLEAN, default=False),
    Field("environment.docker.baseImageRegistry.address", "Host name of the image registry."),
    Field("environment.docker.baseImageRegistry.username", "User of the image registry."),
    Field("environment.docker.baseImageRegistry.password", "Password of the image registry.", secret=True),
    Field("environment.spark.repositories", "Maven repositories of Spark packages.", STRINGS, default=()),
    Field("environment.spark.packages", "Maven coordinates of Spark packages.", ROWS, default=(), row=_MAVEN),
    Field("history.enabled", "Keeps a snapshot and the outputs of the run.", BOOLEAN, default=True),
    Field("spark.configuration", "Spark properties.", MAPPING, default={}),
    Field(
        "hdi.yarnDeployMode", "Where the Spark driver runs.", CHOICE, default="cluster", choices=("cluster", "client")
    ),
    Field("batchai.nodeCount", "Number of machines of a Batch AI job. Ignored.", INTEGER, default=1),
    Field("containerInstance.cpuCores", "Cores of a container instance. Ignored.", INTEGER, default=1),
    Field("containerInstance.memoryGb", "Memory of a container instance in GB. Ignored.", INTEGER, default=4),
    Field("containerInstance.region", "Region of a container instance. Ignored."),
)

SDK_RUNCONFIG = FileKind(
    "sdk-runconfig",
    "Run configuration (SDK form)",
    "aml_config/NAME.runconfig",
    "The form of the Azure ML SDK of 2018. The target decides where and how a run executes; a key that disagrees with "
    "the target is an error.",
    tuple(field._replace(source="sdk") for field in _SDK_FIELDS),
)

KINDS = (COMPUTE, RUNCONFIG, SDK_RUNCONFIG, CONDA, SPARK, *USER_KINDS)


def kind_of(path: str, keys: tuple[str, ...] = ()) -> FileKind | None:
    """Return the kind of a file with these top-level keys, or None if it is not a configuration file."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(".compute"):
        return COMPUTE
    if name.endswith(".runconfig"):
        # Keys of the SDK form begin with lowercase letters.
        has_sdk = any(field.path[0] in keys for field in _SDK_FIELDS)
        return SDK_RUNCONFIG if has_sdk and not any(key[:1].isupper() for key in keys) else RUNCONFIG
    if not name.endswith((".yml", ".yaml")):
        return None
    if (user_kind := kind_of_user_file(path)) is not None:
        return user_kind
    has_spark = not {"configuration", "repositories", "packages"}.isdisjoint(keys)
    has_conda = not {"channels", "dependencies", "prefix"}.isdisjoint(keys)
    if has_spark != has_conda:
        return SPARK if has_spark else CONDA
    if "conda" in name or name.startswith("environment."):
        return CONDA
    return SPARK if "spark" in name else None


def is_known_key(key: str) -> bool:
    """Return True if any kind of file has this top-level key."""
    return any(field.path[0] == key for kind in KINDS for field in kind.fields)
