# Adds the key once, on a separate line even if the file does not end with a line feed.
umask 077
mkdir -p "$HOME/.ssh" && touch "$HOME/.ssh/authorized_keys" || exit 1
cd "$HOME/.ssh" || exit 1
grep -qxF -e "$1" authorized_keys && exit 0
[ -z "$(tail -c 1 authorized_keys)" ] || echo >>authorized_keys || exit 1
printf '%s\n' "$1" >>authorized_keys
