#!/bin/sh
# Run the benchmark, the audit of a dataset, or the gallery of bugs on hosts that ssh reaches, with torchrun: it waits
# until all of them are there, and starts them together. In a clone that all hosts see under the same path
# (like ~/.cache, where the twins are built):
#
#   ./twins setup
#   HOSTS="node1 node2" examples/cluster/torchrun.sh bench --quick
#   HOSTS="node1 node2" examples/cluster/torchrun.sh audit data.py:train_set
#   HOSTS="node1 node2" examples/cluster/torchrun.sh gallery
#
# Each host writes to OUT/TIME/HOST. OUT is results/torchrun in the clone unless the environment sets it; all hosts have
# to see it. Afterwards:
#
#   ./twins bench merge results/torchrun/TIME --out results/torchrun/TIME/page
#
# The hosts meet at port 29400 of the first one (PORT). It may not die; another host may: the others go on, and end five
# minutes after their work, for which torchrun waits for it. SSH="ssh -i key" is the command that reaches a host.
# Ctrl-C ends the work on all hosts. There, it has a terminal (ssh -tt), whose end is its end.
set -eu
cd "$(dirname "$0")/../.."
[ -n "${HOSTS:-}" ] || {
  echo "HOSTS names no host: HOSTS=\"node1 node2\" $0 bench --quick" >&2
  exit 2
}
[ $# -gt 0 ] || set -- bench
job=$(date +%Y%m%d-%H%M%S)
mkdir -p "${OUT:=results/torchrun}/$job" || {
  echo "With OUT=DIR, name a folder that all hosts share and may write to" >&2
  exit 2
}
out=$(cd "$OUT/$job" && pwd)

# Words for the shell of a remote host: each in quotes.
quoted() { for word; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done; }
nodes=$(echo "$HOSTS" | wc -w)
run="stty -opost; cd $(quoted "$PWD")&& ./twins exec ft torchrun --nnodes $nodes --nproc-per-node 1 --no-python \
  --rdzv-id $job --rdzv-backend c10d --rdzv-endpoint ${HOSTS%% *}:${PORT:-29400} \
  $(quoted examples/cluster/on_node.sh "$out" "$@")"
started=
# ssh's end closes the terminals of the hosts, whose processes get SIGHUP. By SIGTERM, since a shell lets processes in
# the background ignore SIGINT.
# shellcheck disable=SC2086 # several numbers
trap 'trap "" INT TERM HUP; kill $started 2>/dev/null || :; wait || :; echo "interrupted on all hosts" >&2; exit 130' INT TERM HUP
for host in $HOSTS; do
  ${SSH:-ssh} -tt "$host" "$run" </dev/null &
  started="$started $!"
done
status=0
for process in $started; do
  wait "$process" || status=$?
done
[ "$1" != bench ] || echo "merge: ./twins bench merge $out --out $out/page"
exit "$status"
