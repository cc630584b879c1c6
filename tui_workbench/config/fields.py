"""The tables: every field of every configuration file, in the order in which a person writes them.

Sources: `docs` is the original product's documentation (2017-2018), `template` the comments in the files it generated,
`files` real files of public projects, `sdk` the successor SDK of 2018, `conda` and `spark` those projects' own
documentation, `workbench` what this program adds.
"""

from __future__ import annotations

from tui_workbench.config.fields_sdk import SDK_RUNCONFIG as SDK_RUNCONFIG
from tui_workbench.config.schema import (
    ANY,
    BOOLEAN,
    CHOICE,
    CLUSTER,
    DEPENDENCIES,
    DOCKER_TYPES,
    FRAMEWORKS,
    GPUS,
    INTEGER,
    LOCAL,
    LOCAL_DOCKER,
    MAPPING,
    PROCESSES,
    REMOTE,
    REMOTE_DOCKER,
    ROWS,
    SSH_TYPES,
    STRING,
    STRINGS,
    TARGET_TYPES,
    Field,
    FileKind,
)

COMPUTE = FileKind(
    "compute",
    "Compute target",
    "aml_config/NAME.compute",
    "A machine or engine that runs scripts. The file's name is the target's name.",
    (
        Field(
            "type",
            CHOICE,
            (
                "What kind of machine this is: this one, Docker here, Docker over SSH, Python over SSH, or a Spark "
                "cluster."
            ),
            choices=TARGET_TYPES,
            synonyms=(("docker", LOCAL_DOCKER),),
            required=("*",),
            nullable=False,
            source="docs",
        ),
        Field(
            "address",
            STRING,
            (
                "Name or IP address of the machine, with `:PORT` when SSH does not listen on 22; an alias of "
                "~/.ssh/config works."
            ),
            targets=SSH_TYPES,
            required=SSH_TYPES,
            example="gpu-box.example.org",
            source="docs",
        ),
        Field(
            "username",
            STRING,
            "The user to log in as; for a cluster the SSH user (`sshuser` by default), not `admin`.",
            targets=SSH_TYPES,
            example="research",
            source="docs",
        ),
        Field(
            "password",
            STRING,
            (
                "A reference to the password in the keyring, `AzureMlSecret=<target>#<user>#<id>`; never the password"
                " itself."
            ),
            targets=SSH_TYPES,
            secret=True,
            example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
            source="docs",
        ),
        Field(
            "privateKey",
            STRING,
            "A private key file to log in with; without one those of the SSH agent and of ~/.ssh are tried.",
            targets=SSH_TYPES,
            completion="file",
            example="~/.ssh/id_ed25519",
            source="workbench",
        ),
        Field(
            "privateKeyPassphrase",
            STRING,
            "A reference to the private key's passphrase in the keyring, `AzureMlSecret=...`; never the passphrase.",
            targets=SSH_TYPES,
            secret=True,
            example="AzureMlSecret=gpu-box#research#0123456789abcdef0123456789abcdef",
            source="workbench",
        ),
        Field(
            "pythonLocation",
            STRING,
            "The Python interpreter that runs scripts; `python` is the one that is first on the PATH.",
            default="python",
            targets=(LOCAL, REMOTE),
            completion="python",
            example="/opt/venv/bin/python",
            source="docs",
        ),
        Field(
            "sparkSubmitLocation",
            STRING,
            "The spark-submit program for local Spark runs.",
            default="spark-submit",
            targets=(LOCAL,),
            completion="file",
            source="template",
        ),
        Field(
            "baseDockerImage",
            STRING,
            "The Docker image that a run's environment is built on; for a GPU it must hold CUDA.",
            targets=DOCKER_TYPES,
            required=DOCKER_TYPES,
            completion="image",
            example="microsoft/mmlspark:plus-gpu-0.9.9",
            source="docs",
        ),
        Field(
            "nvidiaDocker",
            BOOLEAN,
            "Gives the container the machine's NVIDIA GPUs (Linux hosts only).",
            default=False,
            targets=DOCKER_TYPES,
            source="docs",
        ),
        Field(
            "gpus",
            GPUS,
            (
                "Which GPUs a run gets: `all`, a number of free ones, `free` for one, or a list of numbers or ids as "
                "in nvidia-smi. A free one is held by nobody's process and by no other run of yours."
            ),
            targets=(LOCAL, LOCAL_DOCKER, REMOTE_DOCKER, REMOTE),
            example="free",
            source="workbench",
        ),
        Field(
            "sharedVolumes",
            BOOLEAN,
            "Mounts the project and the shared folder into the container instead of copying the project.",
            default=True,
            targets=DOCKER_TYPES,
            source="docs",
        ),
        Field(
            "nativeSharedDirectory",
            STRING,
            "Base of the folder that all runs of a project share on this target ($AZUREML_NATIVE_SHARE_DIRECTORY).",
            default="~/.azureml/share/",
            targets=(LOCAL, LOCAL_DOCKER, REMOTE_DOCKER),
            completion="folder",
            source="docs",
        ),
        Field(
            "userManagedEnvironment",
            BOOLEAN,
            (
                "True: the target's Python is used as it is. False: an environment is made from the conda "
                "dependencies file."
            ),
            default=True,
            targets=(LOCAL, REMOTE),
            source="docs",
        ),
        Field(
            "maxConcurrentRuns",
            INTEGER,
            (
                "How many runs may go on here at a time, from all projects of this user; more wait in line. 0 for no "
                "limit. Without it there is none, but with `nvidiaDocker` a run waits until a GPU is free."
            ),
            minimum=0,
            example="2",
            source="workbench",
        ),
        Field(
            "yarnDeployMode",
            CHOICE,
            "Where the Spark driver runs; `client` is needed for notebooks.",
            default="cluster",
            choices=("cluster", "client"),
            targets=(CLUSTER,),
            source="docs",
        ),
        Field(
            "cluster",
            BOOLEAN,
            "Old form of `type: cluster`, from the summer of 2017.",
            targets=(CLUSTER,),
            replaced_by="type",
            source="files",
        ),
        Field(
            "native",
            BOOLEAN,
            "Old mark of a cluster target, from the summer of 2017.",
            targets=(CLUSTER,),
            replaced_by="type",
            source="files",
        ),
    ),
)

