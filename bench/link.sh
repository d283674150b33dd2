# shellcheck shell=bash
# link.sh - two network namespaces joined by a link of a given rate, for the scripts that source it (root).
#
#   link_up; trap link_down EXIT      namespaces $link0 and $link1, 10.77.0.1 and .2 on interfaces ${link0}v, ${link1}v
#   link_rate MBIT                    both directions, each for itself
#   link_mpi COMMAND...               prints the words that start COMMAND as two ranks, one in each namespace
#   link_rank R COMMAND...            runs COMMAND in namespace R (0, 1), with torchrun's variables
#
# Names carry the process's number, so that two runs do not meet; link_down removes all of it and may be called twice.

link0=weft$$a link1=weft$$b link_agent=''

link_up() {
    ((EUID == 0)) || die 2 "network namespaces need root"
    command -v ip >/dev/null && command -v tc >/dev/null || die 2 "ip and tc are needed (Debian: iproute2)"
    ip netns add $link0
    ip netns add $link1
    ip link add ${link0}v netns $link0 type veth peer name ${link1}v netns $link1
    ip -n $link0 addr add 10.77.0.1/24 dev ${link0}v
    ip -n $link1 addr add 10.77.0.2/24 dev ${link1}v
    local side
    for side in $link0 $link1; do
        ip -n $side link set lo up
        ip -n $side link set ${side}v up
    done
    # Open MPI's launcher believes it logs in to another host: it enters the other namespace, under a host name of
    # its own, so that the ranks do not take each other for neighbours and leave shared memory alone.
    link_agent=$(mktemp)
    cat >"$link_agent" <<'END'
#!/usr/bin/env bash
host=$1
shift
exec ip netns exec "$host" unshare -u bash -c "hostname $host; $*"
END
    chmod +x "$link_agent"
}

link_down() {
    local side pids
    for side in $link0 $link1; do
        pids=$(ip netns pids $side 2>/dev/null) || continue
        # What an aborted run left behind; a namespace lives as long as its processes.
        [[ -z $pids ]] || kill $pids 2>/dev/null || true
        ip netns del $side 2>/dev/null || true
    done
    [[ -z $link_agent ]] || rm -f "$link_agent"
}

# A short burst (2 ms, at least 40 KB): a long one would let small buckets through for nothing.
link_rate() {
    local side bytes=$(($1 * 250))
    ((bytes >= 40000)) || bytes=40000
    for side in $link0 $link1; do
        tc -n $side qdisc replace dev ${side}v root tbf rate "$1mbit" burst "$bytes" latency 50ms
    done
}

link_mpi() {
    printf '%s\n' ip netns exec $link0 unshare -u bash -c "hostname $link0; exec \"\$@\"" mpirun mpirun \
        --mca plm_rsh_agent "$link_agent" --host "$link0:1,$link1:1" --map-by node --bind-to none \
        --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca oob_tcp_if_include 10.77.0.0/24 "$@"
}

link_rank() {
    local rank=$1 side=$link0
    shift
    ((rank == 0)) || side=$link1
    printf '%s\n' ip netns exec "$side" env "RANK=$rank" WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511 \
        "GLOO_SOCKET_IFNAME=${side}v" TORCH_CPP_LOG_LEVEL=ERROR "$@"
}
