# Defines the formats that `find` prints about each folder and file: `tree_folder` and `tree_file` for the tree, and
# `copy_folder` and `copy_file` for a copy of it. The path follows "/", and no other "/" precedes it. The facts after
# the first "|" are those that the tree and a copy share.
# shellcheck disable=SC2034  # for the scripts that use this file
tree_folder='%y %C@|%y %m' tree_file='%y %C@|%y %m %s %T@'
copy_folder='%y %C@ %i %n %T@|%y %m' copy_file='%y %C@ %i %n|%y %m %s %T@'
