#!/usr/bin/env bash
# Makes dist and src/gen from src and the schemas. It needs Node.js with npm, and bin/buf for the stubs (make tools). With
# --check nothing of the tree is changed, and what differs is an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# As the lock file says, from whatever registry npm is set to.
if ! cmp -s package-lock.json node_modules/.polyscan-lock; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	cp package-lock.json node_modules/.polyscan-lock
fi
../../bin/buf generate --output "$tmp"
rm -rf "$tmp/dist"
if [ "${1:-}" = --check ]; then
	diff -r src/gen "$tmp/src/gen" || { echo "server/console/src/gen: run make console"; exit 1; }
else
	rm -rf src/gen
	cp -r "$tmp/src/gen" src/gen
fi
node_modules/.bin/tsc
node_modules/.bin/esbuild src/main.ts src/style.css --bundle --minify --splitting --format=esm --target=es2022 \
	--outdir="$tmp/dist" --entry-names='[name]' --chunk-names='[name]-[hash]' --charset=utf8 --legal-comments=none \
	--log-level=warning --external:node:*
# What the first page needs comes at once, not one file after the other.
needed=$(cd "$tmp/dist" && { grep -hoE '"\./[a-z]+-[A-Z0-9]+\.js"' main.js live-*.js | tr -d '"' | grep -E 'chunk-'; ls live-*.js | sed 's#^#./#'; } |
	sort -u | sed 's#^\./\(.*\)$#<link rel="modulepreload" href="/\1">#')
awk -v needed="$needed" '/main\.js/ { print needed } { print }' src/index.html >"$tmp/dist/index.html"
cp src/icon.svg "$tmp/dist/"
size=$(cat "$tmp"/dist/*.js | gzip -9 | wc -c)
echo "script: $size bytes compressed"
[ "$size" -le 400000 ] || { echo 'the script is longer than 400 kB, compressed'; exit 1; }
if [ "${1:-}" = --check ]; then
	diff -r dist "$tmp/dist" >/dev/null || { echo "server/console/dist: run make console"; exit 1; }
	echo "$(find dist -type f | wc -l) files of server/console/dist as built"
else
	rm -rf dist
	cp -r "$tmp/dist" dist
fi
