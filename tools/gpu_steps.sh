#!/usr/bin/env bash
# What tools/gpu_check.sh is made of: steps with limits under one deadline, figures read from results, targets, and the
# report. The script that sources this sets: parts (all that there are), part (the one that it runs), began, deadline
# (seconds after it), out (the folder of what is found), head (the JSON's first lines), required (names of steps without
# which the part checked nothing), and defines targets(), which calls target and passed.
#
# In the folder: PART.steps, a line for each step that ended: name, state, seconds and note, between tabs; logs/, what
# each step said, line by line, and its result; gpu-check.json, written anew after every step, of all parts that were run
# into the folder; logs.tar.gz, once a part ends.
# shellcheck disable=SC2154
job='' watch='' hung='' running='' begun='' unkept=''
export LC_ALL=C # decimal points, and no warnings of a locale that the host does not have

# begin: the folder, without what an earlier run of this part left.
begin() {
  logs=$out/logs hung='' unkept='' begun=1
  mkdir -p "$logs" && : >"$out/$part.steps"
  heed
}
# heed: a signal ends what runs and keeps what was found; so does the end of who reads what is printed (tee, ssh).
heed() {
  trap 'stopped INT 2' INT
  trap 'stopped TERM 15' TERM
  trap 'stopped HUP 1' HUP
  trap 'stopped PIPE 13' PIPE
}
# stopped SIGNAL NUMBER
stopped() {
  trap '' INT TERM HUP PIPE
  [ "$1" != PIPE ] || exec >&2
  if [ -n "$job" ]; then
    disown "$job" "$watch" 2>/dev/null || true # the shell says nothing of their end; they may have come to it
    kill -KILL -- "-$job" "$job" "$watch" 2>/dev/null
  fi
  if [ -z "$begun" ]; then
    echo "gpu_check: stopped by SIG$1 before anything was checked" >&2
    exit $((128 + $2))
  fi
  [ -z "$running" ] || note "$running" skipped $((SECONDS - start)) "stopped by SIG$1; see $log"
  echo "gpu_check: stopped by SIG$1; what was found is in $out"
  (finish)
  exit $((128 + $2))
}
# note NAME ok|failed|skipped SECONDS TEXT
note() {
  local text
  text=$(LC_ALL=C tr -dc ' -~' <<<"$4" | tr -d '"\\')
  { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$text" >>"$out/$part.steps"; } 2>/dev/null || unkept=1
  printf '%-34s %-8s %4s s  %s\n' "$1" "$2" "$3" "$text"
  report && return 0 # by itself it would be that of before a trap
  unkept=1
  echo "gpu_check: $out/gpu-check.json cannot be written; is the disk full?" >&2
}
# last_line MOST: of what a step said.
last_line() { grep -avE '^$|DISABLED TEST|^\[  SKIPPED \] [0-9]+ test' "$log" | tail -1 | cut -c1-"$1"; }
left() { echo $((deadline - (SECONDS - began))); }
# run_within LIMIT COMMAND...: into $log; ends it after LIMIT seconds. Its exit code. What stays even when it is killed, as a
# program whose call the GPU's driver never answers, becomes `hung`.
run_within() {
  local limit=$1 ended code
  shift
  timeout -k 5 "$limit" "$@" >"$log" 2>&1 8>&- 9>&- & # without the locks of tools/gpu_check.sh
  job=$!
  sleep $((limit + ${grace:-15})) >/dev/null 2>&1 8>&- 9>&- &
  watch=$!
  wait -n -p ended "$job" "$watch"
  code=$?
  if [ "${ended:-}" = "$watch" ]; then
    disown "$job"
    kill -KILL "$job" 2>/dev/null
    hung=$name code=137
  else
    # Not by SIGTERM, which bash loses, or runs its own traps for, where the child is not yet sleep.
    disown "$watch" 2>/dev/null
    kill -KILL "$watch" 2>/dev/null
  fi
  job='' watch=''
  return $code
}
# ask LIMIT FILE COMMAND...: what it prints goes to FILE, and is no step. Its exit code; the rest as run_within.
ask() {
  local limit=$1 log=$2 name
  shift 2
  name=${1##*/}
  run_within "$limit" "$@"
}
# step NAME LIMIT COMMAND...: runs it into a log of its own, for LIMIT seconds and not past the deadline; a failure shows
# the log's end. The note has the last line, or what `says="COMMAND..." step ...` prints. `slow=1 step ...`: to be ended by its limit is no failure; `optional=1 step ...`: nor
# is anything else. Where a command hangs and cannot be killed, those after it are skipped: they would hang, too.
step() {
  local name=$1 limit=$2 start=$SECONDS code log room said
  shift 2
  log=$logs/$part-$(tr -cs 'a-z0-9\n' '-' <<<"${name,,}").log
  room=$(left)
  if [ "$room" -lt 10 ]; then
    note "$name" skipped 0 'no time left'
    return 1
  elif [ -n "$hung" ]; then
    note "$name" skipped 0 "$hung hangs and cannot be killed: restart the machine, or reset the GPU"
    return 1
  fi
  [ "$room" -ge "$limit" ] || limit=$room
  running=$name
  run_within "$limit" "$@"
  code=$?
  running=''
  if [ $code -eq 0 ]; then
    note "$name" ok $((SECONDS - start)) "$(${says:-last_line 110})"
    return 0
  fi
  if [ -n "$hung" ]; then
    note "$name" failed $((SECONDS - start)) "hangs, and cannot be killed: restart the machine, or reset the GPU; see $log"
    return 1
  fi
  if [ "$(left)" -lt 3 ]; then
    note "$name" skipped $((SECONDS - start)) 'no time left: it was ended'
    return 1
  fi
  if [ $code -eq 124 ] && [ "${slow:-0}" -eq 1 ]; then
    note "$name" skipped $((SECONDS - start)) "ended by its limit of $limit s"
    return 1
  fi
  if [ "${optional:-0}" -eq 1 ]; then
    note "$name" skipped $((SECONDS - start)) "does not work here: $(last_line 90); see $log"
    return 1
  fi
  tail -40 "$log"
  [ $code -ne 124 ] || code="$code, its limit of $limit s"
  said=$(last_line 110)
  note "$name" failed $((SECONDS - start)) "exit code $code${said:+: $said}; see $log"
  return 1
}
# each_step BODY [PART...]: BODY for every step of these parts (of all), which finds p, name, state, spent and text. A line that
# a full disk has cut is left out.
each_step() {
  local body=$1 p name state spent text
  shift
  for p in ${*:-$parts}; do
    [ -f "$out/$p.steps" ] || continue
    while IFS=$'\t' read -r name state spent text; do
      [[ $state,$spent =~ ^(ok|failed|skipped),[0-9]+$ ]] && "$body"
    done <"$out/$p.steps"
  done
}
# state_of NAME [PART...]: of the last step of that name; empty if there was none.
state_of() {
  local wanted=$1 found=''
  shift
  look() { [ "$name" != "$wanted" ] || found=$state; }
  each_step look "$@"
  echo "$found"
}

# number RESULT KEY: the first of that name in result-RESULT.json.
number() { sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),\{0,1\}\$/\1/p" "$logs/result-$1.json" 2>/dev/null | head -1; }
# ratio A B: a / b; empty if one is missing.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a != "" && b != "" && b > 0) printf "%.4g", a / b }'; }
# least NUMBER...: the smallest of those that are there.
least() { printf '%s\n' "$@" | grep . | sort -g | head -1; }

# target NAME VALUE NEEDED: met if VALUE, empty where it was not measured, is at least NEEDED.
target() {
  local state='not measured'
  [ -z "$2" ] || state=$(awk -v v="$2" -v n="$3" 'BEGIN { print (v >= n) ? "met" : "missed" }')
  target_names+=("$1") target_values+=("$2") target_needs+=("$3") target_states+=("$state")
}
# passed NAME STEP...: a target met if all those steps went well.
passed() {
  local name=$1 value=1 state
  shift
  for state in "$@"; do
    case $(state_of "$state") in
      ok) ;;
      failed) value=0 ;;
      *) [ "$value" = 0 ] || value='' ;;
    esac
  done
  target "$name" "$value" 1
}

