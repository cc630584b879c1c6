#!/bin/sh
# $1: the folder that the login node has made, $2: the interpreter or "". Exit codes: 66 if this node does not see the
# folder, 127 if it cannot run the interpreter.
try=$1 python=$2
[ -s "$try/login" ] || exit 66
[ -z "$python" ] || version=$("$python" --version 2>&1) || exit 127
printf "%s %s\n" "$SLURMD_NODENAME" "$version" >"$try/new" && mv "$try/new" "$try/node"
