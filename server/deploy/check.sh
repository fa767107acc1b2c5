#!/usr/bin/env bash
# Tries what this folder offers: the image that Containerfile builds, the unit under a systemd of its own, the alerts.
#
#   server/deploy/check.sh                    everything
#   server/deploy/check.sh container alerts   some of it
#
# Needs root, Go with the modules at hand, and the Debian packages debootstrap, buildah, systemd-container, curl and
# prometheus. Registries of images are not asked: the base is a Debian from debootstrap, where this machine's Go and what
# it has compiled before are mounted. The CUDA image is not built, because its toolkit comes from such a registry. ROOT=
# names a Debian that is there already; it isn't changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

# root makes the Debian that others are copies of.
root() {
	ROOT=${ROOT:-$work/root}
	[ -d "$ROOT" ] || debootstrap --variant=minbase --include=ca-certificates,dbus,systemd bookworm "$ROOT" \
		> "$work/debootstrap.log" || { tail "$work/debootstrap.log"; fail debootstrap; }
}

# healthy asks a server, which listens where polyscand.yaml says, over HTTP and over gRPC.
healthy() {
	curl --fail --silent --show-error --retry 60 --retry-connrefused --retry-delay 1 127.0.0.1:7466/readyz &&
		"$work/polyscan" device --addr 127.0.0.1:7465
}
export -f healthy
export work

bh() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/runroot" "$@"; }

# base makes an image of a root.
base() {
	local name=$1 c m
	c=$(bh from scratch)
	m=$(bh mount "$c")
	cp -a "$2/." "$m"
	mkdir -p "$m/usr/local/go"
	bh umount "$c" > /dev/null
	bh config --env PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin --env GOPATH=/go --env GOCACHE=/go/cache \
		--env GOTOOLCHAIN=local --env GOFLAGS=-buildvcs=false "$c" # a worktree's repository is elsewhere
	bh commit --quiet --rm "$c" "$name" > /dev/null
}

container() {
	root
	go mod download
	base "docker.io/library/golang:$(sed -n 's/^ARG GO=//p' server/deploy/Containerfile)-bookworm" "$ROOT"
	# What git has: other stages may write to the tree meanwhile.
	mkdir "$work/source"
	git ls-files -z --cached --others --exclude-standard |
		while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
		tar --null -T - -cf - | tar -xf - -C "$work/source"
	bh build --isolation chroot --pull-never --network host --volume "$(go env GOROOT):/usr/local/go:ro" \
		--volume "$(go env GOMODCACHE):/go/pkg/mod" --volume "$(go env GOCACHE):/go/cache" \
		--tag polyscand --file server/deploy/Containerfile "$work/source" > "$work/build.log" 2>&1 ||
		{ tail -20 "$work/build.log"; fail "the Containerfile does not build"; }
	local c entry
	c=$(bh from --pull-never localhost/polyscand)
	[ "$(bh inspect --format '{{.OCIv1.Config.User}}' "$c")" = 65532:65532 ] || fail "the image's user may do anything"
	entry=$(bh inspect --format '{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}' "$c")
	export -f bh
	entry=${entry% }
	# A network and processes of its own: ports are free there, nothing from outside helps, and nothing stays.
	c=$c entry=$entry unshare --net --pid --fork --kill-child --mount-proc bash -euo pipefail -c '
		ip link set lo up
		bh run --isolation chroot "$c" -- $entry > "$work/server.log" 2>&1 &
		healthy > "$work/health.log" 2>&1 || { cat "$work/health.log" "$work/server.log"; exit 1; }
		pid=$(pgrep --newest --full "^$entry") || { ps ax; exit 1; }
		[ "$(stat --format %u /proc/$pid)" = 65532 ] || { echo "it runs as another user"; exit 1; }
		kill "$pid"
		wait
	' || fail "the server in the image"
	echo "container: built, healthy, stopped"
}

