#!/usr/bin/env bash
# Builds the peers, runs them and the Go code over the same bytes in turns, and prints the least time of each with
# what the others take in units of polyscan's. Peers run in one thread. Needs gcc; OpenCV is left out where there is no
# pkg-config opencv4 (Debian: libopencv-dev).
#
# usage: kernels/cpu/peers/compare.sh [ROUNDS [REPEATS]]
set -euo pipefail
cd "$(dirname "$0")"
rounds=${1:-3} repeats=${2:-15}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

peers=(c)
gcc -O3 -march=native -std=gnu11 -Wall -o "$tmp/c" scanline.c -lm
if pkg-config --exists opencv4 2>/dev/null; then
	# imgproc and core only: opencv4.pc would link everything there is
	g++ -O3 -march=native -std=c++17 -Wall $(pkg-config --cflags opencv4) -o "$tmp/opencv" opencv.cpp -lopencv_imgproc -lopencv_core
	peers+=(opencv)
else
	echo "no opencv4: left out" >&2
fi
go test -c -o "$tmp/go.test" ..
export POLYSCAN_PEERS=$tmp/scenes POLYSCAN_PEERS_REPEATS=$repeats
mkdir "$POLYSCAN_PEERS"
"$tmp/go.test" -test.run '^TestPeers$' >/dev/null # writes the scenes

for ((i = 0; i < rounds; i++)); do
	for scene in "$POLYSCAN_PEERS"/*; do
		for what in sums histogram; do
			for p in "${peers[@]}"; do "$tmp/$p" "$scene" "$what" "$repeats"; done
			POLYSCAN_PEERS_SCENE=$(basename "$scene") POLYSCAN_PEERS_WHAT=$what "$tmp/go.test" -test.run '^TestPeers$' | grep '^polyscan' || true
		done
	done
done | awk '
	{ key = $2 " " $3; if (!(key in seen)) { seen[key] = 1; order[++n] = key }
	  id = key " " $1; if (!(id in ms) || $4 < ms[id]) ms[id] = $4; count[id] = $5; sum[id] = $6
	  if (!($1 in known)) { known[$1] = 1; peers[++m] = $1 } }
	END {
		bad = 0
		printf "%-12s %-10s", "scene", "what"; for (j = 1; j <= m; j++) printf " %22s", peers[j]; print ""
		for (i = 1; i <= n; i++) {
			key = order[i]; ref = key " polyscan"
			split(key, k, " "); printf "%-12s %-10s", k[1], k[2]
			for (j = 1; j <= m; j++) {
				id = key " " peers[j]
				note = ""
				if (count[id] != count[ref] || sum[id] != sum[ref]) {
					note = sprintf("(%+.2f%% px)", 100 * (count[id] / count[ref] - 1))
					if (peers[j] != "opencv") bad = 1
				}
				printf " %9.3f ms %5.1fx %s", ms[id], ms[id] / ms[ref], note
			}
			print ""
		}
		if (bad) { print "a peer has other pixels: not comparable"; exit 1 }
	}'
