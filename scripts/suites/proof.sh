#!/usr/bin/env bash
# The whole proof of volumes on a lying device, of which CI runs a share:
#
#   scripts/suites/proof.sh [PART...]
#
#   power    power is cut at every operation of the device: under 200 generated scripts of up to 50 operations, under
#            every workload of one operation, and under every one of two with each way of making them safe, in every
#            shape (four geometries and a zoned one)
#   errors   the n-th read, write and flush fails, once and for ever, and the device is pulled out at every one, for every
#            n of 100 scripts in every shape; bits rot and writes go astray under them, and heads of parts are damaged
#   scarce   the n-th piece of memory is refused, once and for ever, for every n of 100 scripts; and there is room for
#            less
#   ageing   a volume that is 95 % full is written over a thousand times
#   settings 100 volumes of drawn settings, with scripts and nearly full: cuts, failures, damage
#   blocks   blocks that are moved, shared, stored as deltas or in pieces: cuts and failures
#   kills    the server of a volume is killed 200 times while four write; as root
#
# All but the last where none is named: two hours of one core. Each test says what it did.
#
# Exit status: 0 when nothing failed.
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

exam() { # CASES FILE [NAME...]
    local cases=$1 names=("${@:3}")
    if [ ${#names[@]} = 0 ]; then names=(""); fi
    echo "== ${*:2}, ESKER_CASES=$cases"
    ESKER_CASES=$cases cargo test --quiet --release --locked -p esker-proof --test exams -- \
        --nocapture "${names[@]/#/$2::}"
}

parts=("$@")
if [ $# = 0 ]; then parts=(power errors scarce ageing settings blocks); fi
for part in "${parts[@]}"; do
    case $part in
    power)
        exam 200 power_cuts what_was_synced_survives_every_cut
        exam 0 workloads
        ;;
    # A tenth of the cases are scripts of these.
    errors) exam 1000 power_cuts a_sync a_full_host a_read a_device no_ ;;
    scarce) exam 100 scarce ;;
    ageing) exam 1000 ageing ;;
    settings) exam 100 drawn ;;
    blocks)
        exam 20 migration
        for file in deltas in_pieces dedup sharing; do exam 1 "$file"; done
        ;;
    kills) exam 200 killed ;;
    *)
        echo "proof: no such part: $part" >&2
        exit 2
        ;;
    esac
done
