#!/usr/bin/env bash
# Installs what kernels/cu/build.sh and a build with the tag cuda need, on Debian 12 as root: nvcc 11.8, the CUDA headers
# and a libcuda to link against. They are packages of Debian's non-free component, some 90 s of download and unpacking.
# Does nothing where nvcc is there already.
set -euo pipefail

if command -v nvcc >/dev/null; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo 'kernels/cu/install-nvcc.sh: needs root on Debian; elsewhere install CUDA 11.8 by hand and set NVCC' >&2
	exit 1
fi
# The component is named in one file or the other, by the age of the installation.
for f in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
	[ -e "$f" ] || continue
	sed -i -E -e '/^Components:/ { / non-free( |$)/! s/$/ contrib non-free/ }' \
		-e '/^deb .* main/ { / non-free( |$)/! s/$/ contrib non-free/ }' "$f"
done
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nvidia-cuda-toolkit >/dev/null
nvcc --version | tail -n 1
