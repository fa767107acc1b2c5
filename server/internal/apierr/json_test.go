package apierr

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// What is wrong with a text is said to people, with its place, and not as the parser says it.
func TestJSONWords(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "JSON, line 1, column 1: the text ends too early",
		`{"inspection":`:                        "JSON: the text ends too early",
		`7`:                                     "JSON, line 1, column 1: found 7, which does not belong there",
		"{\n \"inspection\": nix}":              "JSON, line 2, column 16: found nix, which is no value",
		`{"inspection": 5}`:                     "JSON, line 1, column 16: found 5, which does not belong there",
		`{"colour":"red"}`:                      `JSON, line 1, column 2: there is no field "colour"`,
		`{"frame":{"partId":"a","partId":"b"}}`: `JSON, line 1, column 24: "partId" is given twice`,
		`{"frame":{"partId":3}}`:                `JSON, line 1, column 20: partId = 3: must be a text`,
		`{"frame":{"data":"***"}}`:              `JSON, line 1, column 18: data = "***": must be a text in base64`,
		`{"frame":{"layout":{"width":-1}}}`:     `JSON, line 1, column 29: width = -1: must be a whole number that is not negative`,
		`{"frame":{"layout":{"width":1.5}}}`:    `JSON, line 1, column 29: width = 1.5: must be a whole number that is not negative`,
		`{"frame":{"layout":{"pixelFormat":"GREY"}}}`: `JSON, line 1, column 35: pixelFormat = "GREY": must be one of ` +
			`the names that the schema has for it`,
		`{"inspection":{"recipe":{},"regionSet":{}}}`: `JSON, line 1, column 28: "regionSet" is given beside another of ` +
			`the fields of which one is wanted (regions)`,
		`{"inspection":{"regionSet":{"regions":[{"rings":[{"xy":["a"]}]}]}}}`: `JSON, line 1, column 57: xy = "a": must be ` +
			`a number`,
		`{"frame":{"data":"` + strings.Repeat("!", 3000) + `"}}`: `JSON, line 1, column 18: data = "` +
			strings.Repeat("!", 192) + `...: must be a text in base64`,
	} {
		err := protojson.Unmarshal([]byte(text), &pb.ReduceRequest{})
		if err == nil {
			t.Errorf("%s: no error", text)
		} else if got := JSONWords(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	err := protojson.Unmarshal([]byte(`{"latencyBudget":"soon"}`), &pb.ScanOpen{})
	if want := `JSON, line 1, column 18: "soon": must be seconds, such as "0.005s"`; err == nil || JSONWords(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}
