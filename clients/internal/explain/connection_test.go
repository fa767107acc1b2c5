package explain

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
)

func TestExplain(t *testing.T) {
	const preface = `connection error: desc = "error reading server preface: EOF"`
	for _, c := range []struct {
		code       codes.Code
		message    string
		tls, token bool
		want       string
	}{
		{codes.Unavailable, preface, false, false,
			"h:1: no connection: error reading server preface: EOF; if the server speaks TLS, add --tls"},
		{codes.Unavailable, preface, true, false, "h:1: no connection: error reading server preface: EOF\n"},
		{codes.Unavailable,
			`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`,
			true, false, "; the server speaks no TLS: leave --tls"},
		{codes.Unavailable,
			`connection error: desc = "transport: authentication handshake failed: x509: certificate signed by unknown authority"`,
			true, false, "; add --ca FILE"},
		{codes.Unavailable,
			`connection error: desc = "x509: cannot validate certificate for 1.2.3.4 because it doesn't contain any IP SANs"`,
			true, false, "; add --server-name NAME"},
		{codes.Unavailable, `connection error: desc = "x509: certificate is valid for box, not h"`, true, false,
			"; add --server-name NAME"},
		{codes.Unavailable,
			`connection error: desc = "error reading server preface: remote error: tls: certificate required"`,
			true, false, "; the server asks for a certificate: add --cert FILE and --key FILE"},
		{codes.Unavailable,
			`connection error: desc = "error reading server preface: http2: frame too large, note that the frame ` +
				`header looked like an HTTP/1.1 header"`,
			false, false, "; this is a port for HTTP"},
		{codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp 1.2.3.4:1: connect: connection refused"`,
			false, false, "h:1: no connection: dial tcp 1.2.3.4:1: connect: connection refused; is the server running there?"},
		{codes.Unavailable, "name resolver error: produced zero addresses", false, false,
			"h:1: no connection: no such host\n"},
		{codes.Unavailable, "the server is shutting down", false, false, "h:1: UNAVAILABLE: the server is shutting down\n"},
		{codes.Unauthenticated, "a token is needed", false, false, "h:1: a token is needed; add --token-file FILE\n"},
		{codes.Unauthenticated, "not one of the tokens", false, true, "h:1: not one of the tokens; see --token-file\n"},
		{codes.PermissionDenied, "teach is needed", false, true, "h:1: teach is needed\n"},
		{codes.InvalidArgument, "frame.data", false, true, "\n"},
	} {
		got := Connection{Addr: "h:1", TLS: c.tls, Token: c.token}.Explain(&clients.Error{Code: c.code, Message: c.message})
		if !strings.Contains(got+"\n", c.want) || c.want == "\n" && got != "" {
			t.Errorf("%v %q: %q, want %q", c.code, c.message, got, c.want)
		}
	}
}
