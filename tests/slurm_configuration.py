"""The configuration of the tests' Slurm cluster (see `slurm_cluster`): nodes, partitions, accounts and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NODES = {"node1": "a100", "node2": "v100"}
"""The compute nodes, and the type of their two GPUs, which is also a feature (`--constraint`)."""

GPUS_PER_NODE = 2
CPUS_PER_NODE = 8
MEMORY_PER_NODE = 16000
"""In MB. The machine does not need this many CPUs or this much memory."""

PARTITIONS = """\
PartitionName=gpu Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=1:00:00 PriorityTier=10 PreemptMode=OFF
PartitionName=cpu Nodes=ALL MaxTime=1-00:00:00 DefaultTime=1:00:00 PriorityTier=10 PreemptMode=OFF
PartitionName=short Nodes=ALL MaxTime=2 DefaultTime=1 PriorityTier=10 PreemptMode=OFF
PartitionName=members Nodes=ALL MaxTime=1:00:00 DenyAccounts=closed AllowGroups=outsider PriorityTier=10 PreemptMode=OFF
PartitionName=lab Nodes=ALL MaxTime=1:00:00 DenyAccounts=closed PriorityTier=10 PreemptMode=OFF
PartitionName=scavenge Nodes=ALL MaxTime=1-00:00:00 DefaultTime=1:00:00 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=1-00:00:00 DefaultTime=1:00:00 PriorityTier=20 PreemptMode=OFF
"""
"""`short` allows two minutes, `members` only the user outsider, `lab` every account but `closed`. Jobs in `scavenge`
make room for those of other partitions: they are requeued, or end as PREEMPTED if they must not be requeued."""

_CONFIGURATION = """\
ClusterName=wbtest
SlurmctldHost=head({head})
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{tasks}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
MpiDefault=none
MailProg=/usr/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
PriorityType=priority/basic
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
EnforcePartLimits={enforce}
ReturnToService=2
JobRequeue=1
InactiveLimit=0
KillWait=2
FirstJobId={first_job_id}
MinJobAge={min_job_age}
MessageTimeout={message_timeout}
SlurmctldTimeout=300
SlurmdTimeout={slurmd_timeout}
{accounting}
"""

_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=head
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
"""

_CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
"""

_SLURMDBD = """\
AuthType=auth/munge
DbdHost=head
SlurmUser=root
LogFile={folder}/log/slurmdbd
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""

ACCOUNTS = """\
add account lab Cluster=wbtest
add account closed Cluster=wbtest
add qos one Flags=DenyOnLimit MaxJobsPerUser=1 MaxTRESPerUser=gres/gpu=1
add user research Account=lab Cluster=wbtest QOS=normal,one
add user outsider Account=lab,closed DefaultAccount=lab Cluster=wbtest
"""


def configuration(
    folder: Path, addresses: Mapping[str, str], values: Mapping[str, int], *, accounting: bool, memory_limits: bool
) -> dict[str, str]:
    """Return the files of /etc/slurm for a cluster in `folder`; `values` are those of `SlurmCluster`."""
    text = _CONFIGURATION.format(
        folder=folder,
        head=addresses["head"],
        # Both are common: with NO, a job that no partition can ever start waits forever.
        enforce="ALL" if accounting else "NO",
        accounting=_ACCOUNTING if accounting else "",
        tasks="cgroup" if memory_limits else "none",
        **values,
    )
    gres = ""
    for name, gpu in NODES.items():
        text += f"NodeName={name} NodeAddr={addresses[name]} CPUs={CPUS_PER_NODE} RealMemory={MEMORY_PER_NODE}"
        text += f" Gres=gpu:{gpu}:{GPUS_PER_NODE} Feature={gpu} State=UNKNOWN\n"
        gres += f"NodeName={name} Name=gpu Type={gpu} File={folder}/dev/nvidia[0-{GPUS_PER_NODE - 1}]\n"
    files = {"slurm.conf": text + PARTITIONS, "gres.conf": gres}
    if memory_limits:
        files["cgroup.conf"] = _CGROUP
    if accounting:
        files["slurmdbd.conf"] = _SLURMDBD.format(folder=folder)
    return files
