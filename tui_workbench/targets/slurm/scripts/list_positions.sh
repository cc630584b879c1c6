# Prints `JOB POSITION` for each waiting job of this user and each of its partitions.
#
# The position is the place among the jobs of the partition by priority. Jobs that do not wait for nodes, such as held
# jobs, are left out. Nothing is printed if the cluster hides the jobs of other users (`PrivateData` in slurm.conf). The
# positions are computed on the login node, so that few bytes are sent.
scontrol show config | grep -q '^PrivateData .*jobs' && exit
squeue -h -t PENDING -o '%P %Q %A %u %r' | awk '
    $5 ~ /^(Priority|Resources|None)$/ {
        n = split($1, partitions, ",")
        for (i = 1; i <= n; i++) print partitions[i], $2, $3, $4
    }' |
    LC_ALL=C sort -k1,1 -k2,2nr -k3,3n | awk -v user="$(id -un)" '
    $1 != partition { partition = $1; place = 0 }
    { place++ }
    $4 == user { print $3, place }'
