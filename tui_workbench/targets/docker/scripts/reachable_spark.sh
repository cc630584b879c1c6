# Without this variable, Spark reports the address of its user interface with the name of the container, which only the
# container itself can resolve.
: "${SPARK_LOCAL_HOSTNAME:=$(sed -n "/^[0-9.]*[[:space:]].*$(cat /etc/hostname)/{s/[[:space:]].*//p;q;}" /etc/hosts)}"
[ -z "$SPARK_LOCAL_HOSTNAME" ] || export SPARK_LOCAL_HOSTNAME
exec "$@"