RUNCONFIG = FileKind(
    "runconfig",
    "Run configuration",
    "aml_config/NAME.runconfig",
    "How to run a script: where, with what arguments, in which environment. The file's name is what the run bar shows.",
    (
        Field(
            "ArgumentVector",
            STRINGS,
            "The script and its arguments; `$file` stands for the script that is selected when the run starts.",
            default=("$file",),
            example="[$file, --epochs, 10]",
            source="docs",
        ),
        Field(
            "Target",
            STRING,
            "Name of the compute target to run on.",
            required=("*",),
            nullable=False,
            completion="target",
            example="local",
            source="docs",
        ),
        Field(
            "EnvironmentVariables",
            MAPPING,
            "Environment variables set for the run.",
            default={},
            example="{EPOCHS: 10}",
            source="docs",
        ),
        Field(
            "Framework",
            CHOICE,
            "What starts the script: plain Python, or Spark. A missing line means PySpark.",
            default="PySpark",
            choices=FRAMEWORKS,
            source="docs",
        ),
        Field(
            "CondaDependenciesFile",
            STRING,
            "The conda environment file of this configuration, relative to the project.",
            default="aml_config/conda_dependencies.yml",
            completion="conda-file",
            source="docs",
        ),
        Field(
            "SparkDependenciesFile",
            STRING,
            (
                "The Spark packages file of this configuration, relative to the project; read with `Framework: "
                "PySpark` only."
            ),
            default="aml_config/spark_dependencies.yml",
            completion="spark-file",
            source="docs",
        ),
        Field(
            "PrepareEnvironment",
            BOOLEAN,
            "Builds the environment as part of the run; when false, it must have been prepared before.",
            default=False,
            source="docs",
        ),
        Field(
            "TrackedRun",
            BOOLEAN,
            "Keeps a snapshot of the project and the run's outputs in the history.",
            default=True,
            source="docs",
        ),
        Field(
            "UseSampling",
            BOOLEAN,
            "Uses the active samples of data sources; data sources are not read here.",
            default=True,
            source="docs",
        ),
        Field(
            "ProcessesPerNode",
            PROCESSES,
            (
                "Starts the script under torch.distributed.run (torchrun), with so many processes: a number, or `gpus` "
                "for one on each GPU that the run is given. Without it the script is started by itself."
            ),
            example="gpus",
            source="workbench",
        ),
        Field(
            "RequireGpu",
            BOOLEAN,
            (
                "Ends the run as failed when it does not use a GPU: at once where there is none or the framework says "
                "that it found none, else after ten minutes or at its end."
            ),
            default=False,
            source="workbench",
        ),
        Field(
            "StopIfIdleMinutes",
            INTEGER,
            "Ends the run when nothing of it has computed on a GPU for so many minutes. Without it: never.",
            minimum=1,
            example="30",
            source="workbench",
        ),
        Field(
            "MaxDurationMinutes",
            INTEGER,
            "Ends the run after so many minutes. Without it: never.",
            minimum=1,
            example="720",
            source="workbench",
        ),
        Field(
            "DataSourceSettings",
            ANY,
            "Chooses the sample of a data source: `my.dsource: {Sampling: {Sample: Name}}`; not read here.",
            example="{my.dsource: {Sampling: {Sample: Full}}}",
            source="docs",
        ),
        Field(
            "DataSourceSubstitutions",
            MAPPING,
            "Reads one data source in place of another: `a.dsource: b.dsource`; data sources are not read here.",
            example="{train.dsource: small.dsource}",
            source="docs",
        ),
        Field("Description", STRING, "A text about the configuration, from before September 2017.", source="old"),
        Field(
            "CondaFile",
            STRING,
            "Old name of CondaDependenciesFile.",
            completion="conda-file",
            replaced_by="CondaDependenciesFile",
            source="files",
        ),
        Field(
            "ManagedEnvironment",
            BOOLEAN,
            (
                "Whether the environment is made from the conda file, from before September 2017; the target's type "
                "decides now."
            ),
            source="old",
        ),
    ),
)

