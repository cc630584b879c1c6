# $1: the run's directory. Moves `outputs` out of `work`. Other machines that follow the run may do the same at the same
# time.
cd -- "$1" 2>/dev/null && [ -d work ] && [ -e placed ] || exit 0
if [ -d work/outputs ] && [ ! -L work ] && [ ! -L work/outputs ] && [ ! -e outputs ] && [ ! -L outputs ]; then
    mv work/outputs outputs 2>/dev/null || [ -d outputs ] || exit
fi
