"""The type of the output of `-o json` for each command. `json_page` makes docs/reference/json.md of it.

Each line is `COMMAND: TYPE`, and after two spaces a note. After `lines`, each line of the output is a value of this
type. The types are in json_types.txt, where a type begins with `NAME: meaning`. Each of its fields is a line with the
name, the type, two spaces and the meaning. A name that ends with `?` is not always present, and `*` stands for all
other names. Types are `string`, `integer`, `number`, `boolean`, `null`, `any`, a type of the file, `[T]` for a list,
`{T}` for an object that maps any names to T, and alternatives separated by `|`.
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
agent list: [AgentRequest]
agent show: AgentRequest
agent approve: Run
agent deny: AgentRequest
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
computetarget prepare: [PreparationStep]
computetarget login: Login
computetarget disconnect: Disconnected
computetarget detach: Detached
gpu list: [Gpu]  With --watch, one Watch per line.
gpu top: [GpuProcess]  With --watch, one Watch per line.
gpu check: [Check]
gpu reserve: [Reservation]
gpu extend: [Reservation]
gpu release: [Reservation]  The former reservations.
gpu reservations: [Reservation]
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
project clone: Cloned
project add: Added
project recent: [RecentProject]
project restore: Restoration
project sample list: [Template]
"""

WITHOUT_JSON = {
    "agent-guide": "prints a text for coding agents",
    "completion": "prints a script for a shell",
    "computetarget cloud-init": "prints a cloud-init file",
    "mcp": "serves tools for coding agents until they disconnect",
    "serve": "serves the screens until you stop it",
    "shell": "opens a shell, or runs a command whose output it does not change",
}
"""Commands without `-o json`, and what they do instead."""
