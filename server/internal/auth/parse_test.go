package auth

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	c, err := parse([]byte("# who may\n" +
		"alpha\n" +
		"\tbeta\tname=line-4  role=run sessions=4 frame-bytes=512MiB\r\n" +
		"\n" +
		"gamma name=line-4 role=view frames=0\n" +
		"certificate=gateway.plant role=view\n" +
		"certificate=spiffe://plant/ops name=ops role=admin\n" +
		"alpha\n" + // once more is no harm
		"not=a-certificate\n"))
	if err != nil {
		t.Fatal(err)
	}
	type want struct {
		tenant string // "" stands for a name that is made
		role   Role
	}
	for key, w := range map[hash]want{
		keyOfToken("alpha"): {"", Teach}, keyOfToken("beta"): {"line-4", Run}, keyOfToken("gamma"): {"line-4", View},
		keyOfCertificate("gateway.plant"): {"gateway.plant", View}, keyOfCertificate("spiffe://plant/ops"): {"ops", Admin},
		keyOfToken("not=a-certificate"): {"", Teach},
	} {
		who := c.logins[key].who
		if w.tenant == "" && strings.HasPrefix(who.Tenant, unnamed) && !who.Named {
			w.tenant = who.Tenant
		}
		if who.Tenant != w.tenant || who.Role != w.role {
			t.Errorf("%v is %+v", w, who)
		}
	}
	if len(c.logins) != 6 {
		t.Errorf("%d tokens and certificates", len(c.logins))
	}
	name, other := c.logins[keyOfToken("alpha")].who.Tenant, c.logins[keyOfToken("not=a-certificate")].who.Tenant
	if strings.Contains(name, "alpha") || name == other {
		t.Errorf("a token without a name is called %q", name)
	}
	line4 := c.tenants["line-4"]
	want4 := noQuotas
	want4[Sessions], want4[FrameBytes], want4[Frames] = 4, 512<<20, 0
	if line4.role != Run || line4.quotas != want4 {
		t.Errorf("%+v", line4)
	}
	if keyOfToken("certificate=x") == keyOfCertificate("x") {
		t.Error("a token stands for a certificate")
	}
}

// Errors name the line, the value and what it may be, and no token.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"ok\nsecret two":                                {"line 2", "role=run"},
		"secret Secret2=3":                              {"line 1", "no such setting"},
		"secret role=boss":                              {"line 1", `role = "boss"`, "view, run, teach, admin"},
		"secret role=none":                              {"role", `"none"`},
		"secret role=":                                  {"role", `""`},
		"secret name=":                                  {"name", `""`, "128"},
		"secret name=token:1":                           {"name", `"token:1"`, "token:"},
		"secret name=" + strings.Repeat("n", 129):       {"name", "1 to 128"},
		"secret name=zürich":                            {"name", "ASCII"},
		"s\u00e9cret":                                   {"line 1", "printable ASCII"},
		"certificate=":                                  {"certificate", "1 to 128"},
		"secret sesions=4":                              {"sesions", "sessions"},
		"secret sessions=-1":                            {"sessions", `"-1"`, "2147483647"},
		"secret sessions=4.5":                           {"sessions", `"4.5"`},
		"secret sessions=99999999999":                   {"sessions", "2147483647"},
		"secret frame-bytes=lots":                       {"frame-bytes", `"lots"`, "MiB"},
		"secret sessions=4 sessions=5":                  {"sessions", "twice"},
		"secret name=a name=b":                          {"name", "twice"},
		"secret name=a sessions=4\nx name=a sessions=5": {"line 2", "sessions = 5", "line 1", "4"},
		"secret role=run\nsecret role=view":             {"line 2", "line 1"},
		"certificate=a\ncertificate=a name=b":           {"line 2", "line 1"},
	} {
		_, err := parse([]byte(text))
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v lacks %q", text, err, w)
			}
		}
		if s := err.Error(); strings.Contains(strings.ToLower(s), "secret") || strings.Contains(s, "\n") {
			t.Errorf("%q: %v tells a token", text, err)
		}
	}
}

// What can be parsed says for each line one tenant of a bounded name, and errors tell nothing of what may be a token.
func FuzzParse(f *testing.F) {
	f.Add("alpha\nbeta name=b role=run sessions=1 streams=3\ncertificate=c leases=2 lease-bytes=1GiB frames=7")
	f.Add("a\r\n#\n  b  role=admin")
	f.Add("a name=" + strings.Repeat("\xff", 3000))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse([]byte(text))
		if err != nil {
			var line int
			if _, scan := fmt.Sscanf(err.Error(), "line %d:", &line); scan != nil || line < 1 ||
				line > 1+strings.Count(text, "\n") || len(err.Error()) > 1000 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, l := range c.logins {
			who := l.who
			if who.Tenant == "" || len(who.Tenant) > maxName || who.Role < View || who.Role > Admin ||
				c.tenants[who.Tenant] == nil || c.tenants[who.Tenant].role < who.Role {
				t.Errorf("%q: %+v", text, who)
			}
		}
		for name, tenant := range c.tenants {
			for what, q := range tenant.quotas {
				if q < -1 {
					t.Errorf("%q: %s: %v = %d", text, name, Resource(what), q)
				}
			}
		}
	})
}
