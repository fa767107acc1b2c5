// posedCache: the sets that regions were moved to last.

package inspect

import (
	"context"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Bounds of what is kept of moved sets on the host, of all sets together.
const (
	posedBytes = 64 << 20
	posedSets  = 256
)

// posedCache keeps of each set that meets more frames the one that it was moved to last, because a part in a fixture
// has the same pose again and again, and one on a belt never. A set that comes a second time is worth preparing.
type posedCache struct {
	cache *kernels.Cache[*polygon.Set, *posed]
}

// posed is a moved set.
type posed struct {
	pose    polygon.Pose
	found   bool // in a frame: nobody looked whether its limits can fail there
	set     *polygon.Set
	bytes   int64
	service *Service
}

func (p *posed) Bytes() int64 { return p.bytes }
func (p *posed) Gone() bool   { return false }

// Drop is called with the cache locked.
func (p *posed) Drop() {
	p.service.Prepared.drop(p.set)
	p.service.Memory.Count(budget.RegionSets, -p.bytes)
}

func newPosedCache() posedCache {
	return posedCache{kernels.NewCache[*polygon.Set, *posed](posedBytes, posedSets)}
}

// forget lets go of what a set was moved to.
func (c *posedCache) forget(set *polygon.Set) {
	c.cache.Remove(func(key *polygon.Set) bool { return key == set })
}

// posed is an inspection of a part with a pose: that of the request, or one that was found.
func (s *Service) posed(ctx context.Context, what *wire.Inspection, pose polygon.Pose, at place) (*wire.Inspection,
	error) {
	out, found := *what, at.pose == nil
	if what.Keep {
		if last, ok := s.moved.cache.Get(what.Set); ok && last.pose == pose && last.found == found {
			out.Set = last.set
			return &out, nil
		}
	}
	err := s.Frames.Work.Do(ctx, what.MoveWork(), wire.SmallSet, func(pause func() error) (err error) {
		out.Set, err = what.Moved(ctx, pose, at.path, found, s.Bounds, pause)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.Keep = false; what.Keep {
		p := &posed{pose, found, out.Set, out.Set.Bytes(), s}
		s.Memory.Count(budget.RegionSets, p.bytes)
		s.moved.forget(what.Set)
		if !s.moved.cache.Put(what.Set, p) { // another frame was faster
			p.Drop()
		}
	}
	return &out, nil
}
