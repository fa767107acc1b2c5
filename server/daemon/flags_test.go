package daemon

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/server"
	"github.com/polyscan/polyscan/server/internal/setting"
)

func TestUserIDs(t *testing.T) {
	for text, want := range map[string][]uint32{
		"0": {0}, "1000": {1000}, "1000,1001": {1000, 1001}, "4294967295": {1<<32 - 1},
	} {
		f, printed, _, err := parse(t, "--shm-socket=s", "--shm-allow-uid="+text, "--print-config")
		if err != nil || !slices.Equal(f.SharedMemoryUIDs, want) {
			t.Errorf("%q = %v, %v, want %v", text, f.SharedMemoryUIDs, err, want)
		}
		f, _, _, err = parse(t, "--config", writeFile(t, printed))
		if err != nil || !slices.Equal(f.SharedMemoryUIDs, want) {
			t.Errorf("%q is read again as %v, %v", text, f.SharedMemoryUIDs, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "4294967296", ",1", "1 2", "root"} {
		if f, _, _, err := parse(t, "--shm-allow-uid="+text); err == nil ||
			!strings.Contains(err.Error(), "--shm-allow-uid") {
			t.Errorf("%q = %v, %v, want an error that names the flag", text, f.SharedMemoryUIDs, err)
		}
	}
}

func TestSocketMode(t *testing.T) {
	for text, want := range map[string]fileMode{"0660": 0o660, "600": 0o600, "0o666": 0, "-1": 0, "1777": 0, "rw": 0} {
		f, printed, _, err := parse(t, "--socket-mode="+text, "--listen", "unix:s", "--print-config")
		if want == 0 {
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
				t.Errorf("%s: %v, want an error that names it", text, err)
			}
			continue
		}
		again, _, _, err2 := parse(t, "--config", writeFile(t, printed))
		if err != nil || err2 != nil || f.SocketMode != want || again.SocketMode != want {
			t.Errorf("%s = %#o, %v, and read again %#o, %v", text, f.SocketMode, err, again.SocketMode, err2)
		}
	}
}

// What a server says of settings that don't go together has the names of flags, and sizes as people write them.
func TestWordsOfServer(t *testing.T) {
	for args, want := range map[string]string{
		"--frame-idle 48h":                        "--frame-idle = 48h0m0s: must be 0s to 24h0m0s, max-frame-idle",
		"--recipe-memory 9GiB --host-memory 4GiB": "--recipe-memory = 9GiB: must be 0 to 2GiB, half of host-memory",
		"--frame-memory 65MiB --memory 64MiB":     "--frame-memory = 65MiB: must be 0 to 64MiB, the memory of the device",
		"--prepared-memory 3GiB --device cpu":     "--prepared-memory = 3GiB: must be 0 to 1GiB, the memory of the device",
		"--setup-memory 2GiB --memory 64MiB":      "--setup-memory = 2GiB: must be 0 to 64MiB, the memory of the device",
		"--memory 900000GiB":                      "memory = 900000GiB: more than this machine gives: out of device memory",
	} {
		f, _, _, err := parse(t, strings.Fields(args+" --listen 127.0.0.1:0")...)
		if err != nil {
			t.Fatal(err)
		}
		err = Run(t.Context(), "polyscand", &f, io.Discard, io.Discard, nil)
		if !errors.Is(err, server.ErrConfig) || err.Error() != want {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// What no machine could make right is found before anything is opened.
func TestValidate(t *testing.T) {
	for args, want := range map[string]string{
		"--memory 5":                                 "--memory = 5: must be at least 1MiB, or 0 for the default",
		"--memory 1048575":                           "--memory = 1048575: must be at least 1MiB",
		"--threads=-1":                               "--threads = -1: must be 0 to 65536",
		"--scan-drain 2h":                            "--scan-drain = 2h0m0s: must be 1ms to 1h0m0s",
		"--stream-idle=-1s":                          "--stream-idle = -1s: must be at least 1ms",
		"--max-message 2GiB":                         "--max-message = 2GiB: must be 64KiB to 2147483647",
		"--max-pixels 999999999999":                  "--max-pixels = 999999999999: must be 1 to 536870912",
		"--max-message 64":                           "--max-message = 64: must be 64KiB to 2147483647",
		"--max-regions 0":                            "--max-regions = 0: must be 1 to 2147483648",
		"--max-vertices 2":                           "--max-vertices = 2: must be 3 to 2147483648",
		"--stream-depth 0":                           "--stream-depth = 0: must be 1 to 256",
		"--longest-run 0":                            "--longest-run = 0s: must be at least 1ms",
		"--scan-drain 0":                             "--scan-drain = 0s: must be 1ms to 1h0m0s",
		"--scan-unread 1":                            "--scan-unread = 1: must be 16KiB to 2147483647",
		"--host-memory 1":                            "--host-memory = 1: must be at least 1MiB, or 0 for the default",
		"--history h --history-age 1ns":              "--history-age = 1ns: must be 1m0s to 876000h0m0s, or 0 for no end",
		"--device gpu":                               `--device "gpu": no such device in this build, which has auto, cpu`,
		"--listen foo":                               `--listen: "foo" is not an address: want host:port or unix:/path`,
		"--listen localhost:x":                       `--listen: "localhost:x" is not an address`,
		"--listen :5 --listen :5":                    "--listen :5: is given twice",
		"--listen :5 --http :5":                      "--http :5: is an address of --listen, where gRPC is served",
		"--listen unix:/s --socket-mode 0":           `"0" lets nobody connect`,
		"--listen unix:/s --socket-mode 0444":        `"0444" lets nobody connect`,
		"--listen unix://":                           "the path is missing",
		"--history-good 5":                           "--history-good has no effect without --history",
		"--history-age 5h":                           "--history-age has no effect without --history",
		"--history-bytes 20GiB":                      "--history-bytes has no effect without --history",
		"--history h --history-bytes 20":             "--history-bytes = 20: must be at least 16MiB, or 0 for any number",
		"--http 7466":                                `--http: "7466" is not an address`,
		"--history-memory 1GiB":                      "--history-memory has no effect without --history",
		"--shm-memory 2GiB":                          "--shm-memory has no effect without --shm-socket",
		"--shm-allow-uid 5":                          "--shm-allow-uid has no effect without --shm-socket",
		"--tls-cert c":                               "--tls-cert has no effect without --tls-key",
		"--tls-key k":                                "--tls-key has no effect without --tls-cert",
		"--tls-client-ca c":                          "--tls-client-ca has no effect without --tls-cert",
		"--ordinal 1 --device cpu":                   "--ordinal has no effect with --device cpu",
		"--threads 1 --device cuda":                  "--threads has no effect with --device cuda",
		"--socket-mode 0600":                         "--socket-mode has no effect without a unix socket, such as --listen unix:/path",
		"--socket-mode 0600 --listen unix:@name":     "--socket-mode has no effect without a unix socket",
		"--frame-copy-memory 1GiB --device cpu":      "--frame-copy-memory has no effect with --device cpu",
		"--no-frame-copies --frame-copy-memory 1GiB": "--frame-copy-memory has no effect with --no-frame-copies",
		"--shutdown-timeout=-5s":                     "--shutdown-timeout -5s: must not be negative",
		"--listen=":                                  "--listen: the value is empty",
	} {
		if _, _, _, err := parse(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		// A check of the settings is a check.
		if _, _, exit, err := parse(t, append(strings.Fields(args), "--print-config")...); err == nil || exit >= 0 {
			t.Errorf("%s --print-config: exit code %d, %v", args, exit, err)
		}
	}
	for _, args := range []string{"--memory 1MiB", "--memory 0", "--listen [::1]:0", "--history-memory 256MiB",
		"--socket-mode 0660",
		"--socket-mode 0600 --listen unix:/s", "--socket-mode 0600 --http unix:s", "--max-points 268435456"} {
		if _, _, _, err := parse(t, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestEnvironment: a variable that is almost a setting is refused; those of other programs are not looked at.
func TestEnvironment(t *testing.T) {
	for name, want := range map[string]string{
		"POLYSCAN_TOKEN_FIEL":  "environment POLYSCAN_TOKEN_FIEL: there is no such setting; did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAN_MAX_MESAGE":  "did you mean POLYSCAN_MAX_MESSAGE?",
		"POLYSCAN_max_message": "did you mean POLYSCAN_MAX_MESSAGE?",
		"POLYSCAN_TOKEN":       "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAN_TOKENS":      "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAN_TLS":         "did you mean POLYSCAN_TLS_CERT?",
		"POLYSCAN_HISTORY_DIR": "did you mean POLYSCAN_HISTORY?",
		"POLYSCAN_HTTP_ADDR":   "did you mean POLYSCAN_HTTP?",
		"POLYSCAN_ADDR":        "", "POLYSCAN_HTTP_SERVICE_HOST": "", "POLYSCAN_HTTP_PORT_80_TCP": "",
		"POLYSCAN_PORT_7465_TCP": "", "POLYSCAN_SERVICE_HOST": "",
		"POLYSCAN_SEED": "", "POLYSCAN_SHARED": "", "POLYSCAND_PORT_7465_TCP": "", "POLYSCAN_SERVER": "", "POLYSCAN_ADDRESS": "",
		"POLYSKAN_TOKEN_FILE": "did you mean POLYSCAN_TOKEN_FILE?",
		"POLYSCAND_MEMORY":    "environment POLYSCAND_MEMORY: there is no such setting; did you mean POLYSCAN_MEMORY?",
		"POLYSCAN_BIND":       "did you mean POLYSCAN_LISTEN?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, _, _, err := parse(t)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// Each flag has help, and each field of the server's settings is a flag or says that it is none.
func TestEverySettingHasHelp(t *testing.T) {
	var cmd struct{ Flags }
	k, err := kong.New(&cmd, Options("")...)
	if err != nil {
		t.Fatal(err)
	}
	help := command.Help(source, server.ConfigSource)
	names := map[string]bool{}
	for _, f := range k.Model.Flags {
		names[f.Name] = true
		if text := help(k.Model, f.Value); !strings.HasSuffix(text, ".") {
			t.Errorf("--%s: %q", f.Name, text)
		}
	}
	for _, f := range setting.Fields(&cmd.Config) {
		if !names[f.Name] {
			t.Errorf("%s: no flag --%s", f.Path, f.Name)
		}
	}
	// No flags are the zero value with the same defaults.
	f, _, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	var zero server.Config
	setting.Fill(&zero)
	if !reflect.DeepEqual(f.Config, zero) {
		t.Errorf("%+v, want %+v", f.Config, zero)
	}
}
