package command

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/digits"
)

// Errors of kong that tell of its own doings, and what they mean to people. The flag's name comes before.
var kongWords = []struct {
	pattern *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`expected \S+ value but got "(-[^"]*[ <>()*;&|][^"]*)" \((?:short|long) flag\); ` +
		`perhaps try (--?[^= ]+)=.*$`),
		`"$1" looks like a flag: write $2='$1'`}, // or shells would take it apart
	{regexp.MustCompile(`expected \S+ value but got "(-[^"]*)" \((?:short|long) flag\); perhaps try (--?[^= ]+)=.*$`),
		`"$1" looks like a flag: write $2=$1`},
	{regexp.MustCompile(`expected \S+ value but got "EOL" .*$`), `its value is missing`},
	{regexp.MustCompile(`bool value must be true, .* but got ("[^"]*")$`), `$1 is neither true nor false`},
	{regexp.MustCompile(`must be one of "",`), `must be one of `},
	{regexp.MustCompile(`expected duration but got ("[^"]*"): .*$`), `$1 is no time: want one such as 30s or 1m30s`},
	{regexp.MustCompile(`^expected "(<[^"]*>)(?:[^"]*)"$`), `$1 is missing`},
	{regexp.MustCompile(` \((?:short|long) flag(?: tail)?\)`), ``},
}

// Words is the text of an error of kong in plain words.
func Words(err error) string {
	text, from, variable := strings.Cut(err.Error(), " (from envar ")
	for _, k := range kongWords {
		text = k.pattern.ReplaceAllString(text, k.words)
	}
	if text = strings.TrimSpace(text); variable {
		text += " (from the variable " + from
	}
	return text
}

// PlainNumbers has kong read numbers in plain digits wherever they come from, as package digits has it. By itself it
// takes those of Go's sources: 010 for 8, and 0x1F or 1_000.
var PlainNumbers = kong.OptionFunc(func(k *kong.Kong) error {
	if err := kong.KindMapper(reflect.Float64, kong.MapperFunc(number)).Apply(k); err != nil {
		return err
	}
	for kind := reflect.Int; kind <= reflect.Uint64; kind++ {
		if err := kong.KindMapper(kind, kong.MapperFunc(wholeNumber)).Apply(k); err != nil {
			return err
		}
	}
	return nil
})

func number(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("float", &text); err != nil {
		return err
	}
	v, err := digits.Float(strings.TrimSpace(text)) // of a list, such as 5, 95
	target.SetFloat(v)
	return err
}

func wholeNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("int", &text); err != nil {
		return err
	}
	bits, from := target.Type().Bits(), ""
	var err error
	if target.CanInt() {
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		target.SetInt(n)
	} else {
		var n uint64
		n, err = strconv.ParseUint(text, 10, bits)
		target.SetUint(n)
		from = " from 0"
	}
	switch {
	case errors.Is(err, strconv.ErrRange) && target.CanInt():
		return fmt.Errorf("%s: must be %d to %d", text, int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s: must be 0 to %d", text, uint64(1)<<bits-1)
	case err != nil || !digits.Whole(text):
		return fmt.Errorf("%q is no whole number%s, in plain digits", text, from)
	}
	return nil
}
