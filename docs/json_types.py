"""The output of `-o json` of every command: its types and fields. `json_page` makes the page and JSON Schemas of it.

A type begins with `NAME: meaning`. Each of its fields is a line with the name, the type, two spaces and the meaning. A
name that ends with `?` is not always present, and `*` stands for all other names. Types are `string`, `integer`,
`number`, `boolean`, `null`, `any`, a type of this table, `[T]` for a list, `{T}` for an object whose names are values,
and alternatives separated by `|`.
"""

TYPES = """\
Run: a run; most keys are those of Azure ML Workbench
run_number integer  the number of the run in the project
run_id string  the ID of the run
status string  Queued, Preparing, Running, Completed, Failed, Canceled or Unknown
reason string|null  why the run waits, failed or was canceled
exit_code integer|null  the exit code of the script
script_name string  the script, relative to the project
arguments [string]  the arguments of the script; secrets are masked
arguments_by_name {string}  the arguments by name, and the variables that only this run has
target string  the name of the compute target
run_configuration string  the name of the run configuration
created_utc string|null  time of submission, ISO 8601
start_time_utc string|null  start of the script
end_time_utc string|null  end of the run; null until it has ended
duration string|null  `H:MM:SS.ffffff` from the start to the end or, for an active run, to now
name null  always null
description string|null  the note
tags {string}  the tags with their values; "" for a tag without a value
pinned boolean  the run is at the top of the table of runs
hidden boolean  the run is archived
parent_run_id null  always null
user_id string  the user who submitted the run
agent string|null  the coding agent that submitted the run; null if the user did
properties Properties  the snapshot
sweep_id? string  the sweep of the run
family? string  the runs of the sweep that differ only in the seed
gpu? GpuBrief|GpuVerdict  the GPU verdict; complete where `attachments` is present
annotations_problem? string  why the annotations cannot be read
metrics_left_out? integer  the number of metrics beyond the 1,000 in the record
cluster_job? ClusterJob  the job in the scheduler of a cluster
attachments? string  names of files; from `history info`, `last`, `tag`, `note`, `archive` and `pin`
attachment_sizes? {integer}  the sizes of these files in bytes
attempts? [Attempt]  the attempts, if several; as `attachments`, and from `experiment status`
spark? Spark  the Spark applications; only where `attachments` is present
* number|string|null  the last value of a metric; a metric with the name of another key has the prefix `metric_`

Properties: the properties of a run
CommitId string|null  the commit of the snapshot

GpuBrief: the GPU verdict in short
verdict string  proven, idle, not used, shared, unknown or stalled
text string  the verdict in a sentence, with figures
gpu_seconds number  seconds multiplied by utilization, of all GPUs
energy_wh number  energy of the GPUs in Wh

GpuVerdict: the GPU verdict with all figures
verdict string  as in GpuBrief
text string  as in GpuBrief
cause string|null  the likely cause of `not used` or `idle`
gpu_seconds number  as in GpuBrief
energy_wh number  as in GpuBrief
devices [GpuFigures]  the GPUs that the run used
evidence [GpuEvidence]  lines of the log that show the use, or the lack, of a GPU
unseen [string]  gaps in the observation
advice [string]  problems and their usual fixes
samples integer  the number of samples
final boolean  the verdict will not change

GpuFigures: the use of a GPU by a run
number integer  the number of the GPU
name string  the model
uuid string  the UUID
seconds number  time in which processes of the run held memory of the GPU
peak_memory number|null  MiB, of processes of the run
mean_utilization number|null  % of the GPU in that time
p95_utilization number|null  the 95th percentile
own_utilization number|null  %, by processes of the run
gpu_seconds number  seconds multiplied by utilization
energy number  Wh of the GPU in that time
shared_seconds number  time in which other processes were on the GPU
others [string]  the programs of these processes, with their users if known
throttled_seconds number  time with reduced clocks
ecc_errors integer  the number of uncorrected memory errors in that time
idle number|null  %, part of the time without computation
ranks [integer]  the ranks of torchrun on the GPU

GpuEvidence: lines of a log
speaks string  gpu or cpu
framework string  the framework that wrote the lines
quote [string]  the lines
line integer  the number of the first line; 0 if unknown
cause string  why no GPU is used, or ""

ClusterJob: a job in the scheduler of a cluster
job_id? string  the ID of the job
nodes? string  the nodes of the job
position? integer  its position in the queue of the partition
estimated_start_utc? string  its estimated start
time_limit_utc? string  the end of its time limit

Attempt: an execution of the script
number integer  the number of the attempt, from 1
status string  as in Run
reason string|null  as in Run
exit_code integer|null  as in Run
start_time_utc string|null  the start
end_time_utc string|null  the end
log_start integer  the offset of its output in the log, in bytes
log_end integer|null  the offset after its output
gpu? GpuBrief  the GPU verdict of the attempt

Spark: the Spark applications of a run
applications [any]  the applications with their stages and failed tasks

Plan: the steps of a run, from `--dry-run`
target string  the name of the target
target_type string  the type of the target
interpreter string  the Python that starts the script
steps [Step]  the steps in order

Step: a step of a plan
name string  snapshot, copy, start and others
title string  the step in words
command [string]  the command, or an empty list
directory string  the folder of the command, or ""
environment {string}  the variables that are set for the command; secrets are masked

Member: a run of a sweep, from `--dry-run`
member integer  the number of the run in the sweep, from 1
values {string}  the values of the parameters
arguments [string]  the arguments of the script
environment? {string}  the variables that only this run has
family? integer  the number of the family, from 1

LogLine: a line of the output of a run
line string  the line without control characters; of an overwritten line such as a progress bar, the last version

LogEnd: the end of a run, the last line of `logs -f`
status string  as in Run
exit_code integer|null  as in Run
reason string|null  as in Run

Stacks: the Python stacks of a run
run_id string  the ID of the run
time_utc string  the time
seconds number  the duration of the reading
process_count integer  the number of processes of the run
processes [StackProcess]  the processes whose stacks were read

StackProcess: a Python process
role string  such as `script`, `launcher`, `rank 0` or `child of rank 0`
rank integer|null  the rank of torchrun
pid integer  the process ID
parent integer  the ID of the parent process
node string  the machine, or ""
command [string]  the command; secrets are masked
threads [StackThread]  the threads
problem string  why the stacks could not be read, or ""

StackThread: a thread
name string  the name, or ""
is_main boolean  the main thread
is_active boolean  the thread does not wait
has_gil boolean  the thread holds the global interpreter lock
frames [Frame]  the calls; the most recent is first

Frame: a call
function string  the function
file string  the path on the machine of the run
shown string  the end of this path
line integer  the line

Environment: an environment that was prepared
environment string  the name of the image or folder
target string  the target for which it was prepared

CleanItem: an unused item on a target
target string  the target
kind string|null  the kind of item
name string|null  its name
size string|null  its size as text
bytes integer|null  its size
note string|null  a remark
removed boolean  it was removed
problem string|null  why it could not be listed or removed

Port: an open port
url string  the address, with the token of the server
port integer  the port on this machine
kind string  tensorboard, jupyter or port
leads_to string  the address on `machine`
machine string  where the server is
run_id string  the run, or "" for Jupyter on the project
run_title string  the script and number of the run, or the name of the project
since string  when the port was opened

DoctorCheck: a check of this machine
name string  the check
state string  ok, limited or broken
message string  the result
cost string|null  what does not work
remedy string|null  the fix
command string|null  the command of the fix

Theme: a theme of the screens
name string  the name
title string  the title
kind string  dark, light, or "" for a theme with an error
used boolean  the screens use it
problem string  why it cannot be used, or ""
file string  its file

ThemeCheck: the result of a check of a theme
name string  the name
file string  its file
warnings [string]  poor contrasts

ThemeUse: the chosen theme
name string  the name
file string  its file

Channel: a channel for notifications
name string  the name
events [string]  end, failed, stalled
metrics [string]  conditions on metrics

Sent: the result of a test message
name string  the channel
sent boolean  the service has accepted the message
error string  why not, or ""

Key: a command of the screens
scope string  the part of the screens
id string  the name in keys.yaml
keys string  the keys as the screens show them
key_names [string]  the keys as keys.yaml names them
default_keys [string]  the keys without keys.yaml
name string  the name of the command
help string  its meaning

Call: a call of another program
time string  the start, ISO 8601
seconds number|null  the duration; null until it has ended
kind string  ssh, docker, git or process
state string  running, ended, failed or lost
result string  the result in a word, or ""
exit_code integer|null  the exit code
error string|null  the reason for a failure without an exit code
stderr string|null  the end of stderr
command string  the command for a shell; secrets are shown as ***
run_id string|null  the run for which the call was made
agent string|null  the coding agent that made the call, or whose run it was made for
process integer  the ID of the process that made the call

Family: runs that differ only in the seed
family string  the name, such as `sweep-3.1`
script_name string  the script
arguments_by_name {string}  the arguments that the runs share
runs [integer]  the numbers of the runs
metrics {FamilyMetric}  the last values of each metric

FamilyMetric: the statistics of a metric in a family
n integer  the number of values
mean number  the mean
sd number|null  the sample standard deviation
left_out {string}  the reasons why runs are left out, by the number of the run

Comparison: a comparison of runs
runs [string]  the IDs of the runs
rows [ComparedValue]  the values that differ, or all values with `--all`
notes [string]  values that could not be compared

ComparedValue: a value of several runs
section string  run, metrics, arguments, configuration, code and others
name string  the name of the value
differs boolean  the runs have different values
values [any]  the value of each run; null if a run has none

FamilyComparison: a comparison of a metric of two families
metric string  the metric
goal string|null  min or max: which values are better; null if unknown
difference number|null  the difference of the means
margin number|null  half of its 95 % confidence interval
degrees_of_freedom number|null  of Welch's method
verdict string  the result in a sentence
* Estimate|null  under the name of each family: its values of the metric

Estimate: a mean
n integer  the number of values
mean number  the mean
sd number|null  the sample standard deviation

Deleted: a run that was moved to the trash
run_number integer  as in Run
run_id string  as in Run
script_name string  as in Run
size string  the size as text
bytes integer  the size
deleted boolean  the run is in the trash
problem string|null  why not

Restored: a run that was moved back from the trash
run_id string  as in Run

Purged: the result of a purge
runs [string]  the IDs of the deleted runs
bytes integer  the size of their files
snapshot_bytes integer  the size of the snapshots that only they used
problems [string]  files that could not be deleted

Exported: the result of an export
runs integer  the number of runs
path string  the file or folder
renamed? [[string]]  for MLflow: the run, the old and the new name of each renamed value
cut? [string]  for MLflow: values that were cut

Imported: the result of an import
imported [string]  the IDs of the new runs
known integer  the number of runs that were imported before
skipped integer  the number of runs that were not imported

Asset: a version of an asset
name string  the name
version string  the version
link string  the link file, relative to the project

Target: a compute target
name string  the name
type string|null  the type
address string|null  the machine
interpreter string|null  the Python of scripts
base_docker_image string|null  the base image of containers
file string  its file
problem string|null  why the file is invalid

Check: a check of a target
check string  the name of the check
rung string  the former name of `check`
state string  ok, warning, unneeded or broken
message string  the result
remedy string|null  the fix
command string|null  the command of the fix
command_runs_on string|null  here or target

Attached: a new target
name string  the name
type string  the type
compute string  its file
runconfig string  its run configuration
secrets [SecretPlace]  where the entered secrets are kept
check [Check]  the checks of the target
install string|null  the command that installs the key of the workbench on the machine

SecretPlace: where a secret is kept
in_keyring boolean  in the keyring; otherwise only in memory
reason string  why it is not in the keyring, or ""

Login: a login to a target
name string  the target
state string  up, connecting or down
secrets [SecretPlace]  where the entered secrets are kept
* string|number|null  facts about the connection: since, server, peer, username and others

Disconnected: the end of a connection
name string  the target
state string  down

Detached: a target that was removed
name string  the target
files [string]  the removed files
trash [string]  their copies in the trash
secrets_removed integer  the number of removed secrets
notes [string]  files that still use the target

Gpu: a GPU, or a machine without one
target string  the targets on the machine, separated by commas
address string|null  the machine
gpu integer|null  the number of the GPU
name? string  the model
uuid? string  the UUID
utilization? number|null  %
memory_used? number|null  MiB
memory_total? number|null  MiB
power? number|null  W
power_limit? number|null  W
temperature? number|null  °C
sm_clock? number|null  MHz
memory_clock? number|null  MHz
throttled? string  the reasons for reduced clocks
held_down? string  the former name of `throttled`
ecc? integer|null  uncorrected memory errors
mig? integer  the number of MIG devices
driver? string  the version of the driver
cuda? string  the CUDA version that the driver supports
used_by? [string]  runs and users with processes on the GPU
whose? [string]  the former name of `used_by`
problem string|null  why values are missing

GpuProcess: a process on a GPU, or a machine that does not answer
target string  the targets on the machine, separated by commas
address string|null  the machine
gpu integer|null  the number of the GPU
pid? integer  the process ID
process? string  the program
user? string  the user
run? string|null  the ID of the run
script? string|null  the script and number of the run
container? string|null  the container
draws_only? boolean  the process only draws on a screen
memory? number|null  MiB
utilization? number|null  %, by the process
problem string|null  why values are missing

Watch: an update of `--watch`
time number  seconds since the epoch
records [Gpu]|[GpuProcess]  the GPUs or processes

RunConfiguration: a run configuration
name string  the name
target string|null  the target
framework string  Python or PySpark
argument_vector [string]  the script and its arguments
tracked_run boolean  the run works in a copy of the project
file string  its file
problem string|null  why the file is invalid

NamedFile: a new file
name string  the name
file string  the file

Trashed: a file that was moved to the trash
name string  the name
trash string  the trash

Finding: an error or advice in a configuration file
file string  the file
line integer  the line, from 1; 0 for the whole file
column integer  the column, from 1; 0 for the whole file
severity string  error, warning or info
code string  the code of the check
message string  the finding
remedy string  the fix in words
fix string|null  the title of the fix that `config fix` applies

Edit: an edit of a value
file string  the file
key string  the key
old any  the value before; null if it was not set
new any  the value now; null if it is not set
changed boolean  the file was changed

Fixed: fixes of a file
file string  the file
fixed [string]  the titles of the fixes that were made, or with `--dry-run` would be made
left [Finding]  the findings that are left
diff string  the changes as a diff

GpuReady: changes that let runs use a GPU
target string  the target
run_configurations [string]  its run configurations
changes [GpuChange]  the changes
images [Image]  the images that the target can use
notes [string]  remarks
left [Finding]  the problems that are left
diff string  the changes as a diff
applied boolean  the files were changed

GpuChange: a change that lets runs use a GPU
id string  the ID for `--without`
file string  the file
title string  the change
reason string  why it is necessary

Image: a Docker image
reference string  the name of the image
title string  its description

Schemas: JSON Schemas of the configuration files
compute any  of compute targets
runconfig any  of run configurations
conda any  of conda dependencies
spark any  of Spark packages
settings any  of the settings of the user

Created: a new project
name string  the name
path string  the folder
template string  its template

Added: a folder that became a project
name string  the name
path string  the folder
added [string]  the new files
targets [string]  the targets
run_configurations [string]  the run configurations

Restoration: restored files of the project
restored string  the run, or the state before the last restore
saved string|null  the commit of the state before; null if nothing was changed
changes [FileChange]  the files

FileChange: the change of a file
kind string  added, changed, removed, or left for a file that is not changed
path string  the file, relative to the project

Template: a template of projects
name string  the name
description string  its description
"""

