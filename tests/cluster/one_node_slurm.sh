#!/usr/bin/env bash
# Start a Slurm of one node on this machine, for tests/cluster/test_slurm.py. It needs root, and Debian's slurm-wlm and munge.
set -euo pipefail
host=$(hostname -s)
mkdir -p /etc/slurm /run/munge /var/lib/slurm /var/log/slurm
cat >/etc/slurm/slurm.conf <<END
ClusterName=here
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=5
NodeName=$host CPUs=$(nproc) State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1k count=1 status=none; }
chown munge:munge /etc/munge/munge.key /run/munge; chmod 400 /etc/munge/munge.key; chmod 755 /run/munge
pgrep -x munged >/dev/null || runuser -u munge -- /usr/sbin/munged
pgrep -x slurmctld >/dev/null || slurmctld
pgrep -x slurmd >/dev/null || slurmd
for _ in $(seq 60); do sinfo -h -o %t | grep -q -E 'idle|mix|alloc' && break; sleep 1; done
sinfo
