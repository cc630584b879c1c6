# Sets `tool` to the program that lists the GPUs of the machine, or to "".
PATH=$PATH:/usr/bin:/usr/local/bin:/usr/lib/wsl/lib:/opt/rocm/bin
export LC_ALL=C
for tool in nvidia-smi amd-smi rocm-smi ''; do
    command -v "$tool" >/dev/null 2>&1 && break
done
