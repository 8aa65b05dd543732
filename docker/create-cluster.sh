#!/bin/sh
# Makes one cluster of the nodes given as HOST:PORT, half of them replicas, and waits until every node says
# ok. Nodes that are a cluster already stay as they are. Needs redis-cli.
set -eu

patience=60

fail() {
    echo "create-cluster: $*" >&2
    exit 1
}

# Runs a command at a node: ask HOST:PORT COMMAND ...
ask() (
    host=${1%:*} port=${1##*:}
    shift
    redis-cli -h "$host" -p "$port" "$@" 2>/dev/null
)

# Tries a check every half second: until_true WHAT COMMAND ...
until_true() {
    what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt $((patience * 2)) ] || fail "$what: not after $patience s"
        sleep 0.5
    done
}

answers() { [ "$(ask "$1" PING)" = PONG ]; }

# It serves all slots and knows everybody.
is_ok() {
    info=$(ask "$1" CLUSTER INFO | tr -d '\r' | grep -E '^cluster_(state|known_nodes):')
    [ "$info" = "cluster_state:ok
cluster_known_nodes:$count" ]
}

count=$#
[ "$count" -ge 6 ] || fail "give at least six nodes as HOST:PORT"
for node in "$@"; do until_true "$node answers" answers "$node"; done

if ! is_ok "$1"; then
    # Nodes meet by IP address.
    addresses=
    for node in "$@"; do
        ip=$(getent ahostsv4 "${node%:*}" | awk 'NR == 1 { print $1 }')
        [ -n "$ip" ] || fail "${node%:*} does not resolve"
        addresses="$addresses $ip:${node##*:}"
    done
    # shellcheck disable=SC2086 # one word a node
    redis-cli --cluster create $addresses --cluster-replicas 1 --cluster-yes
fi

for node in "$@"; do until_true "$node says ok" is_ok "$node"; done
echo "create-cluster: ok"
