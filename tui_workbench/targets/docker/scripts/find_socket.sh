# $1 is the system's socket. `DOCKER_HOST` or the current Docker context may choose another socket. Without a choice,
# the sockets of rootless engines, Docker Desktop, colima and podman's virtual machine are tried too. A context whose
# engine is on another machine is ignored.
runtime=${XDG_RUNTIME_DIR:-/run/user/$(id -u)} choice= refused=
case $DOCKER_HOST in unix://*) choice="DOCKER_HOST $DOCKER_HOST" ;; esac
if [ -n "$DOCKER_CONTEXT" ] || grep -qs '"currentContext"' "${DOCKER_CONFIG:-$HOME/.docker}/config.json"; then
    choice=${choice:-$(docker context inspect --format '{{.Name}} {{.Endpoints.docker.Host}}' 2>/dev/null)}
fi
case $choice in
    "default "*) choice= ;;
    *" unix://"*) ;;
    *) choice= ;;
esac
if [ -n "$choice" ]; then set -- "${choice#* unix://}"; else
    set -- "$1" "$runtime/docker.sock" "$HOME/.docker/run/docker.sock" "$HOME/.docker/desktop/docker.sock" \
        "$HOME/.colima/default/docker.sock" "$HOME/.local/share/containers/podman/machine/podman.sock"
fi
for socket; do
    [ -S "$socket" ] || continue
    [ -r "$socket" ] && [ -w "$socket" ] && { printf 'usable\n%s\n' "$socket"; exit; }
    refused=${refused:-$socket}
done
[ -n "$refused" ] && {
    group=$(stat -c %G "$refused" 2>/dev/null || stat -f %Sg "$refused")
    printf 'refused\n%s\n%s\n%s\n' "$refused" "$(id -un)" "$group"
    exit
}
[ -n "$choice" ] && { printf 'silent\n%s\n%s\n' "${choice%% *}" "$1"; exit; }
command -v docker >/dev/null 2>&1 && echo stopped || echo missing
printf '%s\n' "$@"
