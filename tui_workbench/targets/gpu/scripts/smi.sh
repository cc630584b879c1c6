# Defines `smi`, a function with the arguments of nvidia-smi, for GPUs of both vendors. The lines before this script
# assign $amd, the text of amd_program.py. Sets `tool` as find_tool.sh does. Without a program, `tool` is the name of the
# program to install. `stdbuf`, where installed, makes nvidia-smi write each line at once.
#
# shellcheck disable=SC2154
. ./find_tool.sh
[ -n "$tool" ] || { [ -e /dev/kfd ] && tool=amd-smi || tool=nvidia-smi; }
lines=$(command -v stdbuf) && lines="$lines -oL"
smi() {
    command -v "$tool" >/dev/null 2>&1 || { echo "$tool: not found" >&2; return 127; }
    if [ "$tool" = nvidia-smi ]; then $lines nvidia-smi "$@"; else python3 -I -S -c "$amd" "$tool" "$@"; fi
}
