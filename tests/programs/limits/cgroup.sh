#!/bin/bash
# A share of the memory limit of a cgroup is the same in UMEM_OPTIONS and in
# umem ctl, for both versions of the interface, and the least limit counts, that
# of the group or of one above it.  Files of the kernel are replaced in a mount
# namespace.
set -u
export LC_ALL=C
umem=$B/umem

if ! $UNSHARE true 2>/dev/null; then
	echo "unshare is not permitted"
	exit 77
fi

# within FOLDER COMMAND... - runs it with FOLDER/groups as /sys/fs/cgroup, and
# FOLDER/cgroup as the list of groups of each process
within() {
	# shellcheck disable=SC2016 # for the inner shell
	$UNSHARE bash -c '
		mount --bind "$1/groups" /sys/fs/cgroup || exit
		mount --bind "$1/cgroup" "/proc/$$/cgroup" || exit
		shift
		"$@"' within "$@"
}

# Runs a program with a share, and changes that by umem ctl; the values that the
# program and the command report are printed, which must be the same.
cat >shares <<'E2'
ours=/proc/$$/cgroup
# exec, so that the file of this process is the replaced one
( mount --bind "$ours" "/proc/$BASHPID/cgroup"
  exec env UMEM_OPTIONS=verbose,soft_limit=50%,hard_limit=100% \
      LD_PRELOAD="$SHIM" sleep 600 2>said ) &
pid=$!
trap 'kill $pid' EXIT
until "$UMEM" status $pid >/dev/null 2>&1; do
	kill -0 $pid || exit
	sleep 0.1
done
sed -n 's/^umem: UMEM_OPTIONS: \(...._limit=[^ ]*\).*/\1/p' said
"$UMEM" ctl $pid soft_limit=none hard_limit=none >/dev/null
"$UMEM" ctl $pid soft_limit=50% hard_limit=100% 2>&1 | sed 's/ (before.*//'
E2

# shares FOLDER SOFT HARD - these must be 50 and 100 percent
shares() {
	local want

	want=$(printf 'hard_limit=%s\nsoft_limit=%s\n' "$3" "$2")
	want=$(printf '%s\n' "$want" "$want" | sort)
	SHIM=$SHIM UMEM=$umem within "$1" bash "$PWD/shares" >told 2>&1
	[ "$(sort told)" = "$want" ] && return
	echo "$1: wanted $2 and $3, found:"
	cat told said
	exit 1
}

mkdir -p v1/groups/memory/a/b v2/groups/a/b none/groups
printf '5:cpu,cpuacct:/x\n4:hugetlb,memory:/a/b\n' >v1/cgroup
echo 9223372036854771712 >v1/groups/memory/a/b/memory.limit_in_bytes
echo 209715200 >v1/groups/memory/a/memory.limit_in_bytes
echo 0::/a/b >v2/cgroup
echo 104857600 >v2/groups/a/b/memory.max
echo max >v2/groups/a/memory.max
echo 0::/ >none/cgroup
shares v1 100m 200m
shares v2 50m 100m
echo 62914560 >v2/groups/memory.max
shares v2 30m 60m
# Without a limit, the memory of the machine counts.
ram=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
SHIM=$SHIM UMEM=$umem within none bash "$PWD/shares" >told 2>&1
if [ "$(sort -u told | wc -l)" != 2 ] ||
    ! grep -Eqx "hard_limit=(${ram}m|[0-9]+g)" told; then
	echo "$ram MiB of memory, and the shares:"
	cat told
	exit 1
fi

LD_PRELOAD=$SHIM sleep 600 &
pid=$!
trap 'kill $pid' EXIT
until "$umem" status $pid >/dev/null 2>&1; do sleep 0.1; done
reason='neither a size nor a share'
for value in 0% 101% % 5x% 1m% 50%% -1%; do
	said=$("$umem" ctl $pid soft_limit=$value 2>&1)
	if [ "$said" != "umem: soft_limit: '$value' is $reason" ]; then
		echo "soft_limit=$value: $said"
		exit 1
	fi
	said=$(UMEM_OPTIONS=soft_limit=$value LD_PRELOAD=$SHIM env true 2>&1)
	if ! grep -q "soft_limit.*$reason" <<<"$said"; then
		echo "UMEM_OPTIONS=soft_limit=$value: $said"
		exit 1
	fi
done
exit 0
