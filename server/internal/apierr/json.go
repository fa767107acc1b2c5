package apierr

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// JSONWords is an error of protojson in words for people who wrote the text: where it is, and what is wrong there.
func JSONWords(err error) string {
	m := jsonError.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	place, text := "JSON", m[3]
	if m[1] != "" {
		place = fmt.Sprintf("JSON, line %s, column %s", m[1], m[2])
	}
	for _, w := range jsonWords {
		if found := w.says.FindStringSubmatch(text); found != nil {
			text = w.says.ReplaceAllString(text, w.words)
			if w.kind > 0 {
				const most = 200 // bytes: pixels that are no base64 would hide what a field takes
				if len(text) > most {
					text = strings.ToValidUTF8(text[:most], "") + "...: must be "
				}
				text += cmp.Or(jsonKinds[found[w.kind]], "of the type "+found[w.kind])
			}
			break
		}
	}
	return place + ": " + strings.TrimSpace(text)
}

// jsonError takes an error of protojson apart. Behind the name is a space that doesn't break in some builds.
var jsonError = regexp.MustCompile(`(?s)^proto:[\s\x{a0}]*(?:syntax error )?(?:\(line (\d+):(\d+)\): )?(.*)$`)

// jsonWords are words for what protojson says. Those with a kind of field, of which kind is the group, end in what such
// fields take.
var jsonWords = []struct {
	says  *regexp.Regexp
	words string
	kind  int
}{
	{regexp.MustCompile(`^unexpected token +$`), "the text ends too early", 0},
	{regexp.MustCompile(`^unexpected EOF$`), "the text ends too early", 0},
	{regexp.MustCompile(`(?s)^unexpected token (.*)$`), "found $1, which does not belong there", 0},
	{regexp.MustCompile(`(?s)^unknown field (.*)$`), "there is no field $1", 0},
	{regexp.MustCompile(`(?s)^duplicate (?:field|map key) (.*)$`), "$1 is given twice", 0},
	{regexp.MustCompile(`(?s)^error parsing (.*), oneof (?:.*\.)?(\w+) is already set$`),
		"$1 is given beside another of the fields of which one is wanted ($2)", 0},
	{regexp.MustCompile(`(?s)^invalid value for (\w+) field (\w+): (.*)$`), "$2 = $3: must be ", 1},
	{regexp.MustCompile(`(?s)^invalid value for (\w+) key: (.*)$`), "the key $2 must be ", 1},
	{regexp.MustCompile(`(?s)^invalid google\.protobuf\.(\w+) value (.*)$`), "$2: must be ", 1},
	{regexp.MustCompile(`(?s)^google\.protobuf\.\w+ value out of range: (.*)$`), "$1 is out of range", 0},
	{regexp.MustCompile(`(?s)^invalid value (.*)$`), "found $1, which is no value", 0},
	{regexp.MustCompile(`^exceeded max recursion depth$`), "values are nested too deep", 0},
	{regexp.MustCompile(`^field (\S+) contains invalid UTF-8$`), "the field $1 is no UTF-8", 0},
}

// jsonKinds are what fields take, by the names that protojson has for their types.
var jsonKinds = map[string]string{
	"bool": "true or false", "string": "a text", "bytes": "a text in base64", "float": "a number", "double": "a number",
	"int32": "a whole number", "sint32": "a whole number", "int64": "a whole number", "sint64": "a whole number",
	"uint32": "a whole number that is not negative", "uint64": "a whole number that is not negative",
	"enum":      "one of the names that the schema has for it",
	"Duration":  `seconds, such as "0.005s"`,
	"Timestamp": `a time, such as "2026-01-31T12:00:00Z"`,
}
