# The arguments are options of sbatch. Prints the time of the login node, and on stderr when a job with these options
# would start. The exit code is 69 without sbatch.
command -v sbatch >/dev/null || exit 69
date +%Y-%m-%dT%H:%M:%S
printf '#!/bin/sh\n' | sbatch --test-only --chdir=/ --export=NONE "$@"