# unit starts polyscand.service as README.md says, and plcgateway.service and camera.service beside it, in a Debian under
# its own systemd, which runs what is below as its last unit and writes result.
unit() {
	root
	cp -a "$ROOT" "$work/machine"
	local to=$work/machine
	install -m 755 "$work/polyscand" "$work/polyscan" "$work/plcgateway" "$work/camera" "$to/usr/local/bin/"
	install -D -m 644 server/deploy/polyscand.yaml "$to/etc/polyscan/polyscand.yaml"
	install -m 644 clients/plcgateway/deploy/plcgateway.yaml testdata/conveyor/regions.json "$to/etc/polyscan/"
	# The file as it is, but for the address of the one camera that is there; another is not, and a folder stays empty.
	sed 's/192\.168\.1\.20/127.0.0.1/' clients/camera/deploy/camera.yaml > "$to/etc/polyscan/camera.yaml"
	mkdir "$to/srv/frames"
	install -m 644 server/deploy/polyscand.service clients/plcgateway/deploy/plcgateway.service \
		clients/camera/deploy/camera.service "$to/etc/systemd/system/"
	cat > "$to/check" <<'IN'
#!/bin/bash
exec > /result 2>&1
set -eux
show() { systemctl show --value --property "$1" "${2:-polyscand}"; }
trap 'set +e; journalctl --no-pager --unit polyscand --unit plcgateway --unit camera | tail -40; systemctl poweroff --no-block' EXIT
systemctl is-active polyscand # Type=notify: it has said that it is ready
polyscan device --addr 127.0.0.1:7465
polyscan device --addr unix:/run/polyscan/polyscand.sock
[ "$(stat --format %a /run/polyscan/polyscand.sock)" = 660 ]
[ -d /var/lib/polyscan/recipes ]
systemctl reload polyscand
systemctl is-active polyscand
# A crash is followed by another start, and wrong settings aren't. ABRT is what the watchdog sends, and ends as a panic does.
restarts=0
for signal in KILL ABRT; do
	restarts=$((restarts + 1))
	systemctl kill --signal $signal polyscand
	for _ in $(seq 100); do [ "$(show NRestarts)" = $restarts ] && [ "$(show ActiveState)" = active ] && break; sleep 0.1; done
	polyscan device --addr 127.0.0.1:7465
done

# The gateway, on port 502 and without rights: its PLC is answered. The recipe that it prepares is there by now.
polyscan recipe put board -r /etc/polyscan/regions.json --addr 127.0.0.1:7465
systemctl start plcgateway
systemctl is-active plcgateway
part() { plcgateway simulate --addr 127.0.0.1:502 --recipe 1 --count 1 --first-id "$1" | grep REJECT; }
part 1
[ "$(stat --format %u "/proc/$(show MainPID plcgateway)")" != 0 ]
# However often it crashes, it comes again.
for i in $(seq 7); do
	was=$(show MainPID plcgateway)
	systemctl kill --signal $([ "$i" = 7 ] && echo ABRT || echo KILL) plcgateway
	for _ in $(seq 100); do
		now=$(show MainPID plcgateway)
		[ "$now" != "$was" ] && [ "$now" != 0 ] && [ "$(show ActiveState plcgateway)" = active ] && break
		sleep 0.05
	done
done
[ "$(show NRestarts plcgateway)" = 7 ]
part 2
# One that hangs is ended by the watchdog, and comes again.
kill -STOP "$(show MainPID plcgateway)"
for _ in $(seq 200); do [ "$(show NRestarts plcgateway)" = 8 ] && [ "$(show ActiveState plcgateway)" = active ] && break; sleep 0.1; done
part 3
systemctl stop plcgateway
[ "$(show Result plcgateway)" = success ]
sed -i 's/deadline: 50ms/deadline: 0ms/' /etc/polyscan/plcgateway.yaml
if systemctl start plcgateway; then exit 1; fi
sleep 1 # longer than RestartSec
[ "$(show ExecMainStatus plcgateway) $(show ActiveState plcgateway) $(show NRestarts plcgateway)" = "2 failed 0" ]

# Cameras: the one that is there streams, whatever becomes of the others, without root, and again after a crash.
camera simulate > /dev/null &
parts() { journalctl --no-pager --unit camera "_PID=$(show MainPID camera)" | grep -c ' top-[0-9]* .* \(PASS\|FAIL\) ' || true; }
streams() { for _ in $(seq 100); do [ "$(parts)" -ge 3 ] && return; sleep 0.1; done; return 1; }
systemctl start camera
streams
[ "$(stat --format %u "/proc/$(show MainPID camera)")" != 0 ]
grep 'CapEff:.*1000$' "/proc/$(show MainPID camera)/status" # CAP_NET_ADMIN: buffers beyond net.core.rmem_max
systemctl kill --signal KILL camera
for _ in $(seq 100); do [ "$(show NRestarts camera)" = 1 ] && [ "$(show ActiveState camera)" = active ] && break; sleep 0.1; done
streams
systemctl stop camera
[ "$(show Result camera)" = success ]
sed -i 's/reconnect: 2s/reconnect: 2x/' /etc/polyscan/camera.yaml
if systemctl start camera; then exit 1; fi
sleep 1 # longer than RestartSec
[ "$(show ExecMainStatus camera) $(show ActiveState camera) $(show NRestarts camera)" = "2 failed 0" ]

systemctl stop polyscand
[ "$(show Result)" = success ]
mkdir /run/systemd/system/polyscand.service.d
printf '[Service]\nEnvironment=POLYSCAN_MEMORY=5\n' > /run/systemd/system/polyscand.service.d/wrong.conf
systemctl daemon-reload
if systemctl start polyscand; then exit 1; fi
sleep 3 # longer than RestartSec
[ "$(show ExecMainStatus) $(show ActiveState) $(show NRestarts)" = "2 failed 0" ]
echo passed
IN
	chmod +x "$to/check"
	printf '[Unit]\nAfter=polyscand.service\n[Service]\nType=oneshot\nExecStart=/check\n' > "$to/etc/systemd/system/check.service"
	mkdir -p "$to/etc/systemd/system/multi-user.target.wants"
	ln -s ../polyscand.service ../check.service "$to/etc/systemd/system/multi-user.target.wants/"
	timeout 120 systemd-nspawn --quiet --register=no --keep-unit --private-network --boot --console=pipe \
		--directory "$to" < /dev/null > "$work/console.log" 2>&1 || { tail "$work/console.log"; cat "$to/result" || true; fail "systemd-nspawn"; }
	grep -q '^passed$' "$to/result" || { cat "$to/result"; fail "the unit"; }
	echo "units: started, healthy, reloaded, started anew after a crash and not with wrong settings"
	echo "plcgateway's, besides: without root on port 502, after any number of crashes, and when it hangs"
	echo "camera's: one that is there streams beside others that aren't, without root and again after a crash"
}

alerts() {
	promtool test rules server/deploy/alerts_test.yaml >"$work/alerts.log" 2>&1 ||
		{ cat "$work/alerts.log"; fail alerts; }
	echo "alerts: fire when they should"
}

[ "$(id -u)" = 0 ] || fail "needs root"
for part in ${*:-container unit alerts}; do
	case $part in
	alerts) alerts ;;
	container | unit)
		CGO_ENABLED=0 go build -o "$work/" ./clients/polyscan ./clients/plcgateway ./clients/camera ./server/cmd/polyscand
		"$part"
		;;
	*) fail "no part $part" ;;
	esac
done
