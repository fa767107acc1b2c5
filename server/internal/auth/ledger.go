package auth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Resource is something of which a tenant may hold so much at a time.
type Resource uint8

const (
	Sessions   Resource = iota // of line-scan, those between two connections included
	Frames                     // resident ones, those being uploaded included
	FrameBytes                 // of the device, that those take
	Leases                     // of shared memory
	LeaseBytes                 // that those have
	Streams                    // streaming calls, but for those that sessions and leases count
	Openings                   // line-scan calls whose session is yet to be opened or resumed
	Recipes                    // versions that are stored
	resources
)

var resourceNames = [resources]string{
	Sessions: "sessions", Frames: "frames", FrameBytes: "frame-bytes", Leases: "leases", LeaseBytes: "lease-bytes",
	Streams: "streams", Openings: "openings", Recipes: "recipes",
}

func (r Resource) String() string { return resourceNames[r] }

// Amounts has a number for each resource.
type Amounts [resources]int64

// quotas are the limits of a tenant; -1 where there is none.
type quotas Amounts

var noQuotas = func() (q quotas) {
	for i := range q {
		q[i] = -1
	}
	return q
}()

// ledger knows what each tenant holds, and decides whether it may hold more. What a tenant holds stays counted when the
// file changes.
type ledger struct {
	mu       sync.Mutex
	totals   Amounts // what the server has; 0 where there is no such bound
	used     Amounts // by all
	accounts map[string]*account
}

// account is that of a tenant.
type account struct {
	listed  bool // it is one of the file's
	shares  bool // and something is set aside for it
	quotas  quotas
	used    Amounts
	refused Amounts
	calls   uint64
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

func (l *ledger) account(tenant string) *account {
	a := l.accounts[tenant]
	if a == nil {
		a = &account{quotas: noQuotas}
		l.accounts[tenant] = a
	}
	return a
}

// list says which tenants there are now.
func (l *ledger) list(tenants map[string]*tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.listed, a.shares, a.quotas = false, false, noQuotas
	}
	for name, t := range tenants {
		a := l.account(name)
		a.listed, a.shares, a.quotas = true, t.role >= Run, t.quotas
	}
	for name := range l.accounts {
		l.forget(name)
	}
}

// called counts a call.
func (l *ledger) called(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[tenant]; a != nil {
		a.calls++
	}
}

// forget drops the account of a tenant that is not listed and holds nothing. mu is held.
func (l *ledger) forget(tenant string) {
	if a := l.accounts[tenant]; !a.listed && a.used == (Amounts{}) {
		delete(l.accounts, tenant)
	}
}

// share is what is set aside of a resource for one tenant: half of all goes to the tenants of the file in equal parts,
// so that none can shut out another, and the rest to whoever comes first. mu is held.
func (l *ledger) share(what Resource) int64 {
	n := int64(0)
	for _, a := range l.accounts {
		if a.shares {
			n++
		}
	}
	return l.totals[what] / max(1, 2*n)
}

// setAside is how much of a resource is kept for the tenants beside a. mu is held.
func (l *ledger) setAside(a *account, what Resource, share int64) (sum int64) {
	for _, o := range l.accounts {
		if o == a || !o.shares {
			continue
		}
		s := share
		if q := o.quotas[what]; q >= 0 {
			s = min(s, q)
		}
		sum += max(0, s-o.used[what])
	}
	return sum
}

func (l *ledger) take(tenant string, what Resource, n int64) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(tenant)
	defer l.forget(tenant)
	if limit := a.quotas[what]; limit >= 0 && n > limit-a.used[what] {
		a.refused[what]++
		return nil, errQuota(tenant, what, n, a.used[what], limit,
			fmt.Sprintf("%d of %d are in use", a.used[what], limit))
	}
	if total := l.totals[what]; total > 0 {
		share := l.share(what)
		kept := l.setAside(a, what, share)
		// Where nothing is kept for others, the room that has the resource says that there is no more.
		if own := a.shares && a.used[what]+n <= share; !own && kept > 0 && l.used[what]+n+kept > total {
			a.refused[what]++
			most := max(0, total-kept-(l.used[what]-a.used[what]))
			return nil, errQuota(tenant, what, n, a.used[what], most,
				fmt.Sprintf("%d are in use, and %d of the server's %d are set aside for other tenants", a.used[what], kept, total))
		}
	}
	return l.hold(a, tenant, what, n), nil
}

// hold counts n that an account has. mu is held.
func (l *ledger) hold(a *account, tenant string, what Resource, n int64) (release func()) {
	a.used[what] += n
	l.used[what] += n
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.used[what] -= n
		l.used[what] -= n
		l.forget(tenant)
	}
}

func errQuota(tenant string, what Resource, n, used, limit int64, text string) error {
	if n > 1 {
		text = fmt.Sprintf("%d more are wanted: %s", n, text)
	}
	subject := fmt.Sprintf("tenant %s: %s", tenant, what)
	return apierr.WithDetails(codes.ResourceExhausted, subject+": "+text,
		apierr.Info(apierr.ReasonTenantQuota, "tenant", tenant, "resource", what.String(),
			"used", strconv.FormatInt(used, 10), "limit", strconv.FormatInt(limit, 10)),
		apierr.QuotaFailure(subject, text)).Err()
}

// Usage is what a tenant holds, may hold, and was refused.
type Usage struct {
	Tenant        string
	Named         bool    // by the file
	Calls         uint64  // that were admitted since the file has it
	Used, Refused Amounts // Refused is how often, likewise
	Limits        Amounts // -1 where there is none
}

// Add adds what another tenant holds. Together they have no limits.
func (u *Usage) Add(o Usage) {
	u.Calls += o.Calls
	for what := range u.Used {
		u.Used[what] += o.Used[what]
		u.Refused[what] += o.Refused[what]
		u.Limits[what] = -1
	}
}

// usage is that of all tenants, and of one that may have none, by name.
func (l *ledger) usage(also string) []Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if also != "" {
		l.account(also)
		defer l.forget(also)
	}
	all := make([]Usage, 0, len(l.accounts))
	for _, name := range slices.SortedFunc(maps.Keys(l.accounts), cmp.Compare[string]) {
		a := l.accounts[name]
		all = append(all, Usage{Tenant: name, Named: a.listed && !strings.HasPrefix(name, unnamed), Calls: a.calls,
			Used: a.used, Refused: a.refused, Limits: Amounts(a.quotas)})
	}
	return all
}
