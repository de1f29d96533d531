#!/usr/bin/env bash
# What tools/gpu_check.sh is made of: steps with limits under one deadline, figures read from results, targets, and the
# report. The script that sources this sets: began, deadline (seconds after it), logs, json, head (the JSON's first
# lines), required (names of steps without which nothing was checked).
# shellcheck disable=SC2154

names=() states=() notes=() seconds=()
# note NAME ok|failed|skipped SECONDS TEXT
note() {
  names+=("$1") states+=("$2") seconds+=("$3") notes+=("$4")
  printf '%-34s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"
}
left() { echo $((deadline - (SECONDS - began))); }
# step NAME LIMIT COMMAND...: runs it into a log of its own, for LIMIT seconds and not past the deadline; a failure shows
# the log's end. The note is the last line. `slow=1 step ...`: to be ended by its limit is no failure.
step() {
  local name=$1 limit=$2 start=$SECONDS code log room
  shift 2
  log=$logs/$(tr -cs 'a-z0-9\n' '-' <<<"${name,,}").log
  room=$(left)
  if [ "$room" -lt 10 ]; then
    note "$name" skipped 0 'no time left'
    return 1
  fi
  [ "$room" -ge "$limit" ] || limit=$room
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  code=$?
  if [ $code -eq 0 ]; then
    note "$name" ok $((SECONDS - start)) "$(grep -v '^$' "$log" | tail -1 | tr -d '"\\\t\r' | cut -c1-110)"
    return 0
  fi
  if [ "$(left)" -lt 3 ]; then
    note "$name" skipped $((SECONDS - start)) 'no time left: it was ended'
    return 1
  fi
  if [ $code -eq 124 ] && [ "${slow:-0}" -eq 1 ]; then
    note "$name" skipped $((SECONDS - start)) "ended by its limit of $limit s"
    return 1
  fi
  tail -40 "$log"
  [ $code -ne 124 ] || code="$code, its limit of $limit s"
  note "$name" failed $((SECONDS - start)) "exit code $code; see $log"
  return 1
}
# state_of NAME: of a step; empty if there was none.
state_of() {
  local i
  for i in "${!names[@]}"; do
    [ "${names[i]}" != "$1" ] || echo "${states[i]}"
  done
}

# number RESULT KEY: the first of that name in result-RESULT.json.
number() { sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),\{0,1\}\$/\1/p" "$logs/result-$1.json" 2>/dev/null | head -1; }
# ratio A B: a / b; empty if one is missing.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a != "" && b != "" && b > 0) printf "%.4g", a / b }'; }
# least NUMBER...: the smallest of those that are there.
least() { printf '%s\n' "$@" | grep . | sort -g | head -1; }

target_names=() target_values=() target_needs=() target_states=()
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

# The JSON file, then the tables. Exits with 1 if a step failed, else with 4 if a required one did not end well, else 0.
finish() {
  local i failed=0 file comma='' name missing=()
  {
    printf '{\n%s,\n "seconds": %d,\n "env": %s,\n "steps": [' "$head" $((SECONDS - began)) \
      "$(cat "$logs/env.json" 2>/dev/null || echo null)"
    for i in "${!names[@]}"; do
      printf '%s\n  {"name": "%s", "state": "%s", "seconds": %s, "note": "%s"}' "$comma" "${names[i]}" "${states[i]}" "${seconds[i]}" "${notes[i]}"
      comma=','
    done
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
      [ -s "$file" ] || continue
      printf '%s\n  "%s": %s' "$comma" "$(basename "$file" .json | sed 's/^result-//')" "$(cat "$file")"
      comma=','
    done
    printf '\n }\n}\n'
  } >"$json"
  printf '\n%-34s %-8s %6s  %s\n' step state time note
  for i in "${!names[@]}"; do
    printf '%-34s %-8s %4s s  %s\n' "${names[i]}" "${states[i]}" "${seconds[i]}" "${notes[i]}"
    [ "${states[i]}" != failed ] || failed=$((failed + 1))
  done
  [ ${#target_names[@]} -eq 0 ] || printf '\n%-66s %10s %8s  %s\n' target value needed state
  for i in "${!target_names[@]}"; do
    printf '%-66s %10s %8s  %s\n' "${target_names[i]}" "${target_values[i]:--}" "${target_needs[i]}" "${target_states[i]}"
  done
  echo
  for name in "${required[@]}"; do
    [ "$(state_of "$name")" = ok ] || missing+=("$name")
  done
  echo "$failed failed; $((SECONDS - began)) s; $json"
  [ $failed -eq 0 ] || exit 1
  [ ${#missing[@]} -eq 0 ] || { printf 'not checked: %s\n' "${missing[@]}"; exit 4; }
  exit 0
}
