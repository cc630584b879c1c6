"""The fields of the form that the successor SDK wrote in 2018: understood, and not offered for new files."""

from __future__ import annotations

from tui_workbench.config.schema import (
    BOOLEAN,
    CHOICE,
    FRAMEWORKS,
    INTEGER,
    MAPPING,
    ROWS,
    STRING,
    STRINGS,
    Field,
    FileKind,
)

SDK_RUNCONFIG = FileKind(
    "sdk-runconfig",
    "Run configuration (SDK form)",
    "aml_config/NAME.runconfig",
    (
        "The form that the successor SDK wrote in 2018. It is understood as far as it says the same as a run "
        "configuration."
    ),
    (
        Field("script", STRING, "The script to run.", completion="file", source="sdk"),
        Field("arguments", STRINGS, "The arguments of the script.", default=(), source="sdk"),
        Field(
            "target",
            STRING,
            "Name of the compute target to run on.",
            required=("*",),
            nullable=False,
            completion="target",
            source="sdk",
        ),
        Field(
            "framework",
            CHOICE,
            "What starts the script: plain Python, or Spark.",
            default="PySpark",
            choices=FRAMEWORKS,
            source="sdk",
        ),
        Field("prepareEnvironment", BOOLEAN, "Builds the environment as part of the run.", default=False, source="sdk"),
        Field(
            "environment.environmentVariables",
            MAPPING,
            "Environment variables set for the run.",
            default={},
            source="sdk",
        ),
        Field(
            "environment.python.userManagedDependencies",
            BOOLEAN,
            "Uses the target's Python as it is.",
            default=False,
            source="sdk",
        ),
        Field(
            "environment.python.interpreterPath",
            STRING,
            "The Python interpreter, when the environment is the user's.",
            default="python",
            completion="python",
            source="sdk",
        ),
        Field(
            "environment.python.condaDependenciesFile",
            STRING,
            "The conda environment file, relative to the project.",
            default="aml_config/conda_dependencies.yml",
            completion="conda-file",
            source="sdk",
        ),
        Field("environment.docker.enabled", BOOLEAN, "Runs in a Docker container.", default=False, source="sdk"),
        Field("environment.docker.baseImage", STRING, "The Docker image of the run.", completion="image", source="sdk"),
        Field(
            "environment.docker.sharedVolumes",
            BOOLEAN,
            "Mounts the project into the container.",
            default=True,
            source="sdk",
        ),
        Field("environment.docker.gpuSupport", BOOLEAN, "Gives the container the GPUs.", default=False, source="sdk"),
        Field("environment.docker.baseImageRegistry.address", STRING, "Host name of the image registry.", source="sdk"),
        Field("environment.docker.baseImageRegistry.username", STRING, "User of the image registry.", source="sdk"),
        Field(
            "environment.docker.baseImageRegistry.password",
            STRING,
            "Password of the image registry.",
            secret=True,
            source="sdk",
        ),
        Field(
            "environment.spark.repositories", STRINGS, "Maven repositories of Spark packages.", default=(), source="sdk"
        ),
        Field(
            "environment.spark.packages",
            ROWS,
            "Spark packages by their Maven coordinates.",
            default=(),
            row=(
                Field("group", STRING, "Maven group.", required=("*",), nullable=False),
                Field("artifact", STRING, "Maven artifact.", required=("*",), nullable=False),
                Field("version", STRING, "Version.", required=("*",), nullable=False),
            ),
            source="sdk",
        ),
        Field("history.enabled", BOOLEAN, "Keeps the run in the history.", default=True, source="sdk"),
        Field("spark.configuration", MAPPING, "Spark properties.", default={}, source="sdk"),
        Field(
            "hdi.yarnDeployMode",
            CHOICE,
            "Where the Spark driver runs.",
            default="cluster",
            choices=("cluster", "client"),
            source="sdk",
        ),
        Field("batchai.nodeCount", INTEGER, "Machines of a Batch AI job; not used here.", default=1, source="sdk"),
        Field(
            "containerInstance.cpuCores",
            INTEGER,
            "Cores of a container instance; not used here.",
            default=1,
            source="sdk",
        ),
        Field(
            "containerInstance.memoryGb",
            INTEGER,
            "Memory of a container instance in GB; not used here.",
            default=4,
            source="sdk",
        ),
        Field("containerInstance.region", STRING, "Region of a container instance; not used here.", source="sdk"),
    ),
)
