#!/usr/bin/env bash
# Builds color.cpp, runs it and TestColorPeer of the package over the same pixels in turns, and prints the least times
# with the means of L*, a* and b*. Both run in one thread. Needs g++ and OpenCV (Debian: libopencv-dev).
#
# usage: kernels/cpu/peers/color.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
g++ -O3 -march=native -std=c++17 -Wall $(pkg-config --cflags opencv4) -o "$tmp/color" color.cpp -lopencv_imgproc -lopencv_core
go test -c -o "$tmp/go.test" ..
export POLYSCAN_COLOR=$tmp/frame
for ((i = 0; i < ${1:-5}; i++)); do
	"$tmp/go.test" -test.run '^TestColorPeer$' | grep '^polyscan' # writes the frame, too
	"$tmp/color" "$tmp/frame" 2880 5
done | awk '
	!($1 in ms) || $2 < ms[$1] { ms[$1] = $2 }
	{ means[$1] = $3 " " $4 " " $5 }
	END {
		for (who in ms) printf "%s %.2f ms, means of L*, a*, b* %s\n", who, ms[who], means[who]
		printf "OpenCV takes %.1f times as long\n", ms["opencv"] / ms["polyscan"]
	}'
