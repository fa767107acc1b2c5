// Package explain says in the words of the command line what a failed connection lacks.
package explain

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
)

// Connection is how a command reaches its server.
type Connection struct {
	Addr  string
	TLS   bool // --tls, --ca or another of these flags was given
	Token bool // --token-file was given
}

// Explain is the text of an error of a connection, or of a call that the server refused because of who asks: the
// address, what happened, and which flag would help. It is empty for other errors.
func (c Connection) Explain(e *clients.Error) string {
	text := ""
	switch e.Code {
	case codes.Unavailable:
		text = connectionText(e)
	case codes.Unauthenticated, codes.PermissionDenied:
		text = e.Reason()
	default:
		return ""
	}
	if hint := c.hint(e.Code, text); hint != "" {
		text += "; " + hint
	}
	return c.Addr + ": " + text
}

// connectionText is the text of an error of the connection without gRPC's wrapping of what the system said.
func connectionText(e *clients.Error) string {
	_, cause, ok := strings.Cut(e.Message, `connection error: desc = "`)
	if !ok {
		if strings.Contains(e.Message, "produced zero addresses") {
			return "no connection: no such host"
		}
		return e.Error()
	}
	cause = strings.TrimSuffix(cause, `"`)
	if text, err := strconv.Unquote(`"` + cause + `"`); err == nil {
		cause = text
	}
	cause = strings.TrimPrefix(strings.TrimPrefix(cause, "transport: "), "Error while dialing: ")
	return "no connection: " + cause
}

// hint is which flag, or which server, would help; empty where nobody knows.
func (c Connection) hint(code codes.Code, text string) string {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case code == codes.Unauthenticated && !c.Token:
		return "add --token-file FILE"
	case code == codes.Unauthenticated:
		return "see --token-file"
	case code != codes.Unavailable:
	case has("HTTP/1.1 header"):
		return "this is a port for HTTP: give the one for gRPC"
	case c.TLS && has("does not look like a TLS handshake"):
		return "the server speaks no TLS: leave --tls, --ca and the like out"
	case has("certificate required"):
		return "the server asks for a certificate: add --cert FILE and --key FILE"
	case !c.TLS && has("error reading server preface"):
		return "if the server speaks TLS, add --tls, or --ca FILE with the certificate that signed its own"
	case has("unknown authority"):
		return "add --ca FILE with the certificate that signed the server's"
	case has("IP SANs", "certificate is valid for", "certificate is not valid for"):
		return "add --server-name NAME with the name in the server's certificate"
	case has("connection refused", "no such file or directory"):
		return "is the server running there?"
	}
	return ""
}
