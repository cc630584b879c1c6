# Prints the memory in use of each GPU, the processes that compute on GPUs, and the list of GPUs and MIG slices, separated
# by lines with a dot. The lines before this script are those of smi.sh.
. ./smi.sh
smi --query-gpu=index,uuid,memory.used --format=csv,noheader,nounits || exit
echo .
smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader,nounits || exit
echo .
smi -L
