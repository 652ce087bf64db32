#!/bin/sh
# Learns rules on X and answers on X_ind, a graph with other entities, for the six sets of docs/ranking.md.
# usage: experiments/inductive/run.sh DATA [OUT]    DATA holds fb237_v1, fb237_v1_ind, …; RUGE names the program
set -eu
data=${1:?give the folder that holds fb237_v1, fb237_v1_ind and so on}
out=${2:-runs/inductive}
ruge=${RUGE:-ruge}
for set in fb237_v1 fb237_v3 wn18rr_v1 wn18rr_v3 nell_v1 nell_v3; do
    "$ruge" train "$data/$set" --model rules --mine inductive --seed 0 --out "$out/$set" --force
    "$ruge" eval "$out/$set" --graph "$data/${set}_ind"
    "$ruge" eval "$out/$set" --graph "$data/${set}_ind" --json > "$out/$set.json"
done