SDK_KEYS = frozenset(field.path[0] for field in SDK_RUNCONFIG.fields)
"""The top-level keys of the SDK form."""

CONDA = FileKind(
    "conda",
    "Conda dependencies",
    "aml_config/conda_dependencies.yml",
    (
        "The packages of a run's environment: an ordinary conda environment file. Not used by targets whose "
        "environment is the user's own."
    ),
    (
        Field("name", STRING, "Name of the environment.", default="project_environment", source="conda"),
        Field(
            "channels",
            STRINGS,
            "Where conda packages come from, the first one first.",
            default=(),
            example="[conda-forge]",
            source="conda",
        ),
        Field(
            "dependencies",
            DEPENDENCIES,
            (
                "Conda packages (`numpy=1.13`), and under `pip:` Python packages (`keras==2.1.2`), wheel addresses or"
                " local wheel files."
            ),
            default=(),
            required=("*",),
            source="conda",
        ),
        Field("variables", MAPPING, "Environment variables that conda sets in the environment.", source="conda"),
        Field("prefix", STRING, "Where the environment was exported from; not used here.", source="conda"),
    ),
)

SPARK = FileKind(
    "spark",
    "Spark dependencies",
    "aml_config/spark_dependencies.yml",
    "What Spark needs for a run; read with `Framework: PySpark` only.",
    (
        Field(
            "configuration",
            MAPPING,
            "Spark properties of the run.",
            default={},
            example="{spark.executor.memory: 4g}",
            source="docs",
        ),
        Field("repositories", STRINGS, "Maven repositories to look for packages in.", default=(), source="docs"),
        Field(
            "packages",
            ROWS,
            "Spark packages by their Maven coordinates.",
            default=(),
            row=(
                Field(
                    "group", STRING, "Maven group.", required=("*",), nullable=False, example="com.microsoft.ml.spark"
                ),
                Field("artifact", STRING, "Maven artifact.", required=("*",), nullable=False, example="mmlspark_2.11"),
                Field("version", STRING, "Version.", required=("*",), nullable=False, example="0.9.9"),
            ),
            source="docs",
        ),
        Field(
            "version",
            INTEGER,
            "Version of the file's form; written by later releases and not used here.",
            source="files",
        ),
    ),
)

KINDS = (COMPUTE, RUNCONFIG, SDK_RUNCONFIG, CONDA, SPARK)
