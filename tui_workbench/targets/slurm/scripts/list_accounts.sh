# $1: IDs of jobs, separated by commas. Prints the time of the login node, and `ID|STATE|CODE:SIGNAL|END` for each job.
date +%Y-%m-%dT%H:%M:%S
exec sacct -n -P -X -S now-30days -j "$1" -o JobIDRaw,State,ExitCode,End
