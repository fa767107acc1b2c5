#!/usr/bin/env bash
# Runs the GPU suite under compute-sanitizer (memcheck, racecheck, initcheck), on a machine with a GPU.
#
#   kernels/cu/sanitize.sh                   build/cuda.test, logs into build/sanitize
#   kernels/cu/sanitize.sh BINARY FOLDER
#   ONLY='racecheck .*strips' kernels/cu/sanitize.sh      some: a regular expression of tool and piece, with a space between
#
# It runs the conformance suite, short, in pieces at the same time: racecheck makes microseconds of a launch into milliseconds,
# and one process with all cases takes more than ten minutes. It fails where a tool finds anything, or a test fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

binary=${1:-build/cuda.test}
logs=${2:-build/sanitize}
mkdir -p "$logs"
command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin

# Parts and cases as -test.run takes them, two levels deep, the longest first. Together they are all of a short run, each once:
# TestSanitizePieces of internal/devicetest holds them to that. A piece is made of 1500 launches or less, of which racecheck
# took 20 to 40 ms each on an H200 with a dozen pieces at a time, or of cases that took it a minute together; cancel and the row
# of 70001 pixels took a little more each.
pieces=(
	'^cancel$' 'cases/^size_70001x' 'diffusion/^PYRAMID_CAUTIOUS_every' 'diffusion/^PYRAMID_GREEDY_every' '^shared$'
	'^(open|info|memory|sizes|pieces|order|streams|errors|sticky)$' '^(close|again|moved|concurrent)$'
	'cases/^strips_of_\[1' 'cases/^strips_of_\[[^1]' 'cases/^shape_[a-m]' 'cases/^shape_[^a-m]'
	'cases/^size_1x' 'cases/^size_(1[^x]|2)' 'cases/^size_3' 'cases/^size_([4-689]|7x)'
	'cases/^format_16' 'cases/^format_[12]x' 'cases/^format_[^12]' 'cases/^what_0x[0-4]' 'cases/^what_0x[5-9]' 'cases/^what_0x[a-f]'
	'cases/^colors_[34]' 'cases/^colors_[^34]' 'cases/^part' 'cases/^random_.$' 'cases/^random_[12].' 'cases/^random_[34].' 'cases/^random_[5-9].'
	'diffusion/^PYRAMID_CAUTIOUS_[^e]' 'diffusion/^PYRAMID_GREEDY_[^e]' 'diffusion/^MULTIGRID_(few|many)_walls' 'diffusion/^MULTIGRID_(corridor|curves|maze)'
	'diffusion/^MULTIGRID_(a_|any|nothing|rooms|walls)' 'diffusion/^MULTIGRID_(few|many)_curves' 'diffusion/^MULTIGRID_(points|row)'
	'diffusion/^MULTIGRID_(frame|holes)' 'diffusion/^MULTIGRID_(all|checkers|column|every|one|small|two)' 'diffusion/^(NAIVE|VARIABLE_STENCIL|errors)'
	'meshes/^from' 'meshes/^Flips_of_[a-o]' 'meshes/^Flips_of_[^a-o]' 'triangulate/^[0-9r]' 'triangulate/^[^0-9r]'
	'voronoi/^(BRUTE_FORCE|DEFAULT|GRID)$' 'voronoi/^(BANDING|JUMP_FLOOD|WIDE)$'
	'^shade$' '^(edges|derivatives|vertices|hold)$' '^(curves|blur|pack|fingerprint)$' '^develop$' '^correct$' '^(cooccurrence|weigh)$' '^blobs$' '^correlate$'
)

# A log's name has nothing but letters, digits, _ and -: its piece by number, and what is left of it without other characters.
one() {
	local tool=$1 number=$2 piece=$3 log found
	log=$logs/$tool-$(printf %02d "$number")-$(tr -cs 'A-Za-z0-9_\n' '-' <<<"$piece" | sed 's/^-*//; s/-*$//').txt
	timeout "${LIMIT:-1800}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$binary" -test.short -test.v -test.run "^TestConformance\$/$piece" >"$log" 2>&1 && rc=0 || rc=$?
	found=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | sed 's/=* *//' || true)
	printf '%-10s %-70s %5d passed  rc %d  %s\n' "$tool" "$piece" "$(grep -c -- '--- PASS' "$log" || true)" "$rc" "${found:-no summary}"
	[ "$rc" -eq 0 ] && grep -qE -- '--- PASS: TestConformance ' "$log"
}
export -f one
export binary logs

for tool in racecheck initcheck memcheck; do
	for i in "${!pieces[@]}"; do
		grep -qE -- "${ONLY:-.}" <<<"$tool ${pieces[i]}" || continue
		printf '%s\0%s\0%s\0' "$tool" "$i" "${pieces[i]}"
	done
done | xargs -0 -n 3 -P "${JOBS:-$(nproc)}" bash -c 'one "$@"' -
echo 'nothing found'
