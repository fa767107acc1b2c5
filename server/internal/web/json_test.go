package web

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/hostwork"
)

// Numbers that are too long are found wherever they are, and nothing in a string is taken for one.
func TestLongNumber(t *testing.T) {
	ones := strings.Repeat("1", longestNumber)
	for text, want := range map[string]int{
		"": -1, "{}": -1, ones: -1, ones + "1": 0, "[" + ones + "," + ones + "]": -1, `{"x":-` + ones: 5,
		`["` + ones + `1"]`: -1, `["\"` + ones + `1"]`: -1, `["\\",` + ones + `1]`: 6, `["\\\"` + ones + `1`: -1,
		`"`: -1, `["a"` + ones + "e+5": 4, "[1.5e-7, x, " + ones + ".]": 12, `"a` + ones: -1,
	} {
		at, n := longNumber([]byte(text))
		if n == 0 {
			at = -1
		}
		if at != want {
			t.Errorf("%.20s... of %d bytes: at %d, want %d", text, len(text), at, want)
		}
	}
}

// What is wrong with a text is said in a few words, however long the text is.
func TestErrorsOfLongTexts(t *testing.T) {
	h := &Handler{Config: Config{Memory: budget.New(64 << 20), Work: hostwork.New(1)}}
	c := h.strictJSON(protoregistry.GlobalTypes)
	for _, text := range []string{
		`{"window":` + strings.Repeat("1", 5000) + "}",
		`{"` + strings.Repeat("é", 50_000) + `":1}`,
		`{"frame":{"partId":` + strings.Repeat("[", 5000),
	} {
		err := c.Unmarshal([]byte(text), &pb.ReduceRequest{})
		if err == nil || len(err.Error()) > longestError+100 {
			t.Errorf("%.20s...: an error of %d bytes", text, len(err.Error()))
		}
	}
	m := &pb.ReduceRequest{}
	if err := c.Unmarshal([]byte(`{"frame":{"partId":"a"}}`), m); err != nil || m.GetFrame().GetPartId() != "a" {
		t.Errorf("%v, %v", m, err)
	}
}
