package framestream

import (
	"testing"
	"time"

	"github.com/polyscan/polyscan/kernels/cpu"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/servertest"
)

// strange panics when it is told of an answer.
type strange struct{}

func (strange) Answered(uint64, *pb.Frame, Answer, time.Duration) { panic("on purpose") }

// A panic in what others see of an answer ends nothing: it is counted.
func TestTellPanics(t *testing.T) {
	h := servertest.NewHost(t, cpu.Driver)
	fs := &call{host: h, ctx: t.Context()}
	fs.tell(strange{}, 0, &pb.Frame{}, Answer{}, 0)
	if n := h.Panics(); n != 1 {
		t.Errorf("%d panics", n)
	}
}
