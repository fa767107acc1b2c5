#!/usr/bin/env bash
# Fetches and builds the peers, runs them and polyscan over the same data in turns, one thread each, and prints the least CPU time of each
# and what the others take in units of polyscan's. Peers that can't be had here are left out, with a word. Nothing of them becomes
# a dependency of polyscan: they are built in a folder that goes again.
#
#   esimov/triangle  v2.0.0, a Go module: pictures
#   CGAL             g++ and Debian's libcgal-dev: triangulation
#   delaunator       5.1.0, an npm package, with node: triangulation
#
# usage: lowpoly/peers/compare.sh [ROUNDS [REPEATS [IMAGE]]]
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD rounds=${1:-3} repeats=${2:-3} image=${3:+$(realpath "$3")}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir "$tmp/go"
cp peers.go.txt "$tmp/go/main.go"
cp ../../go.mod ../../go.sum "$tmp/go/" # the versions that polyscan has
cd "$tmp/go"
go mod edit -module peers -require github.com/polyscan/polyscan@v0.0.0 -replace "github.com/polyscan/polyscan=$here/../.."
if ! go get github.com/esimov/triangle/v2@v2.0.0 2>"$tmp/log" || ! GOFLAGS=-mod=mod go build -o "$tmp/peers" . 2>"$tmp/log"; then
	tail -3 "$tmp/log" >&2
	echo "esimov/triangle can't be built here: nothing to compare with" >&2
	exit 0
fi
cd "$here"
points=$tmp/points
"$tmp/peers" -what points -file "$points"
others=()
if g++ -O3 -march=native -std=c++17 -DCGAL_NDEBUG -DNDEBUG -o "$tmp/cgal" cgal.cpp -lgmp -lmpfr 2>"$tmp/log"; then
	others+=(cgal)
else
	echo "no CGAL (libcgal-dev): left out" >&2
fi
mkdir "$tmp/js"
cp delaunator.mjs "$tmp/js/"
if (cd "$tmp/js" && npm install --no-save --silent delaunator@5.1.0) >"$tmp/log" 2>&1; then
	others+=(delaunator)
else
	echo "no delaunator (node, npm): left out" >&2
fi

for ((i = 0; i < rounds; i++)); do
	"$tmp/peers" -what pictures -repeats "$repeats" -file "$image"
	"$tmp/peers" -what triangulate -repeats "$repeats" -file "$points"
	for p in ${others[@]+"${others[@]}"}; do
		case $p in
		cgal) "$tmp/cgal" "$points" "$repeats" ;;
		delaunator) (cd "$tmp/js" && node delaunator.mjs "$points" "$repeats") ;;
		esac
	done
done | awk '
	{ if (!($2 in seen)) { seen[$2] = 1; jobs[++n] = $2 }
	  id = $2 " " $1; if (!(id in ms) || $3 < ms[id]) ms[id] = $3
	  if (!(id in known)) { known[id] = 1; who[$2] = who[$2] " " $1 } }
	END {
		for (i = 1; i <= n; i++) {
			k = split(who[jobs[i]], peers, " ")
			for (j = 1; j <= k; j++) {
				t = ms[jobs[i] " " peers[j]]
				printf "%-28s %-16s %9.1f ms %6.2fx\n", jobs[i], peers[j], t, t / ms[jobs[i] " polyscan"]
			}
		}
	}'
