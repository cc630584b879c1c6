# Prints this user's running jobs, a line `=`, and each node with GPUs once per partition.
squeue -h -t RUNNING,COMPLETING,SUSPENDED -u "$(id -un)" -O \
    "$(printf %s JobID:20,Partition:80,NumNodes:10,tres-alloc:300,tres-per-job:200,tres-per-node:200, \
        TimeLeft:20,NodeList:300,Name:200)" | tr -s ' '
echo '='
sinfo -h -N -O 'NodeHost:100,Partition:80,StateCompact:30,Gres:300,GresUsed:300' | tr -s ' ' | grep 'gpu:'
exit 0
