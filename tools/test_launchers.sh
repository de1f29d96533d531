#!/usr/bin/env bash
# Trains shapes10 with 1, 2 and 4 ranks, started by each of the launchers that are named, and compares the weights: they must be
# the same, bit for bit. Names: launch (brim launch), mpirun (Open MPI), mpi (the same, and it carries the messages), torchrun (TORCHRUN says where it is, if not in PATH)
# and srun (Debian's slurm-wlm; without a running Slurm, one of this machine alone is started, which takes root). sbatch tries
# examples/cluster/train.sbatch instead: a job that is told to stop is queued again, and ends with the planned weights. kubernetes
# runs the pods of examples/cluster/job.yaml as processes of this machine (PYTHON says which Python has PyYAML; where it has
# kubernetes-validate, too, the file is checked against Kubernetes' schema).
#   tools/test_launchers.sh [LAUNCHER...]      BRIM=build/bin/brim
set -euo pipefail
CDPATH= cd "$(dirname "$0")/.."
brim=$(realpath "${BRIM:-build/bin/brim}")
scratch=$(mktemp -d)
daemons=()
finish() {
  for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap finish EXIT
export XDG_CACHE_HOME=$scratch/cache

# One node: this machine. Its daemons run until the script ends.
start_slurm() {
  local node
  node=$(hostname -s)
  export SLURM_CONF=$scratch/slurm.conf
  mkdir -p "$scratch/state" "$scratch/spool" /run/munge
  [ -e /etc/munge/munge.key ] || (umask 077 && head -c 1024 /dev/urandom >/etc/munge/munge.key && chown munge: /etc/munge/munge.key)
  chown munge: /run/munge /etc/munge/munge.key
  chmod 0711 /run/munge
  if ! pgrep -x munged >/dev/null; then
    runuser -u munge -- munged --syslog || runuser -u munge -- munged --force
    daemons+=($(pgrep -x munged))
  fi
  cat >"$SLURM_CONF" <<END
ClusterName=brim
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  slurmctld -D >"$scratch/slurmctld.out" 2>&1 &
  daemons+=($!)
  slurmd -D >"$scratch/slurmd.out" 2>&1 &
  daemons+=($!)
  for _ in $(seq 60); do
    sinfo -h -o %t 2>/dev/null | grep -qx idle && return
    sleep 0.5
  done
  echo "no Slurm:" >&2
  tail -5 "$scratch"/slurm*.{log,out} >&2
  return 1
}

# under LAUNCHER N WORD...: the command as N ranks.
under() {
  local launcher=$1 ranks=$2
  shift 2
  case $launcher in
    launch) "$brim" launch -n "$ranks" "$@" ;;
    mpirun) mpirun --allow-run-as-root --oversubscribe --mca plm isolated -n "$ranks" "$brim" "$@" ;;
    mpi) BRIM_DIST_BACKEND=mpi under mpirun "$ranks" "$@" ;;
    torchrun) "${TORCHRUN:-torchrun}" --nproc-per-node "$ranks" --no-python "$brim" "$@" ;;
    srun) srun --overcommit -n "$ranks" "$brim" "$@" ;;
    *) echo "usage: tools/test_launchers.sh [launch|mpirun|mpi|torchrun|srun|sbatch|kubernetes ...]" >&2 && return 2 ;;
  esac
}

# A job that is stopped amid its run, as before its time limit.
try_sbatch() {
  local out=$scratch/sbatch job state
  "$brim" train tutorial-cnn --virtual-ranks 2 --batch 8 --epochs 3 --out "$scratch/planned" >"$scratch/log"
  job=$(BRIM=$brim sbatch --parsable --ntasks=2 --overcommit --output="$scratch/job.log" examples/cluster/train.sbatch tutorial-cnn "$out" \
    --virtual-ranks 2 --batch 8 --epochs 3 --checkpoint-every 100 --threads 1)
  for _ in $(seq 600); do compgen -G "$out/checkpoint-*" >/dev/null && break; sleep 0.05; done
  scancel --signal=TERM "$job"
  for _ in $(seq 400); do
    state=$(squeue -h -j "$job" -o %T 2>/dev/null || true)
    [ -n "$state" ] || break
    sleep 1
  done
  grep -q "going on from" "$scratch/job.log" || { cat "$scratch/job.log"; echo "sbatch: the job did not go on"; return 1; }
  cmp "$scratch/planned/model.safetensors" "$out/model.safetensors"
  echo "sbatch: a job that was stopped and queued again trains the planned weights"
}

# The pods of the Job, as many processes: what each container runs, with its environment.
try_kubernetes() {
  local python=${PYTHON:-python3} job=examples/cluster/job.yaml pids=() pid
  "$python" -c 'import yaml' 2>/dev/null || { echo "kubernetes: skipped, $python has no PyYAML"; return; }
  if "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    "$python" -m kubernetes_validate --strict "$job"
  else
    echo "kubernetes: the schema is not checked, $python has no kubernetes-validate"
  fi
  "$python" - "$job" "$scratch" <<'END'
import pathlib, shlex, sys, uuid, yaml
job = next(d for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "Job")["spec"]
scratch, uid = pathlib.Path(sys.argv[2]), str(uuid.uuid4())
container = job["template"]["spec"]["containers"][0]
assert job["completions"] == job["parallelism"], "all pods run at the same time"
for rank in range(job["completions"]):
    fields = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": str(rank),
              "metadata.labels['batch.kubernetes.io/controller-uid']": uid}
    lines = []
    for e in container["env"]:
        value = e.get("value") or fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        value = {"brim-0.brim": "127.0.0.1", "resnet18-cifar": "tutorial-cnn", "cuda:0": "cpu", "8": "4"}.get(value, value)
        lines.append(f"export {e['name']}={shlex.quote(value)}")
    command = container["args"][0].replace("/data ", "shapes10 ").replace("/runs/", f"{scratch}/").rstrip()
    lines.append(shlex.join(container["command"] + [command + ' "$@"', "pod"]) + ' "$@"')
    (scratch / f"pod-{rank}.sh").write_text("\n".join(lines) + "\n")
END
  for pod in "$scratch"/pod-*.sh; do
    PATH=$(dirname "$brim"):$PATH bash "$pod" "${train[@]:4}" >"${pod%.sh}.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || { cat "$scratch"/pod-*.log; return 1; }; done
  cmp "$scratch/alone/model.safetensors" "$scratch/brim/model.safetensors"
  echo "kubernetes: ${#pids[@]} pods train the weights of one"
}

train=(train tutorial-cnn --virtual-ranks 4 --batch 8 --epochs 1 --steps 300)
"$brim" "${train[@]}" --out "$scratch/alone" >"$scratch/log"
for launcher in "${@:-launch}"; do
  case $launcher in srun | sbatch) sinfo >/dev/null 2>&1 || start_slurm ;; esac
  if [ "$launcher" = sbatch ]; then
    try_sbatch
    continue
  elif [ "$launcher" = kubernetes ]; then
    try_kubernetes
    continue
  fi
  for ranks in 2 4; do
    out=$scratch/$launcher-$ranks
    under "$launcher" "$ranks" "${train[@]}" --out "$out" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
    grep -q "^$ranks ranks " "$scratch/log" || { cat "$scratch/log"; echo "$launcher: not $ranks ranks"; exit 1; }
    cmp "$scratch/alone/model.safetensors" "$out/model.safetensors"
    echo "$launcher: $ranks ranks train the weights of one"
  done
done
