#!/bin/sh
# Rates of a server that runs, by wrk and curl, with the processor time that the server took.
#   ruge serve MODEL --read-only --no-suggestions & sh run.sh $! facts.tsv [http://127.0.0.1:7997]
# facts.tsv: head, relation, tail, separated by tabs. Server and client share the machine.
set -eu
pid=$1 facts=$2 base=${3:-http://127.0.0.1:7997}
here=$(dirname "$0")
ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }
load() {
  name=$1; shift
  before=$(ticks)
  out=$(wrk -t1 -c32 -d"${SECONDS_EACH:-8}s" --latency -s "$here/questions.lua" "$base" -- "$@")
  spent=$(( $(ticks) - before ))
  count=$(echo "$out" | awk '/requests in/ {print $1}')
  rate=$(echo "$out" | awk '/Requests\/sec/ {print $2}')
  slow=$(echo "$out" | awk '$1 == "99%" {print $2}')
  bad=$(echo "$out" | awk '/Non-2xx/ {print $NF}')
  awk -v n="$name" -v c="$count" -v r="$rate" -v s="$slow" -v t="$spent" -v b="${bad:-0}" 'BEGIN {
    printf "%-28s %8.0f/s  p99 %-9s %7.3f ms of processor time each, %d not answered well\n", n, r, s, t * 10 / c, b }'
}
load "healthz" healthz "$facts"
load "search" search "$facts" 1000
load "predict, 1,000 repeated" predict "$facts" 1000
load "predict, all different" predict "$facts"
load "explain" explain "$facts"
load "entity page" entity "$facts"
lines=$(mktemp)
cut -f1,2 "$facts" | awk -F'\t' 'NR <= 20000 {print $1 "\t" $2 "\t?"}' > "$lines"
before=$(ticks) began=$(date +%s.%N)
curl -s -H 'Content-Type: application/x-ndjson' -X POST -T "$lines" "$base/api/v1/predict/batch" -o /dev/null
awk -v b="$began" -v e="$(date +%s.%N)" -v t="$(( $(ticks) - before ))" -v n="$(wc -l < "$lines")" 'BEGIN {
  printf "%-28s %8.0f/s                %7.3f ms of processor time each\n", "batch", n / (e - b), t * 10 / n }'
rm "$lines"
grep VmHWM "/proc/$pid/status"