# whole FILE: whether its JSON was written to the end.
whole() { [[ $(tail -c 3 "$1" 2>/dev/null) == *'}' ]]; }
# report: gpu-check.json, which is whole at any time.
report() {
  local i file comma=''
  target_names=() target_values=() target_needs=() target_states=()
  targets
  one_step() {
    printf '%s\n  {"part": "%s", "name": "%s", "state": "%s", "seconds": %s, "note": "%s"}' "$comma" "$p" "$name" "$state" "$spent" "$text"
    comma=','
  }
  {
    printf '{\n "schema": 1,\n%s,\n "env": %s,\n "steps": [' "$head" "$(if whole "$logs/env.json"; then cat "$logs/env.json"; else echo null; fi)"
    each_step one_step
    printf '\n ],\n "targets": ['
    comma=''
    for i in "${!target_names[@]}"; do
      printf '%s\n  {"name": "%s", "value": %s, "needed": %s, "state": "%s"}' "$comma" "${target_names[i]}" \
        "${target_values[i]:-null}" "${target_needs[i]}" "${target_states[i]}"
      comma=','
    done
    printf '\n ],\n "results": {'
    comma=''
    for file in "$logs"/result-*.json; do
      whole "$file" || continue
      printf '%s\n  "%s": %s' "$comma" "$(basename "$file" .json | sed 's/^result-//')" "$(cat "$file")"
      comma=','
    done
    printf '\n }\n}\n'
  } 2>/dev/null >"$out/gpu-check.json.new" && [ "$(tail -c 2 "$out/gpu-check.json.new")" = '}' ] && mv "$out/gpu-check.json.new" "$out/gpu-check.json" && return 0
  rm -f "$out/gpu-check.json.new"
  return 1
}

