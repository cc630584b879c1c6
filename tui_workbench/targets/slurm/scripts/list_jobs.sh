# Prints the time of the login node, and a line for each job of this user: job ID, state, reason, seconds used, time
# left, start, end, nodes, and last the name, which may contain anything. The jobs include those that ended recently.
date +%Y-%m-%dT%H:%M:%S
exec squeue -h -t all -u "$(id -un)" -o '%A|%T|%r|%M|%L|%S|%e|%N|%j'
