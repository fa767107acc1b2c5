#!/usr/bin/env bash
# Builds exactextract's finding of covered shares, as it is and with doubles in the place of its floats, has package
# polygon compare its own with them, and prints how long both take in one thread. Needs g++ and GEOS (Debian:
# libgeos-dev), and exactextract's sources, which are not here.
#
# usage: kernels/cpu/peers/coverage.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$1/src" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for kind in floats doubles; do
	cp -r "$sources" "$tmp/$kind"
	if [ $kind = doubles ]; then sed -i 's/\bfloat\b/double/g' "$tmp/$kind"/*.{h,cpp}; fi
	for f in box cell coordinate floodfill geos_utils grid measures perimeter_distance raster_cell_intersection side \
		traversal traversal_areas; do
		g++ -O3 -march=native -std=c++17 -w -c "$tmp/$kind/$f.cpp" -o "$tmp/$kind/$f.o"
	done
	g++ -O3 -march=native -std=c++17 -w -I "$tmp/$kind" -o "$tmp/coverage-$kind" "$here/coverage.cpp" \
		"$tmp/$kind"/*.o -lgeos_c
done
cd "$here/../../.."
POLYSCAN_EXACTEXTRACT=$tmp/coverage-floats POLYSCAN_EXACTEXTRACT_DOUBLES=$tmp/coverage-doubles \
	go test -count 1 -run '^TestCoverageAsExactExtractFindsIt$' -v ./polygon
