#!/usr/bin/env bash
# Builds the peers of the diffusion solver, runs them and the Go code over the same scenes (a megapixel, RGB) in turns, and
# prints the least times with what each takes in units of polyscan's on two threads. Peers run on two threads, too. Needs g++
# and, on Debian, libsuitesparse-dev, libopenblas-dev and libamgcl-dev (contrib).
#
# usage: kernels/cpu/peers/diffusion.sh [ROUNDS [REPEATS]]
set -euo pipefail
cd "$(dirname "$0")"
rounds=${1:-3} repeats=${2:-2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2

g++ -O3 -march=native -fopenmp -std=c++17 -DAMGCL_NO_BOOST -I/usr/include/suitesparse -o "$tmp/peers" diffusion.cpp -lcholmod
go test -c -o "$tmp/go.test" ..
export POLYSCAN_DIFFUSION_PEERS=$tmp/scenes POLYSCAN_PEERS_REPEATS=$repeats
mkdir "$POLYSCAN_DIFFUSION_PEERS"
"$tmp/go.test" -test.run '^TestDiffusionPeers$' >/dev/null # writes the scenes
scenes=("$POLYSCAN_DIFFUSION_PEERS"/*)

for ((i = 0; i < rounds; i++)); do
	for scene in "${scenes[@]}"; do
		"$tmp/peers" "$scene" "$repeats"
		POLYSCAN_PEERS_SCENE=$(basename "$scene") "$tmp/go.test" -test.run '^TestDiffusionPeers$' | grep '^polyscan'
	done
done | awk '
	{ id = $2 " " $1; if (!(id in all)) order[++n] = id
	  if (!(id in all) || $3 + $4 < all[id]) { all[id] = $3 + $4; setup[id] = $3; solve[id] = $4; off[id] = $5 } }
	END {
		printf "%-24s %-18s %12s %12s %12s %8s %10s\n", "scene", "solver", "set-up ms", "solve ms", "together ms", "times", "error/255"
		for (i = 1; i <= n; i++) {
			id = order[i]; split(id, k, " ")
			printf "%-24s %-18s %12.1f %12.1f %12.1f %7.1fx %10.3f\n", k[1], k[2], setup[id], solve[id], all[id], all[id] / all[k[1] " polyscan/2threads"], off[id]
			if (k[2] ~ /^polyscan/ && off[id] > 0.5) bad = 1
		}
		if (bad) { print "polyscan is farther off than it was asked to be"; exit 1 }
	}'
