package kernels

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestFingerprintChecks(t *testing.T) {
	fake := &fakeDriver{}
	d := openFake(t, fake, Config{MemoryBytes: 1 << 20})
	const most = 1<<61 - 3
	tests := []struct {
		field, says string // of the error; "": none
		spoil       func(op *driver.Fingerprint)
	}{
		{"", "", func(*driver.Fingerprint) {}},
		{"", "", func(op *driver.Fingerprint) { op.Src = driver.Slice{} }},
		{"", "", func(op *driver.Fingerprint) { op.Src.Len = 0 }},
		{"", "", func(op *driver.Fingerprint) { op.Src.Len = 1 }},
		{"", "", func(op *driver.Fingerprint) { op.Src.Off += driver.Align; op.Src.Len -= driver.Align }},
		{"", "", func(op *driver.Fingerprint) { op.Keys = [2]uint64{2, most} }},
		{"Keys[0]", "2 to 2305843009213693949", func(op *driver.Fingerprint) { op.Keys[0] = 1 }},
		{"Keys[1]", "2 to 2305843009213693949", func(op *driver.Fingerprint) { op.Keys[1] = 0 }},
		{"Keys[1]", "2 to 2305843009213693949", func(op *driver.Fingerprint) { op.Keys[1] = most + 1 }},
		{"Keys[0]", "2 to 2305843009213693949", func(op *driver.Fingerprint) { op.Keys[0] = 1<<64 - 1 }},
		{"Src.Off", "multiple of 256", func(op *driver.Fingerprint) { op.Src.Off += 4; op.Src.Len -= 4 }},
		{"Src.Mem", "not memory", func(op *driver.Fingerprint) { op.Src.Mem = nil }},
		{"Src", "not inside", func(op *driver.Fingerprint) { op.Src.Len = 1<<20 + 1 }},
		{"Src", "not inside", func(op *driver.Fingerprint) { op.Src.Len = -1 }},
		{"Dst", "16", func(op *driver.Fingerprint) { op.Dst.Len = 15 }},
		{"Dst", "16", func(op *driver.Fingerprint) { op.Dst = driver.Slice{} }},
		{"Dst.Off", "multiple of 256", func(op *driver.Fingerprint) { op.Dst.Off += 16 }},
		{"Dst.Mem", "not memory", func(op *driver.Fingerprint) { op.Dst.Mem = nil }},
		{"Dst", "overlaps Src", func(op *driver.Fingerprint) { op.Dst.Off = op.Src.Off }},
		{"Dst", "overlaps Src", func(op *driver.Fingerprint) { op.Dst.Off = op.Src.Off + 768 }},
	}
	for i, x := range tests {
		ops := fake.ops
		var got error
		err := d.Do(context.Background(), Job{Label: "test", Footprint: 64 << 10}, func(q *Queue) error {
			src, err := Alloc[byte](q, 1000, "src")
			if err != nil {
				return err
			}
			dst, err := Alloc[uint64](q, 2, "dst")
			if err != nil {
				return err
			}
			op := driver.Fingerprint{Src: src.Slice(), Keys: [2]uint64{12345, 1 << 60}, Dst: dst.Slice()}
			x.spoil(&op)
			got = q.Run(&op)
			return nil
		})
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		var arg *ArgError
		switch {
		case x.field == "" && (got != nil || fake.ops != ops+1):
			t.Errorf("%d: %v, and %d ops reached the stream", i, got, fake.ops-ops)
		case x.field != "" && (!errors.As(got, &arg) || arg.Field != x.field || !strings.Contains(got.Error(), x.says)):
			t.Errorf("%d: %v, want an error about %s that says %q", i, got, x.field, x.says)
		case x.field != "" && fake.ops != ops:
			t.Errorf("%d: an op that was refused reached the stream", i)
		}
	}
}
