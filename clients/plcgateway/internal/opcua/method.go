package opcua

import (
	"errors"

	"github.com/gopcua/opcua/ua"
)

// A method is what a Method node does. Its arguments have been checked for their number and types.
type method struct {
	// takes are the built-in types of the arguments, as they come in variants. Null stands for a list of any.
	takes []ua.TypeID
	call  func(s *session, args []*ua.Variant) ([]any, error)
}

func (s *session) call(r *ua.CallRequest) (ua.Response, error) {
	if err := tooMany(len(r.MethodsToCall)); err != nil {
		return nil, err
	}
	resp := &ua.CallResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for _, c := range r.MethodsToCall {
		resp.Results = append(resp.Results, s.callOne(c))
	}
	return resp, nil
}

func (s *session) callOne(c *ua.CallMethodRequest) *ua.CallMethodResult {
	result := &ua.CallMethodResult{InputArgumentResults: []ua.StatusCode{},
		InputArgumentDiagnosticInfos: []*ua.DiagnosticInfo{},
		OutputArguments:              []*ua.Variant{}}
	m, status := s.srv.space.method(keyOf(c.ObjectID), keyOf(c.MethodID))
	if status != ua.StatusOK {
		result.StatusCode = status
		return result
	}
	switch {
	case len(c.InputArguments) < len(m.takes):
		result.StatusCode = ua.StatusBadArgumentsMissing
		return result
	case len(c.InputArguments) > len(m.takes):
		result.StatusCode = ua.StatusBadTooManyArguments
		return result
	}
	for i, want := range m.takes {
		got := ua.StatusOK
		v := c.InputArguments[i]
		list := v.Has(ua.VariantArrayValues)
		// An argument without a value is that of an empty structure, text or list.
		if null := v.Type() == ua.TypeIDNull; !null && (want == ua.TypeIDNull) != list || !null && !list && v.Type() != want {
			got, result.StatusCode = ua.StatusBadTypeMismatch, ua.StatusBadInvalidArgument
		}
		result.InputArgumentResults = append(result.InputArgumentResults, got)
	}
	if result.StatusCode != ua.StatusOK {
		return result
	}
	outs, err := m.call(s, c.InputArguments)
	if err != nil {
		result.StatusCode = ua.StatusBadInternalError
		errors.As(err, &result.StatusCode)
		if result.StatusCode == ua.StatusBadInternalError {
			s.srv.log.Error("opcua: a method failed", "method", c.MethodID.String(), "error", err)
		}
		return result
	}
	for _, o := range outs {
		result.OutputArguments = append(result.OutputArguments, variant(o))
	}
	return result
}

// method returns what an object does when a method is called, by the id of its own or of its type's.
func (s *space) method(object, id nodeID) (*method, ua.StatusCode) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, m := s.nodes[object], s.nodes[id]
	switch {
	case o == nil:
		return nil, ua.StatusBadNodeIDUnknown
	case m == nil || m.class != ua.NodeClassMethod:
		return nil, ua.StatusBadMethodInvalid
	}
	for _, r := range o.refs {
		c := s.nodes[r.target]
		if !r.forward || r.kind != hasComponent || c == nil || c.class != ua.NodeClassMethod {
			continue
		}
		if r.target == id || *c.browseName == *m.browseName && id.ns == machineVision {
			if c.call == nil {
				return nil, ua.StatusBadNotExecutable
			}
			return c.call, ua.StatusOK
		}
	}
	return nil, ua.StatusBadMethodInvalid
}
