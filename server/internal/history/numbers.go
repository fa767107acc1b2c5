// Numbers of a part's regions as a blob, and back, bit for bit.
//
// Most of what a region's result says is the same for part after part: its name and limits, and where it lies. That is
// its definition, which the table regions has once. Mean, variance and deviation follow from the sums. What remains is
// a row for each region: the definition's id as the difference to the one before, flags, and the message's length and
// bytes.

package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/exact"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Flags of a row: what is left out of its message.
const (
	sameCount   = 1 << iota // the pixels are as many as in the definition
	sameShape               // area, coverage, bounds and centroid are those of the definition, in mm, too
	channelSame             // the channels' counts are that of the region
	meanFollows
	varianceFollows
	deviationFollows
)

// definitionOf is what defines a region: the message with which its rows are compared.
func definitionOf(r *pb.RegionResult) *pb.RegionResult {
	d := &pb.RegionResult{
		Index: r.GetIndex(), Name: r.GetName(), Count: r.GetCount(), Area: r.GetArea(), Coverage: r.Coverage,
		Bounds: r.GetBounds(), Centroid: r.GetCentroid(),
		AreaMm2: r.AreaMm2, CountMm2: r.CountMm2, BoundsMm: r.GetBoundsMm(), CentroidMm: r.GetCentroidMm(),
	}
	for _, l := range r.GetLimits() {
		d.Limits = append(d.Limits, &pb.LimitResult{Expression: l.GetExpression()})
	}
	return d
}

// defines says that a definition has the names and limits of a result.
func defines(d, r *pb.RegionResult) bool {
	if d.GetIndex() != r.GetIndex() || d.GetName() != r.GetName() || len(d.GetLimits()) != len(r.GetLimits()) {
		return false
	}
	for i, l := range d.GetLimits() {
		if l.GetExpression() != r.GetLimits()[i].GetExpression() {
			return false
		}
	}
	return true
}

func sameBits(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Float64bits(*a) == math.Float64bits(*b)
}

// appendRow appends the row of a region, whose message it empties.
func appendRow(to []byte, id, before int64, d, r *pb.RegionResult) ([]byte, error) {
	flags := uint64(0)
	count := r.GetCount()
	if count == d.GetCount() && sameBits(r.CountMm2, d.CountMm2) {
		flags |= sameCount
	}
	if math.Float64bits(r.GetArea()) == math.Float64bits(d.GetArea()) && sameBits(r.Coverage, d.Coverage) &&
		proto.Equal(r.GetBounds(), d.GetBounds()) && proto.Equal(r.GetCentroid(), d.GetCentroid()) &&
		sameBits(r.AreaMm2, d.AreaMm2) && proto.Equal(r.GetBoundsMm(), d.GetBoundsMm()) &&
		proto.Equal(r.GetCentroidMm(), d.GetCentroidMm()) {
		flags |= sameShape
	}
	all := uint64(channelSame | meanFollows | varianceFollows | deviationFollows)
	if len(r.GetChannels()) == 0 || count == 0 {
		all = 0
	}
	for _, c := range r.GetChannels() {
		if c.Count == nil || c.GetCount() != count {
			all &^= channelSame
		}
		if c.Sum == nil || c.Mean == nil || count == 0 || !sameBits(c.Mean, new(exact.Quotient(0, c.GetSum(), count))) {
			all &^= meanFollows
		}
		if c.Sum == nil || c.SumOfSquares == nil || count == 0 {
			all &^= varianceFollows | deviationFollows
			continue
		}
		v, root := exact.Variance(count, c.GetSum(), c.GetSumOfSquares())
		if c.Variance == nil || !sameBits(c.Variance, &v) {
			all &^= varianceFollows
		}
		if c.Stddev == nil || !sameBits(c.Stddev, &root) {
			all &^= deviationFollows
		}
	}
	flags |= all
	r.Index, r.Name = 0, ""
	for _, l := range r.GetLimits() {
		l.Expression = ""
	}
	if flags&sameCount != 0 {
		r.Count, r.CountMm2 = 0, nil
	}
	if flags&sameShape != 0 {
		r.Area, r.Coverage, r.Bounds, r.Centroid = 0, nil, nil, nil
		r.AreaMm2, r.BoundsMm, r.CentroidMm = nil, nil, nil
	}
	for _, c := range r.GetChannels() {
		if flags&channelSame != 0 {
			c.Count = nil
		}
		if flags&meanFollows != 0 {
			c.Mean = nil
		}
		if flags&varianceFollows != 0 {
			c.Variance = nil
		}
		if flags&deviationFollows != 0 {
			c.Stddev = nil
		}
	}
	to = binary.AppendVarint(to, id-before)
	to = binary.AppendUvarint(to, flags)
	to = binary.AppendUvarint(to, uint64(proto.Size(r)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(to, r)
}

// errDamaged is of a blob that this package can't have written.
var errDamaged = errors.New("history: the numbers of a part are damaged")

// eachRow calls visit for the rows of a blob, with the message's bytes, until it returns false.
func eachRow(data []byte, visit func(id int64, flags uint64, message []byte) (bool, error)) error {
	id := int64(0)
	for len(data) > 0 {
		delta, n := binary.Varint(data)
		if n <= 0 {
			return errDamaged
		}
		flags, m := binary.Uvarint(data[n:])
		if m <= 0 {
			return errDamaged
		}
		data = data[n+m:]
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return errDamaged
		}
		id += delta
		more, err := visit(id, flags, data[n:][:size])
		if err != nil || !more {
			return err
		}
		data = data[n+int(size):]
	}
	return nil
}

// restore makes a result of a row's message and its definition.
func restore(d *pb.RegionResult, flags uint64, message []byte) (*pb.RegionResult, error) {
	r := &pb.RegionResult{}
	if err := proto.Unmarshal(message, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(r.GetLimits()) != len(d.GetLimits()) {
		return nil, errDamaged
	}
	r.Index, r.Name = d.GetIndex(), d.GetName()
	for i, l := range r.GetLimits() {
		l.Expression = d.GetLimits()[i].GetExpression()
	}
	if flags&sameCount != 0 {
		r.Count, r.CountMm2 = d.GetCount(), d.CountMm2
	}
	if flags&sameShape != 0 {
		r.Area, r.Coverage, r.Bounds, r.Centroid = d.GetArea(), d.Coverage, d.GetBounds(), d.GetCentroid()
		r.AreaMm2, r.BoundsMm, r.CentroidMm = d.AreaMm2, d.GetBoundsMm(), d.GetCentroidMm()
	}
	count := r.GetCount()
	if count == 0 && flags&(meanFollows|varianceFollows|deviationFollows) != 0 {
		return nil, errDamaged
	}
	for _, c := range r.GetChannels() {
		if flags&channelSame != 0 {
			c.Count = &count
		}
		if flags&meanFollows != 0 {
			c.Mean = new(exact.Quotient(0, c.GetSum(), count))
		}
		if flags&(varianceFollows|deviationFollows) != 0 {
			v, root := exact.Variance(count, c.GetSum(), c.GetSumOfSquares())
			if flags&varianceFollows != 0 {
				c.Variance = &v
			}
			if flags&deviationFollows != 0 {
				c.Stddev = &root
			}
		}
	}
	return r, nil
}
