package opcua

import (
	"crypto/rand"
	"math"

	"github.com/gopcua/opcua/ua"
)

func tooMany(n int) error {
	switch {
	case n == 0:
		return ua.StatusBadNothingToDo
	case n > maxNodes:
		return ua.StatusBadTooManyOperations
	}
	return nil
}

func (s *session) browse(r *ua.BrowseRequest) (ua.Response, error) {
	if err := tooMany(len(r.NodesToBrowse)); err != nil {
		return nil, err
	}
	if !keyOf(r.View.ViewID).isNull() {
		return nil, ua.StatusBadViewIDUnknown
	}
	most := int(min(r.RequestedMaxReferencesPerNode, math.MaxInt32))
	if most == 0 || most > maxNodes {
		most = maxNodes
	}
	resp := &ua.BrowseResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for _, d := range r.NodesToBrowse {
		refs, status := s.srv.space.browse(d)
		resp.Results = append(resp.Results, s.page(refs, status, most))
	}
	return resp, nil
}

// page returns the first references, and keeps the rest for BrowseNext.
func (s *session) page(refs []*ua.ReferenceDescription, status ua.StatusCode, most int) *ua.BrowseResult {
	if refs == nil {
		refs = []*ua.ReferenceDescription{}
	}
	if len(refs) <= most {
		return &ua.BrowseResult{StatusCode: status, References: refs}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.continuations) >= maxContinuations {
		return &ua.BrowseResult{StatusCode: ua.StatusBadNoContinuationPoints, References: []*ua.ReferenceDescription{}}
	}
	point := make([]byte, 8, 9)
	rand.Read(point)
	s.continuations[string(point)] = refs[most:]
	return &ua.BrowseResult{StatusCode: status, References: refs[:most], ContinuationPoint: point}
}

func (s *session) browseNext(r *ua.BrowseNextRequest) (ua.Response, error) {
	if err := tooMany(len(r.ContinuationPoints)); err != nil {
		return nil, err
	}
	resp := &ua.BrowseNextResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for _, p := range r.ContinuationPoints {
		s.mu.Lock()
		refs, ok := s.continuations[string(p)]
		delete(s.continuations, string(p))
		s.mu.Unlock()
		switch {
		case !ok:
			resp.Results = append(resp.Results, &ua.BrowseResult{StatusCode: ua.StatusBadContinuationPointInvalid,
				References: []*ua.ReferenceDescription{}})
		case r.ReleaseContinuationPoints:
			resp.Results = append(resp.Results, &ua.BrowseResult{References: []*ua.ReferenceDescription{}})
		default:
			resp.Results = append(resp.Results, s.page(refs, ua.StatusOK, maxNodes))
		}
	}
	return resp, nil
}

// follows says whether a reference is of a kind that was asked for; a null id asks for all.
func (s *space) follows(kind, asked nodeID, subtypes bool) bool {
	return asked.isNull() || kind == asked || subtypes && s.isA(kind, asked)
}

func (s *space) browse(d *ua.BrowseDescription) ([]*ua.ReferenceDescription, ua.StatusCode) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.nodes[keyOf(d.NodeID)]
	asked := keyOf(d.ReferenceTypeID)
	switch {
	case n == nil:
		return nil, ua.StatusBadNodeIDUnknown
	case d.BrowseDirection > ua.BrowseDirectionBoth:
		return nil, ua.StatusBadBrowseDirectionInvalid
	case !asked.isNull() && (s.nodes[asked] == nil || s.nodes[asked].class != ua.NodeClassReferenceType):
		return nil, ua.StatusBadReferenceTypeIDInvalid
	}
	var list []*ua.ReferenceDescription
	for _, r := range n.refs {
		if r.forward && d.BrowseDirection == ua.BrowseDirectionInverse || !r.forward &&
			d.BrowseDirection == ua.BrowseDirectionForward {
			continue
		}
		t := s.nodes[r.target]
		if t == nil || !s.follows(r.kind, asked, d.IncludeSubtypes) || d.NodeClassMask != 0 &&
			d.NodeClassMask&uint32(t.class) == 0 {
			continue
		}
		o := &ua.ReferenceDescription{NodeID: t.id.expand(), ReferenceTypeID: ua.NewTwoByteNodeID(0),
			BrowseName:  &ua.QualifiedName{},
			DisplayName: &ua.LocalizedText{}, TypeDefinition: nodeID{}.expand()}
		if d.ResultMask&1 != 0 {
			o.ReferenceTypeID = r.kind.ua()
		}
		if d.ResultMask&2 != 0 {
			o.IsForward = r.forward
		}
		if d.ResultMask&4 != 0 {
			o.NodeClass = t.class
		}
		if d.ResultMask&8 != 0 {
			o.BrowseName = t.browseName
		}
		if d.ResultMask&16 != 0 {
			o.DisplayName = text(t.displayName)
		}
		if d.ResultMask&32 != 0 && (t.class == ua.NodeClassObject || t.class == ua.NodeClassVariable) {
			o.TypeDefinition = t.target(hasTypeDefinition, true).expand()
		}
		list = append(list, o)
	}
	return list, ua.StatusOK
}

func (s *session) translate(r *ua.TranslateBrowsePathsToNodeIDsRequest) (ua.Response, error) {
	if err := tooMany(len(r.BrowsePaths)); err != nil {
		return nil, err
	}
	resp := &ua.TranslateBrowsePathsToNodeIDsResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for _, p := range r.BrowsePaths {
		targets, status := s.srv.space.follow(p)
		result := &ua.BrowsePathResult{StatusCode: status, Targets: []*ua.BrowsePathTarget{}}
		for _, t := range targets {
			result.Targets = append(result.Targets, &ua.BrowsePathTarget{TargetID: t.expand(),
				RemainingPathIndex: math.MaxUint32})
		}
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

func (s *space) follow(p *ua.BrowsePath) ([]nodeID, ua.StatusCode) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := []nodeID{keyOf(p.StartingNode)}
	switch {
	case s.nodes[at[0]] == nil:
		return nil, ua.StatusBadNodeIDUnknown
	case len(p.RelativePath.Elements) == 0:
		return nil, ua.StatusBadNothingToDo
	case len(p.RelativePath.Elements) > maxDepth:
		return nil, ua.StatusBadTooManyOperations
	}
	for _, e := range p.RelativePath.Elements {
		var next []nodeID
		seen := map[nodeID]bool{}
		for _, id := range at {
			for _, r := range s.nodes[id].refs {
				t := s.nodes[r.target]
				if t == nil || r.forward == e.IsInverse || seen[r.target] || *t.browseName != *e.TargetName ||
					!s.follows(r.kind, keyOf(e.ReferenceTypeID), e.IncludeSubtypes) {
					continue
				}
				seen[r.target] = true
				next = append(next, r.target)
			}
		}
		if at = next; len(at) == 0 {
			return nil, ua.StatusBadNoMatch
		}
	}
	return at, ua.StatusOK
}

func (s *session) registerNodes(r *ua.RegisterNodesRequest) (ua.Response, error) {
	if err := tooMany(len(r.NodesToRegister)); err != nil {
		return nil, err
	}
	return &ua.RegisterNodesResponse{RegisteredNodeIDs: r.NodesToRegister}, nil
}

func (s *session) unregisterNodes(r *ua.UnregisterNodesRequest) (ua.Response, error) {
	if err := tooMany(len(r.NodesToUnregister)); err != nil {
		return nil, err
	}
	return &ua.UnregisterNodesResponse{}, nil
}
