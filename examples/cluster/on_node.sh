#!/bin/sh
# The work of one node. slurm.sbatch and torchrun.sh start this file on every node:
#
#   examples/cluster/on_node.sh DIR [bench [OPTION ...]]     the benchmark
#   examples/cluster/on_node.sh DIR audit FILE.py:NAME ...   the audit of a dataset
#   examples/cluster/on_node.sh DIR gallery [SCRIPT ...]     the gallery of published bugs
#
# Everything the node writes is in its own folder, DIR/NODE, so no node depends on another.
#
# With FT_SIF=FILE and GIL_SIF=FILE it runs in Apptainer's containers, made of the images, instead of the clone's twins:
#
#   apptainer build ft-env.sif docker-daemon:ft-env:latest
#
# Apptainer's own variables work: APPTAINER_BIND=/data makes a folder visible, APPTAINER_NV=1 the GPUs.
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
# Run a command of the images in a container: `contained FILE.sif COMMAND ...`. It sees this folder, DIR, /tmp and a
# cache, and has an empty home. Its processes end with its first one.
contained() {
  image=$1
  shift
  apptainer exec --cleanenv --pid --home "$run:/home/ft" --bind "$out,$run:/run/twins,$cache:/cache" \
    "$image" /opt/ft-env/docker/entrypoint "$@"
}

if [ -n "${FT_SIF:-}" ]; then
  command -v apptainer >/dev/null || {
    echo "$node: FT_SIF is set, but there is no apptainer here" >&2
    exit 2
  }
  : "${GIL_SIF:?name the image of the twin with the GIL, too}"
  # Sockets have to be on the node itself.
  run=$(mktemp -d) cache=${XDG_CACHE_HOME:-$HOME/.cache}/ft-env
  mkdir -p "$cache"
  trap 'kill ${server:-} 2>/dev/null || true; rm -r "$run"' EXIT
  trap 'exit 143' TERM INT
fi
case ${FT_SIF:+contained }$verb in
  "contained bench")
    # Runs the trials of the twin with the GIL. It ends with the benchmark.
    contained "$GIL_SIF" python -m ftbench.trial.server --idle 300 --socket /run/twins/gil.sock \
      >"$folder/gil.txt" 2>&1 &
    server=$!
    set -- contained "$FT_SIF" bench --out "$folder" \
      --twin ft=/usr/local/bin/python3 --twin gil=unix:/run/twins/gil.sock "$@"
    ;;
  "contained audit") set -- contained "$FT_SIF" audit "$@" ;;
  bench) set -- ./twins bench --out "$folder" "$@" ;;
  audit) set -- ./twins audit "$@" ;;
  gallery) set -- ./twins exec ft python repro/run_gallery.py --out "$folder/gallery.md" "$@" ;;
  *)
    echo "$node: there is no $verb: bench, audit or gallery (with FT_SIF: bench or audit)" >&2
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
