package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/polyscan/polyscan/server/internal/setting"
)

// The file has a line for each token or certificate:
//
//	TOKEN [name=N] [role=R] [sees=all] [RESOURCE=LIMIT ...]
//	certificate=NAME [name=N] [role=R] [sees=all] [RESOURCE=LIMIT ...]
//
// Lines with the same name are one tenant, whose limits may be on any of them. A token without a name is a tenant of
// its own, and a certificate's name is that of its tenant where the line says no other.

// content is what a file says.
type content struct {
	logins  map[hash]login
	tenants map[string]*tenant
}

// login is what a line of the file admits.
type login struct {
	who  Caller // without a ledger
	line int
}

// tenant is what all lines of a tenant say together.
type tenant struct {
	role   Role // the highest
	quotas quotas
	lines  [resources]int // where the quotas are
}

const certificateKey = "certificate="

// maxName is the most bytes of the name of a tenant or certificate, which is in logs and metrics.
const maxName = 128

// unnamed begins what stands for the name of a tenant that has none.
const unnamed = "token:"

// secret makes the names of tokens that have none: they are the same as long as the process runs, and tell nothing of
// the token.
var secret = []byte(rand.Text())

func nameOf(token hash) string {
	m := hmac.New(sha256.New, secret)
	m.Write(token[:])
	return unnamed + hex.EncodeToString(m.Sum(nil)[:6])
}

func keyOfToken(token string) hash      { return sha256.Sum256([]byte(token)) }
func keyOfCertificate(name string) hash { return sha256.Sum256([]byte(certificateKey + " " + name)) }

// lineError says where in the file something is wrong. It doesn't say what is there where that may be a token.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

func parse(data []byte) (*content, error) {
	c := &content{logins: map[hash]login{}, tenants: map[string]*tenant{}}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, l, err := c.line(n, strings.Fields(line))
		if err != nil {
			return nil, err
		}
		if first, ok := c.logins[key]; !ok {
			c.logins[key] = l
		} else if first.who != l.who {
			return nil, &lineError{n, fmt.Sprintf("line %d has the same token or certificate, and another name, role or sees",
				first.line)}
		}
	}
	return c, nil
}

func (c *content) line(n int, fields []string) (key hash, l login, err error) {
	bad := func(format string, args ...any) (hash, login, error) {
		for i, a := range args { // nobody reads more of a value
			const most = 100
			if s := fmt.Sprint(a); len(s) > most {
				args[i] = s[:most] + "…"
			}
		}
		return hash{}, login{}, &lineError{n, fmt.Sprintf(format, args...)}
	}
	l.line = n
	first := fields[0]
	if !printable(first) {
		return bad("a token is printable ASCII without spaces")
	}
	name, isCert := strings.CutPrefix(first, certificateKey)
	switch {
	case isCert && !validName(name):
		return bad("certificate = %q: must be 1 to %d printable ASCII characters, not %q first", name, maxName, unnamed)
	case isCert:
		key, l.who.Tenant, l.who.Named = keyOfCertificate(name), name, true
	default:
		key = keyOfToken(first)
		l.who.Tenant = nameOf(key)
	}
	l.who.Role = defaultRole
	own := tenant{quotas: noQuotas}
	var given []string
	for _, f := range fields[1:] {
		setting, value, ok := strings.Cut(f, "=")
		if !ok {
			return bad("after the token come settings such as role=run; one has no =")
		}
		if slices.Contains(given, setting) {
			return bad("%s is given twice", setting)
		}
		given = append(given, setting)
		switch setting {
		case "name":
			if !validName(value) {
				return bad("name = %q: must be 1 to %d printable ASCII characters, not %q first", value, maxName, unnamed)
			}
			l.who.Tenant, l.who.Named = value, true
		case "role":
			r, err := parseRole(value)
			if err != nil {
				return bad("role = %q: %v", value, err)
			}
			l.who.Role = r
		case "sees":
			if value != "all" {
				return bad("sees = %q: must be all, for a caller who looks at all tenants", value)
			}
			l.who.SeesAll = true
		default:
			what := slices.Index(resourceNames[:], setting)
			if what < 0 {
				return bad("%s: there is no such setting, only name, role, sees, %s", word(setting),
					strings.Join(resourceNames[:], ", "))
			}
			limit, err := parseLimit(Resource(what), value)
			if err != nil {
				return bad("%s = %q: %v", setting, value, err)
			}
			own.quotas[what] = limit
		}
	}
	t := c.tenants[l.who.Tenant]
	if t == nil {
		t = &tenant{quotas: noQuotas}
		c.tenants[l.who.Tenant] = t
	}
	t.role = max(t.role, l.who.Role)
	for what, limit := range own.quotas {
		switch {
		case limit < 0:
		case t.quotas[what] >= 0 && t.quotas[what] != limit:
			return bad("%s = %d: line %d says %d for the same tenant", Resource(what), limit, t.lines[what], t.quotas[what])
		default:
			t.quotas[what], t.lines[what] = limit, n
		}
	}
	return key, l, nil
}

// parseLimit reads a count, or a size where the resource is one.
func parseLimit(what Resource, text string) (int64, error) {
	if what == FrameBytes || what == LeaseBytes {
		return setting.ParseSize(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("must be a whole number from 0 to %d", math.MaxInt32)
	}
	return n, nil
}

// word is a key that can be told, because it isn't part of a token.
func word(key string) string {
	if len(key) > 20 || strings.ContainsFunc(key, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }) {
		return "a word with ="
	}
	return key
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && printable(s) && !strings.HasPrefix(s, unnamed)
}
