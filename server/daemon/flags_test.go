package daemon

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{
		"0": 0, "1": 1, "1b": 1, "2KiB": 2048, "2 kib": 2048, "1.5MiB": 3 << 19, "3g": 3 << 30, "2GB": 2_000_000_000,
		"1TiB": 1 << 40,
	} {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q = %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1XB", "MiB", "NaN", "Inf", "1e30", "1 2"} {
		var b byteSize
		if err := b.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q = %d, %v, want an error that names it", text, b, err)
		}
	}
}

func TestUserIDs(t *testing.T) {
	for text, want := range map[string][]uint32{
		"": nil, "0": {0}, "1000": {1000}, "1000,1001": {1000, 1001}, "7, 8": {7, 8}, "4294967295": {1<<32 - 1},
	} {
		var u userIDs
		if err := u.UnmarshalText([]byte(text)); err != nil || !slices.Equal(u.list, want) {
			t.Errorf("%q = %v, %v, want %v", text, u.list, err, want)
		}
		written, err := u.MarshalText()
		if err != nil || string(written) != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%q is written as %q, %v", text, written, err)
		}
	}
	for _, text := range []string{"x", "-1", "4294967296", "1,", "1 2", "root"} {
		var u userIDs
		if err := u.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q = %v, want an error", text, u.list)
		}
	}
}

// Each setting of the server can be given, but for those that are not for users: a flag each, all of them unlike the
// default.
func TestEveryConfigFieldIsSet(t *testing.T) {
	var f Flags
	fill(reflect.ValueOf(&f).Elem())
	f.ShmAllowUID = userIDs{list: []uint32{1}}
	f.Reflection, f.Channelz, f.FrameCopies = false, false, false
	cfg := reflect.ValueOf(f.config(slog.New(slog.DiscardHandler)))
	program := []string{"Driver", "Registerer", "Version", "SharedMemoryListener"}
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch at := name + field.Name; {
			case !field.IsExported() || slices.Contains(program, at):
			case field.Type.Kind() == reflect.Struct:
				check(at+".", v.Field(i))
			case v.Field(i).IsZero():
				t.Errorf("no flag sets Config.%s", at)
			}
		}
	}
	check("", cfg)
}

// fill sets the fields of a struct to something.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		}
	}
}
