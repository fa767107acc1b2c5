#!/usr/bin/env bash
# Runs the GPU suite under compute-sanitizer (memcheck, racecheck, initcheck), on a machine with a GPU.
#
#   kernels/cu/sanitize.sh                   build/cuda.test, logs into build/sanitize
#   kernels/cu/sanitize.sh BINARY FOLDER
#   ONLY='racecheck .*strips' kernels/cu/sanitize.sh      some: a regular expression of tool and piece, with a space between
#
# It runs the conformance suite, short, in pieces at the same time: racecheck makes a launch a hundred times as long, and
# one process with all cases takes more than ten minutes. It fails where a tool finds anything, or a test fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

binary=${1:-build/cuda.test}
logs=${2:-build/sanitize}
mkdir -p "$logs"
command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin

# Together they are all parts and cases, but for the large ones, which a short run leaves out.
pieces=(
	'cases/^strips_of_\[1\]$' 'cases/^strips_of_(\[1_|\[[^1])' 'cases/^shape_[a-m]' 'cases/^shape_[^a-m]'
	'cases/^size_[1-3]' 'cases/^size_[^1-3]' 'cases/^format_16' 'cases/^format_[12]x' 'cases/^format_[^12]'
	'cases/^what_0x[0-7]' 'cases/^what_0x[^0-7]' 'cases/^(part|random)'
	'^(open|info|memory|sizes|pieces|order|streams|errors|sticky)$' '^(cancel|close|again|moved|concurrent|triangulate|shared)$' '^diffusion$' '^meshes$' '^voronoi$' '^(edges|vertices|shade|hold)$'
	'^(curves|blur|pack)$'
)

one() {
	local tool=$1 piece=$2 log found
	log=$logs/$tool-$(tr -c 'a-z0-9^_\n' '-' <<<"$piece").txt
	timeout "${LIMIT:-1800}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$binary" -test.short -test.v -test.run "^TestConformance\$/$piece" >"$log" 2>&1 && rc=0 || rc=$?
	found=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | sed 's/=* *//' || true)
	printf '%-10s %-70s %5d passed  rc %d  %s\n' "$tool" "$piece" "$(grep -c -- '--- PASS' "$log" || true)" "$rc" "${found:-no summary}"
	[ "$rc" -eq 0 ] && grep -qE -- '--- PASS: TestConformance ' "$log"
}
export -f one
export binary logs

for tool in racecheck initcheck memcheck; do
	for piece in "${pieces[@]}"; do
		grep -qE -- "${ONLY:-.}" <<<"$tool $piece" || continue
		printf '%s\0%s\0' "$tool" "$piece"
	done
done | xargs -0 -n 2 -P "${JOBS:-$(nproc)}" bash -c 'one "$@"' -
echo 'nothing found'
