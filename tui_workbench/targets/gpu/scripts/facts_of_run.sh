# $1: run ID. Prints the facts about the processes of the run.
id=$1
. ./facts.sh
facts
exit 0
