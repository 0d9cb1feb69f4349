#!/bin/sh
# The work of one node. slurm.sbatch and torchrun.sh start this file on every node:
#
#   examples/cluster/on_node.sh DIR [bench [OPTION ...]]     the benchmark
#   examples/cluster/on_node.sh DIR audit FILE.py:NAME ...   the audit of a dataset
#   examples/cluster/on_node.sh DIR gallery [SCRIPT ...]     the gallery of published bugs
#
# Everything the node writes is in its own folder, DIR/NODE, so no node depends on another.
set -eu
cd "$(dirname "$0")/../.."
node=${SLURMD_NODENAME:-$(uname -n)}
out=$1 folder=$1/$node
shift
[ $# -gt 0 ] || set -- bench
verb=$1
shift

# The nodes are no ranks of one job: each does all of the work.
unset RANK LOCAL_RANK WORLD_SIZE
if ! { [ -d "$out" ] && mkdir -p "$folder"; }; then
  echo "$node: cannot write to $folder: with OUT=DIR, name a folder that all nodes share and may write to" >&2
  exit 2
fi
case $verb in
  bench) set -- ./twins bench --out "$folder" "$@" ;;
  audit) set -- ./twins audit "$@" ;;
  gallery) set -- ./twins exec ft python repro/run_gallery.py --out "$folder/gallery.md" "$@" ;;
  *)
    echo "$node: there is no $verb: bench, audit or gallery" >&2
    exit 2
    ;;
esac
echo "$node: $*"
status=0
"$@" >"$folder/log.txt" 2>&1 || status=$?
if [ "$status" -eq 0 ]; then
  echo "$node: done"
else
  echo "$node: exit status $status; the end of $folder/log.txt:" >&2
  tail -n 5 "$folder/log.txt" | sed "s/^/$node:   /" >&2
fi
exit "$status"
