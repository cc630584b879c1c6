# A script that prints four words, and then a line for each address of the machine.
#
# The third word is the address to which SSH connected (sshd(8), ENVIRONMENT). The fields of a line are number,
# interface, `inet` or `inet6`, and ADDRESS/LENGTH (ip-address(8)).
echo "$SSH_CONNECTION"
PATH=$PATH:/sbin:/usr/sbin
exec ip -o addr
