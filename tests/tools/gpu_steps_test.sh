#!/usr/bin/env bash
# tools/gpu_steps.sh: what counts as failed, skipped, met and checked, and what the report says.
set -uo pipefail
# shellcheck source=tools/gpu_steps.sh
. "$(dirname "$0")/../../tools/gpu_steps.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
# expect WHAT GOT WANTED
expect() {
  [ "$2" = "$3" ] && return
  echo "$1: got '$2', not '$3'"
  failures=$((failures + 1))
}
# fresh SECONDS: no steps yet, and so long until the deadline.
fresh() {
  parts='correct fast rest' part=correct out=$folder/out required=(build)
  began=$SECONDS deadline=$1 head=' "cores": 2'
  targets() { :; }
  rm -rf "$out"
  begin
}
# exit_code: of a report on what ran so far.
exit_code() { (finish >"$folder/table") && echo 0 || echo $?; }

for option in --prebuilt --data --build --out; do
  expect "$option of an unset variable" "$(timeout 10 "$(dirname "$0")/../../tools/gpu_check.sh" $option '' >/dev/null 2>&1 || echo $?)" 2
done

fresh 60
step build 30 echo 'all of it' >"$folder/said"
expect 'a step that ends well' "$(state_of build)" ok
expect 'its note is its last line' "$(cut -f 4 "$out/correct.steps")" 'all of it'
expect 'exit code' "$(exit_code)" 0
step tests 30 false >"$folder/said"
expect 'a step that fails' "$(state_of tests)" failed
expect 'exit code after a failure' "$(exit_code)" 1
step room 30 bash -c 'echo no room on cuda:0; exit 3' >"$folder/said"
expect 'its note says why' "$(cut -f 4 "$out/correct.steps" | tail -1)" "exit code 3: no room on cuda:0; see $out/logs/correct-room.log"

fresh 60
step build 30 true >"$folder/said"
step tests 1 sleep 20 >"$folder/said"
expect 'a step past its limit' "$(state_of tests)" failed
slow=1 step sanitizer 1 sleep 20 >"$folder/said"
expect 'a slow step past its limit' "$(state_of sanitizer)" skipped
optional=1 step profiler 30 bash -c 'echo no permission; exit 3' >"$folder/said"
expect 'an optional step that fails' "$(state_of profiler)" skipped
expect 'what was not run' "$(state_of nothing)" ''
expect 'an answer where the locale is missing' "$(LC_ALL=xx_XX.UTF-8 bash -c '. "$0"; ask 30 "$1" bash -c "echo yes"; cat "$1"' \
  "$(dirname "$0")/../../tools/gpu_steps.sh" "$folder/answer" 2>/dev/null)" yes
expect 'an answer' "$(ask 30 "$folder/answer" bash -c 'echo yes; exit 3' || echo $?) $(cat "$folder/answer")" '3 yes'

# What cannot be killed: here a program that its limit does not end, since timeout only watches.
fresh 60
timeout() { shift 3; exec "$@"; }
grace=1 step tests 1 bash -c 'trap "" TERM; sleep 6' >"$folder/said"
unset -f timeout
expect 'a step that hangs' "$(state_of tests)" failed
step more 30 true >"$folder/said"
expect 'a step behind it' "$(state_of more)" skipped
expect 'why' "$(cut -f 4 "$out/correct.steps" | tail -1)" 'tests hangs and cannot be killed: restart the machine, or reset the GPU'
expect 'exit code of a part that hangs' "$(exit_code)" 1
# A call that is stopped: what was found by then is there, and the step's program has ended.
cat >"$folder/stopped.sh" <<'STOPPED'
. "$1/gpu_steps.sh"
parts=correct part=correct out=$2/out required=() began=$SECONDS deadline=60 head=' "cores": 2'
targets() { :; }
rm -rf "$out"
begin
step build 30 true
step tests 30 bash -c 'echo $$ >"$0"; sleep 20' "$2/id"
step more 30 true
STOPPED
for signal in TERM INT; do
  command -v python3 >/dev/null || break
  rm -f "$folder/id"
  # Not in the background by &, where a shell ignores SIGINT.
  python3 - "$signal" "$folder" bash "$folder/stopped.sh" "$(dirname "$0")/../../tools" "$folder" >"$folder/said" <<'PYTHON'
