package command

import (
	"regexp"
	"strings"
)

// Errors of kong that tell of its own doings, and what they mean to people. The flag's name comes before.
var kongWords = []struct {
	pattern *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`expected \S+ value but got "(-[^"]*)" \((?:short|long) flag\); perhaps try (--?[^= ]+)=.*$`),
		`"$1" looks like a flag: write $2=$1`},
	{regexp.MustCompile(`expected \S+ value but got "EOL" .*$`), `its value is missing`},
	{regexp.MustCompile(`expected a valid \d+ bit uint but got ("[^"]*")$`), `$1 is no whole number from 0, or too large`},
	{regexp.MustCompile(`expected a valid \d+ bit int but got ("[^"]*")$`), `$1 is no whole number, or too large`},
	{regexp.MustCompile(`bool value must be true, .* but got ("[^"]*")$`), `$1 is neither true nor false`},
	{regexp.MustCompile(`must be one of "",`), `must be one of `},
	{regexp.MustCompile(`expected a float but got ("[^"]*")(?: \(.*\))?$`), `$1 is no number`},
	{regexp.MustCompile(`expected duration but got ("[^"]*"): .*$`), `$1 is no time: want one such as 30s or 1m30s`},
	{regexp.MustCompile(`^expected "(<[^"]*>)(?:[^"]*)"$`), `$1 is missing`},
	{regexp.MustCompile(` \((?:short|long) flag(?: tail)?\)`), ``},
}

// Words is the text of an error of kong in plain words.
func Words(err error) string {
	text := err.Error()
	for _, k := range kongWords {
		text = k.pattern.ReplaceAllString(text, k.words)
	}
	return strings.TrimSpace(text)
}
