// What systemd is told: see sd_notify(3). Outside of systemd nobody listens.

package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisor is systemd, if that started the process with Type=notify.
type supervisor struct {
	log      *slog.Logger
	watchdog *time.Ticker // nil without WatchdogSec=
}

func newSupervisor(log *slog.Logger) *supervisor {
	v := &supervisor{log: log}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is left alone", "error", err)
	} else if every > 0 {
		v.watchdog = time.NewTicker(every / 2)
	}
	return v
}

func (v *supervisor) close() {
	if v.watchdog != nil {
		v.watchdog.Stop()
	}
}

// due ticks when the watchdog wants to hear from the process.
func (v *supervisor) due() <-chan time.Time {
	if v.watchdog == nil {
		return nil
	}
	return v.watchdog.C
}

func (v *supervisor) alive() { v.tell(daemon.SdNotifyWatchdog) }

func (v *supervisor) ready(status string) { v.tell(daemon.SdNotifyReady, "STATUS="+status) }

// stopping asks for the time that calls in flight may take, and some for the rest.
func (v *supervisor) stopping(within time.Duration) {
	within = min(within, 24*time.Hour) + 10*time.Second
	v.tell(daemon.SdNotifyStopping, "STATUS=finishing calls in flight",
		fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds()))
}

func (v *supervisor) tell(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		v.log.Warn("systemd can't be told", "error", err)
	}
}
