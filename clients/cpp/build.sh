#!/bin/sh
# Builds the C++ example into a folder, with the code that protoc makes of the schemas.
#
#   build.sh FOLDER
set -eu
out=${1:?usage: build.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../proto
mkdir -p "$out"
# What inspection.proto and scan.proto import, and those.
schemas="buf/validate/validate.proto google/rpc/status.proto"
for name in columns frame inspection recipe region scan; do
	schemas="$schemas polyscan/v1/$name.proto"
done
# shellcheck disable=SC2086
protoc -I "$proto" -I "$proto/third_party" --cpp_out="$out" --grpc_out="$out" \
	--plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" $schemas
cp "$here/example.cc" "$out"
cd "$out"
flags="-std=c++17 -O0 $(pkg-config --cflags grpc++ protobuf)"
for source in example.cc $(find buf google polyscan -name '*.pb.cc'); do
	case $source in
	*.grpc.pb.cc) grep -q 'method_names' "$source" || continue ;; # a schema without a service
	esac
	echo "$source"
done | xargs -P 2 -I {} sh -c "g++ $flags -I . -c {} -o \$(echo {} | tr / _).o"
# shellcheck disable=SC2046
g++ -o example ./*.o $(pkg-config --libs grpc++ protobuf)
