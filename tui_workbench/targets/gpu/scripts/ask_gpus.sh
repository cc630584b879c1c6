# $1: 1 to get the CUDA version. Prints the tool and the GPUs. An old nvidia-smi that does not know the last fields is
# called again without them. The lines before this script are those of smi.sh.
. ./smi.sh
printf '%s\n' "$tool"
fields=name,driver_version,memory.total,uuid
said=$(smi --query-gpu=$fields,compute_cap,mig.mode.current --format=csv,noheader)
code=$?
case $said in *'not a valid field'*) said=$(smi --query-gpu=$fields --format=csv,noheader); code=$? ;; esac
printf '%s\n' "$said"
[ $code = 0 ] || exit $code
[ "$1" = 1 ] || exit 0
echo .
smi 2>/dev/null | sed -n 's/.*CUDA[A-Z ]*Version *: *\([0-9.]*\).*/\1/p' | head -n 1
