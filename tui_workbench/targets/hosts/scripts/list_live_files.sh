# $1: a separator, then the directories of runs. Prints the separator, and then sizes and names, for each run. The run
# has written the event files that are newer than `placed`.
separator=$1
shift
for run; do
    echo "$separator"
    cd -- "$run" 2>/dev/null || continue
    [ -f metrics.jsonl ] && [ ! -L metrics.jsonl ] && wc -c metrics.jsonl
    [ -d ranks ] && find ranks -type f -name '*.log' -exec wc -c {} \;
    [ -d gpu ] && find gpu -type f -exec wc -c {} \;
    [ -d spark ] && find spark -type f ! -name '.*' -exec wc -c {} \;
    [ -e placed ] && find work outputs -type f -newer placed -name '*tfevents*' -exec wc -c {} \; 2>/dev/null
done
exit 0
