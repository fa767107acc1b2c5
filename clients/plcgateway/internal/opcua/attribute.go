package opcua

import (
	"github.com/gopcua/opcua/ua"
)

func (s *session) read(r *ua.ReadRequest) (ua.Response, error) {
	if err := tooMany(len(r.NodesToRead)); err != nil {
		return nil, err
	}
	if r.MaxAge < 0 {
		return nil, ua.StatusBadMaxAgeInvalid
	}
	if r.TimestampsToReturn > ua.TimestampsToReturnNeither {
		return nil, ua.StatusBadTimestampsToReturnInvalid
	}
	resp := &ua.ReadResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	sp := s.srv.space
	sp.mu.RLock() // all of it of one moment
	defer sp.mu.RUnlock()
	for _, v := range r.NodesToRead {
		d := sp.attribute(v)
		if v.AttributeID == ua.AttributeIDValue {
			d = stamped(d, r.TimestampsToReturn)
		}
		resp.Results = append(resp.Results, d)
	}
	return resp, nil
}

// stamped returns a value with the timestamps that were asked for.
func stamped(d *ua.DataValue, which ua.TimestampsToReturn) *ua.DataValue {
	c := *d
	if which == ua.TimestampsToReturnNeither || which == ua.TimestampsToReturnServer {
		c.EncodingMask &^= ua.DataValueSourceTimestamp
	}
	if which == ua.TimestampsToReturnNeither || which == ua.TimestampsToReturnSource {
		c.EncodingMask &^= ua.DataValueServerTimestamp
	}
	return &c
}

// attribute returns one; mu is held.
func (s *space) attribute(v *ua.ReadValueID) *ua.DataValue {
	n := s.nodes[keyOf(v.NodeID)]
	if n == nil {
		return badValue(ua.StatusBadNodeIDUnknown)
	}
	if v.IndexRange != "" {
		return badValue(ua.StatusBadIndexRangeNoData) // no value here is read in parts
	}
	if v.AttributeID == ua.AttributeIDValue && n.class == ua.NodeClassVariable {
		if v.DataEncoding.Name != "" && v.DataEncoding.Name != "Default Binary" {
			return badValue(ua.StatusBadDataEncodingUnsupported)
		}
		return n.current()
	}
	if v.DataEncoding.Name != "" {
		return badValue(ua.StatusBadDataEncodingInvalid)
	}
	a := n.plain(v.AttributeID)
	if a == nil {
		return badValue(ua.StatusBadAttributeIDInvalid)
	}
	return &ua.DataValue{EncodingMask: ua.DataValueValue, Value: variant(a)}
}

// plain returns an attribute that is no variable's value, or nil where the node has none of that id.
func (n *node) plain(a ua.AttributeID) any {
	variable := n.class == ua.NodeClassVariable
	typed := variable || n.class == ua.NodeClassVariableType
	switch a {
	case ua.AttributeIDNodeID:
		return n.id.ua()
	case ua.AttributeIDNodeClass:
		return int32(n.class)
	case ua.AttributeIDBrowseName:
		return n.browseName
	case ua.AttributeIDDisplayName:
		return text(n.displayName)
	case ua.AttributeIDDescription:
		return text(n.description)
	case ua.AttributeIDWriteMask, ua.AttributeIDUserWriteMask:
		return uint32(0)
	case ua.AttributeIDIsAbstract:
		if n.class&(ua.NodeClassObjectType|ua.NodeClassVariableType|ua.NodeClassReferenceType|ua.NodeClassDataType) != 0 {
			return n.abstract
		}
	case ua.AttributeIDSymmetric:
		if n.class == ua.NodeClassReferenceType {
			return n.symmetric
		}
	case ua.AttributeIDInverseName:
		if n.class == ua.NodeClassReferenceType && !n.symmetric {
			return text(n.inverseName)
		}
	case ua.AttributeIDEventNotifier:
		if n.class == ua.NodeClassObject {
			return n.notifier
		}
	case ua.AttributeIDValue:
		if n.class == ua.NodeClassVariableType && n.value != nil {
			return n.value.Value.Value()
		}
	case ua.AttributeIDDataType:
		if typed {
			return n.dataType.ua()
		}
	case ua.AttributeIDValueRank:
		if typed {
			return n.rank
		}
	case ua.AttributeIDArrayDimensions:
		if typed && n.rank > 0 {
			return append([]uint32{}, n.dimensions...)
		}
	case ua.AttributeIDAccessLevel, ua.AttributeIDUserAccessLevel:
		if variable {
			return n.access
		}
	case ua.AttributeIDMinimumSamplingInterval:
		if variable {
			return float64(0)
		}
	case ua.AttributeIDHistorizing:
		if variable {
			return false
		}
	case ua.AttributeIDExecutable, ua.AttributeIDUserExecutable:
		if n.class == ua.NodeClassMethod {
			return n.call != nil
		}
	case ua.AttributeIDDataTypeDefinition:
		if n.class == ua.NodeClassDataType && n.definition != nil {
			return n.definition
		}
	}
	return nil
}

func (s *session) write(r *ua.WriteRequest) (ua.Response, error) {
	if err := tooMany(len(r.NodesToWrite)); err != nil {
		return nil, err
	}
	resp := &ua.WriteResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	sp := s.srv.space
	for _, w := range r.NodesToWrite {
		sp.mu.RLock()
		n := sp.nodes[keyOf(w.NodeID)]
		sp.mu.RUnlock()
		var status ua.StatusCode
		switch {
		case n == nil:
			status = ua.StatusBadNodeIDUnknown
		case w.AttributeID != ua.AttributeIDValue || n.class != ua.NodeClassVariable || n.write == nil:
			status = ua.StatusBadNotWritable
		case w.IndexRange != "":
			status = ua.StatusBadIndexRangeNoData
		case w.Value.EncodingMask&^(ua.DataValueValue|ua.DataValueSourceTimestamp|ua.DataValueServerTimestamp) != 0 &&
			w.Value.Status != ua.StatusOK:
			status = ua.StatusBadWriteNotSupported
		default:
			status = n.write(s, w.Value.Value)
		}
		resp.Results = append(resp.Results, status)
	}
	return resp, nil
}