# pack_logs: what was found, in one file to carry back, below 10 MB; of a long log, the end.
pack_logs() {
  local stage
  stage=$(mktemp -d 2>/dev/null) && { gather "$stage" && tar -czf "$out/logs.tar.gz.new" -C "$stage" . && mv "$out/logs.tar.gz.new" "$out/logs.tar.gz"; } 2>/dev/null || {
    rm -f "$out/logs.tar.gz.new"
    echo "gpu_check: $out/logs.tar.gz cannot be written; is the disk full, or ${TMPDIR:-/tmp}?" >&2
  }
  [ "$(stat -c %s "$out/logs.tar.gz" 2>/dev/null || echo 0)" -lt 10000000 ] || echo "gpu_check: $out/logs.tar.gz is larger than 10 MB"
  [ -z "$stage" ] || rm -rf "$stage"
}
# gather STAGE: a copy of what pack_logs packs.
gather() {
  local file
  mkdir "$1/logs" || return 1
  for file in "$logs"/*; do
    case $file in
      *.log) tail -c 200000 "$file" >"$1/logs/${file##*/}" ;;
      *) [ ! -f "$file" ] || [ "$(stat -c %s "$file")" -gt 4000000 ] || cp "$file" "$1/logs/" ;;
    esac || return 1
  done
  cp "$out"/*.steps "$out/gpu-check.json" "$1/" || return 1
  [ ! -d "$out/cache/brim" ] || { mkdir "$1/cache" && cp -r "$out/cache/brim" "$1/cache/"; }
}

# without_folders FILE: as it may be kept: files' names, and not where they lay on that host.
without_folders() {
  sed -E -e 's#"(path|data)": "[^"]*/#"\1": "#' -e 's#see [^ "]*/logs/#see logs/#g' "$1"
}

# finish: the tables; gpu-check.json goes to the file $results as well, if that is set. Exits with 1 if a step of this part failed or the
# disk took not all, else with 4 if a required one did not end well, else 0.
finish() {
  local i failed=0 missing=()
  report || unkept=1
  row() { printf '%-8s %-34s %-8s %4s s  %s\n' "$p" "$name" "$state" "$spent" "$text"; }
  printf '\n%-8s %-34s %-8s %6s  %s\n' part step state time note
  each_step row
  count_failed() { [ "$state" != failed ] || failed=$((failed + 1)); }
  each_step count_failed "$part"
  [ ${#target_names[@]} -eq 0 ] || printf '\n%-66s %10s %8s  %s\n' target value needed state
  for i in "${!target_names[@]}"; do
    printf '%-66s %10s %8s  %s\n' "${target_names[i]}" "${target_values[i]:--}" "${target_needs[i]}" "${target_states[i]}"
  done
  pack_logs
  if [ -n "${results:-}" ]; then
    { [ -z "$unkept" ] && mkdir -p "$(dirname "$results")" && without_folders "$out/gpu-check.json" >"$results.new" && mv "$results.new" "$results"; } 2>/dev/null ||
      { rm -f "$results.new"; false; } || echo "gpu_check: $results cannot be written" >&2
  fi
  echo
  for i in "${required[@]}"; do
    [ "$(state_of "$i" "$part")" = ok ] || missing+=("$i")
  done
  echo "$part: $failed failed; $((SECONDS - began)) s; $out/gpu-check.json"
  [ -z "$unkept" ] || { echo "not all of it could be kept in $out; is the disk full?"; exit 1; }
  [ $failed -eq 0 ] || exit 1
  [ ${#missing[@]} -eq 0 ] || { printf 'not checked: %s\n' "${missing[@]}"; exit 4; }
  exit 0
}