import os, signal, subprocess, sys, time
child = subprocess.Popen(sys.argv[3:], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while not os.path.exists(sys.argv[2] + "/id"):
    time.sleep(0.05)
child.send_signal(signal.Signals["SIG" + sys.argv[1]])
sys.exit(child.wait())
PYTHON
  expect "exit code when stopped by SIG$signal" $? $([ $signal = TERM ] && echo 143 || echo 130)
  expect 'the step' "$(tail -1 "$folder/out/correct.steps" | cut -f 1,2)" $'tests\tskipped'
  expect 'it says so' "$(grep -c "^gpu_check: stopped by SIG$signal; what was found is in $folder/out" "$folder/said")" 1
  expect 'the logs are packed' "$(tar -tzf "$folder/out/logs.tar.gz" | grep -c correct-tests.log)" 1
  expect 'the program of the step' "$(sed -n 's/^State:\t\([^Z]\).*/\1/p' "/proc/$(cat "$folder/id")/status" 2>/dev/null)" ''
done

# Who reads what is printed goes away: the same.
printf '%s\n' 'sleep 1' 'step last 30 true' 'step none 30 true' >"$folder/more"
sed "/^step tests/,\$d" "$folder/stopped.sh" | cat - "$folder/more" >"$folder/closed.sh"
env --default-signal=PIPE bash "$folder/closed.sh" "$(dirname "$0")/../../tools" "$folder" 2>"$folder/said" | head -1 >/dev/null
expect 'exit code without a reader' "${PIPESTATUS[0]}" 141
expect 'it says so' "$(grep -c 'stopped by SIGPIPE; what was found is in' "$folder/said")" 1
expect 'the steps' "$(cut -f 1 "$folder/out/correct.steps" | paste -sd' ')" 'build last'
expect 'the logs are packed' "$(tar -tzf "$folder/out/logs.tar.gz" | grep -c correct-last.log)" 1
# A full disk.
fresh 60
step build 30 true >"$folder/said"
ln -s /dev/full "$out/gpu-check.json.new"
ln -s /dev/full "$out/logs.tar.gz.new"
results=$out/kept.json
expect 'exit code where the disk is full' "$(exit_code 2>"$folder/said")" 1
expect 'it says so' "$(tail -1 "$folder/table")" "not all of it could be kept in $out; is the disk full?"
expect 'what the disk has not taken' "$(grep -c 'cannot be written' "$folder/said"; ls "$out")" $'2\ncorrect.steps\ngpu-check.json\nlogs'
results=''
ln -sf /dev/full "$out/correct.steps"
step more 30 true >"$folder/said" 2>&1
rm "$out/correct.steps"
expect 'exit code where a step is lost' "$(exit_code 2>"$folder/said")" 1

fresh 60
left() { if [ -e "$folder/late" ]; then echo 0; else echo 60; fi; }
step build 30 bash -c 'touch "$0"; exit 124' "$folder/late" >"$folder/said"
expect 'a step that the deadline ends' "$(state_of build)" skipped
expect 'exit code where nothing was checked' "$(exit_code)" 4
expect 'it says so' "$(tail -1 "$folder/table")" 'not checked: build'
fresh 60
step build 30 true >"$folder/said"
expect 'a step without time' "$(state_of build)" skipped
rm "$folder/late"

fresh 60
step build 30 true >"$folder/said"
printf '{\n  "name": "x",\n  "us_per_step": 12.5,\n  "compute": 0.995\n}\n' >"$logs/result-x.json"
expect 'a number' "$(number x us_per_step)" 12.5
expect 'the last number of an object' "$(number x compute)" 0.995
expect 'a number that is not there' "$(number x none)" ''
expect 'a result that is not there' "$(number y us_per_step)" ''
expect 'a ratio' "$(ratio 25 "$(number x us_per_step)")" 2
expect 'a ratio to nothing' "$(ratio 25 '')$(ratio '' 25)$(ratio 25 0)" ''
expect 'the least of what is there' "$(least '' 9 10.5)" 9
targets() {
  target fast "$(ratio 25 12.5)" 2
  target slow 1.9 2
  target unknown '' 2
  passed all build
  passed some build nothing
  passed none build tests nothing
}
step tests 30 false >"$folder/said"
expect 'states of targets' "${target_states[*]}" 'met missed not measured met not measured missed'
expect 'exit code' "$(exit_code)" 1
# report WHAT: of gpu-check.json, as it is between two steps.
report_of() { python3 -c "import json, sys; report = json.load(open(sys.argv[1])); print($1)" "$out/gpu-check.json"; }
if command -v python3 >/dev/null; then
  printf '{\n  "half' >"$logs/result-half.json"
  printf 'cut\tfai\nbuild ok 3\n' >>"$out/correct.steps"
  report
  rm "$logs/result-half.json"
  expect 'the JSON' "$(report_of '[s["state"] for s in report["steps"]], [t["value"] for t in report["targets"]], report["results"]["x"]["compute"]')" \
    "['ok', 'failed'] [2, 1.9, None, 1, None, 0] 0.995"
fi

# Another part goes into the same folder, and this one again.
part=fast required=(bench)
begin
note bench ok 3 $'a "quoted"\ttext\e\xc3' >"$folder/said"
expect 'exit code of a part of its own' "$(exit_code)" 0
expect 'the table has all parts' "$(awk '$2 == "build" || $2 == "bench"' "$folder/table" | wc -l)" 2
expect 'a step of all parts, and of one' "$(state_of tests) $(state_of tests fast)" 'failed '
part=correct required=(build)
begin
note build ok 1 again >"$folder/said"
expect 'what an earlier run left is gone' "$(state_of tests)" ''
if command -v python3 >/dev/null; then
  expect 'the JSON of two parts' "$(report_of '[(s["part"], s["note"]) for s in report["steps"]]')" "[('correct', 'again'), ('fast', 'a quotedtext')]"
fi
expect 'logs to carry back' "$(exit_code; tar -tzf "$out/logs.tar.gz" | sort | tr '\n' ' ')" \
  $'0\n./ ./correct.steps ./fast.steps ./gpu-check.json ./logs/ ./logs/correct-build.log ./logs/correct-tests.log ./logs/result-x.json '
[ $failures -eq 0 ]
