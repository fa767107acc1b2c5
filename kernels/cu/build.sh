#!/usr/bin/env bash
# Compiles the kernels into the fatbins that kernels/cuda embeds.
#
#   kernels/cu/build.sh             into kernels/cuda/fatbin
#   kernels/cu/build.sh FOLDER      into FOLDER, to compare
#   MACHINES='61 90' kernels/cu/build.sh FOLDER    machine code for these alone, to compare quicker
#
# The output depends on the sources and on nvcc alone, so it has to be nvcc 11.8: the last one that compiles for every
# machine in TARGETS and whose driver API is that of the binding's headers. NVCC names it where it is not in the PATH.
# A fatbin holds machine code for each target, and PTX that the driver compiles for what came later.
#
# The front end of nvcc 11.8 places a constant that a branch assigns to a variable by where its own memory lies, in
# large kernels: one of a few outputs, which compute the same. The sources give it no occasion (see invert in
# diffusion_graph_setup.cu). To make sure, it runs without randomised addresses, where that is allowed; FIXED= (empty)
# lets it run as it comes, which shows such a place when it is new.
set -euo pipefail
export LC_ALL=C

TARGETS='61 70 75 80 86 89 90'
RELEASE=11.8
NVCC=${NVCC:-nvcc}
FIXED=${FIXED-$(setarch -R true 2>/dev/null && echo 'setarch -R' || true)}

MACHINES=${MACHINES:-$TARGETS}

out=${1:-}
[ -n "$out" ] || [ "$MACHINES" = "$TARGETS" ] || { echo 'kernels/cu/build.sh: MACHINES needs a FOLDER' >&2; exit 1; }
[ -z "$out" ] || out=$(mkdir -p "$out" && cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")" # nvcc keeps the names of sources as they were given
out=${out:-$(mkdir -p ../cuda/fatbin && cd ../cuda/fatbin && pwd)}

if ! command -v "$NVCC" >/dev/null; then
	echo "kernels/cu/build.sh: no $NVCC here; kernels/cu/install-nvcc.sh installs $RELEASE on Debian" >&2
	exit 1
fi
version=$("$NVCC" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
case $version in
"$RELEASE".*) ;;
*)
	echo "kernels/cu/build.sh: $NVCC is $version, it must be $RELEASE" >&2
	exit 1
	;;
esac

# Its companion lies beside the real nvcc, which may be a link or a script elsewhere.
FATBINARY=("$("$NVCC" --dryrun -c -x cu /dev/null 2>&1 | sed -n 's/^#\$ _HERE_=//p')/fatbinary")
[ -x "${FATBINARY[0]}" ] || FATBINARY=(fatbinary)

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# A copy, so that sources which are edited meanwhile don't get mixed.
mkdir "$tmp/src"
cp -r -- *.cu *.cuh abi "$tmp/src"
cd "$tmp/src"

# nvcc alone leaves machine code uncompressed, which makes the files three times as large; so the steps that it would
# take are taken here. As many run at a time as there are processors: each takes up to a few hundred MB.
compile() {
	$FIXED "$NVCC" -std=c++14 -O3 "$1" -arch="$2" -o "$tmp/$3" "$4"
}
export -f compile
export NVCC FIXED tmp
for f in *.cu; do
	name=${f%.cu}
	for t in $MACHINES; do
		printf '%s\0' -cubin "sm_$t" "$name.$t" "$f"
	done
	printf '%s\0' -ptx "compute_${TARGETS##* }" "$name.ptx" "$f"
done | xargs -0 -n 4 -P "$(nproc)" bash -c 'compile "$@"' -

rm -f "$out"/*.fatbin "$out/BUILD"
for f in *.cu; do
	name=${f%.cu}
	images=()
	for t in $MACHINES; do
		images+=("--image3=kind=elf,sm=$t,file=$name.$t")
	done
	images+=("--image3=kind=ptx,sm=${TARGETS##* },file=$name.ptx")
	# In the folder of the images: their names go into the output.
	(cd "$tmp" && "${FATBINARY[@]}" --create="$out/$name.fatbin" -64 --compress-all "${images[@]}")
done

# What they were made from, to be checked where there is no nvcc: the hash of the sources is that of tools/gpureport.
{
	echo "nvcc $version"
	echo "targets $TARGETS"
	echo "sources $(find . -name '*.cu' -o -name '*.cuh' | sed 's|^\./||' | sort | xargs sha256sum | sha256sum | cut -d' ' -f1)"
	(cd "$out" && sha256sum *.fatbin)
} >"$out/BUILD"
cat "$out/BUILD"
