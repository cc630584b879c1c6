# Defines `facts`, which prints the facts about the processes of the run $id.
. ../../hosts/scripts/processes_of_run.sh
facts() {
    for pid in $(left); do
        [ -r /proc/"$pid"/maps ] && echo seen
        grep -qs -e 'libcuda\.so' -e 'libamdhip64\.so' /proc/"$pid"/maps && echo cuda
        tr '\0' '\n' </proc/"$pid"/environ |
            sed -nE 's/^(CUDA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES)=/visible=/p'
        # shellcheck disable=SC2012  # prints where the links point
        ls -l /proc/"$pid"/fd | sed -n 's|.*/dev/nvidia\([0-9][0-9]*\)$|device=\1|p'
    done 2>/dev/null | sort -u
}