OUTPUTS = """\
experiment submit: Run|[Run]|Plan|[Member]  Needs --detach or --dry-run (Plan or Member). With --repeat, a list.
experiment rerun: Run|Plan  Needs --detach or --dry-run (Plan).
experiment sweep: [Run]|[Member]  Needs --detach or --dry-run (Member).
experiment status: Run
experiment stacks: Stacks
experiment cancel: Run|[Run]  With --group, a list.
experiment resume: Run|[Run]  Without --run, a list.
experiment prepare: Environment
experiment collect: [Run]
experiment clean: [CleanItem]
logs: lines LogLine|LogEnd  One object per line. LogEnd is printed only with -f.
open: Port
notebook: Port
port list: [Port]
port close: [Port]  The closed ports.
doctor: [DoctorCheck]
theme list: [Theme]
theme check: ThemeCheck
theme use: ThemeUse
notify add: Channel
notify list: [Channel]
notify remove: Channel
notify test: [Sent]
keys: [Key]
status: [Run]  The active runs, or the newest run if no run is active.
trace: [Call]  With -f, one Call per line instead of a list.
history list: [Run]
history families: [Family]
history last: Run
history info: Run  With -a, the content of a file instead of JSON.
history compare: Comparison|[FamilyComparison]  For families, a list. --diff prints text only.
history download: [string]  The paths of the copies.
history promote: Asset
history tag: Run
history note: Run
history archive: Run
history pin: Run
history delete: [Deleted]
history restore: [Restored]
history purge: Purged
history export: Exported
history import: Imported
history sync: [Run]
asset list: [Asset]
asset download: [string]  The paths of the copies.
computetarget list: [Target]
computetarget attach: Attached
computetarget check: [Check]
computetarget login: Login
computetarget disconnect: Disconnected
computetarget detach: Detached
gpu list: [Gpu]  With --watch, one Watch per line.
gpu top: [GpuProcess]  With --watch, one Watch per line.
gpu check: [Check]
runconfiguration list: [RunConfiguration]
runconfiguration create: NamedFile
runconfiguration delete: Trashed
config check: [Finding]
config get: any  The value.
config set: Edit
config unset: Edit
config fix: Fixed
config gpu-ready: GpuReady
config schema: Schemas
project create: Created
project add: Added
project restore: Restoration
project sample list: [Template]
"""

WITHOUT_JSON = {
    "agent-guide": "prints a text for coding agents",
    "completion": "prints a script for a shell",
    "serve": "serves the screens until you stop it",
    "shell": "opens a shell, or runs a command whose output it does not change",
}
"""Commands without `-o json`, and what they do instead."""
