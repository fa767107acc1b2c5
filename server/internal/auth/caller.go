package auth

import (
	"context"
	"log/slog"
)

// Caller is who makes a call.
type Caller struct {
	// Tenant owns what the call makes, and is the key of shares and quotas. "" on a server without tenants.
	Tenant string
	// Named says that the tenant's name outlives the process: it is from the file or from a certificate.
	Named bool
	Role  Role
	// SeesAll lets the caller see what belongs to other tenants, as a shift lead does; using and releasing it takes
	// [Admin].
	SeesAll bool

	ledger *ledger // nil: there are no quotas
}

// Anonymous is the caller of a server that asks nobody who they are. Everything is everybody's there.
var Anonymous = Caller{Role: Admin}

// Owns reports whether something of a tenant is the caller's to see, use and release.
func (c Caller) Owns(tenant string) bool { return tenant == c.Tenant || c.Role >= Admin }

// Sees reports whether the caller may look at what a tenant does and did: its streams, its history and what it holds.
func (c Caller) Sees(tenant string) bool { return c.seesOthers() || c.Owns(tenant) }

func (c Caller) seesOthers() bool { return c.SeesAll || c.Role >= Admin }

// Take counts n of something that the caller is going to hold, until release, which is to be called once. The error is
// for the client: it names the tenant, what there is too little of, how much of it is in use, and the limit.
func (c Caller) Take(what Resource, n int64) (release func(), err error) {
	if c.ledger == nil {
		return func() {}, nil
	}
	return c.ledger.take(c.Tenant, what, n)
}

// TakeFor is Take for what will be another tenant's, which it counts for; "" is the caller's own.
func (c Caller) TakeFor(tenant string, what Resource, n int64) (release func(), err error) {
	if tenant != "" {
		c.Tenant = tenant
	}
	return c.Take(what, n)
}

type callerKey struct{}

// NewContext says who makes a call.
func NewContext(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext is who makes the call of ctx: the zero Caller, which may do nothing and has no tenant, where that isn't
// said.
func FromContext(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// LogHandler adds the tenant of the context to what is logged with one.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if t := FromContext(ctx).Tenant; t != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("tenant", t))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
