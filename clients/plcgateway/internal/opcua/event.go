package opcua

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/gopcua/opcua/ua"
)

// An event is one that happened: its fields by their paths, such as "0:Message" or "2:ResultId".
type event struct {
	typ    nodeID
	fields map[string]*ua.Variant
}

// newEvent returns an event with the fields that every event has.
func newEvent(typ, source nodeID, name, message string, severity uint16) *event {
	id := make([]byte, 16)
	rand.Read(id)
	now := time.Now()
	return &event{typ, map[string]*ua.Variant{
		"0:EventId": variant(id), "0:EventType": variant(typ.ua()), "0:SourceNode": variant(source.ua()),
		"0:SourceName": variant(name),
		"0:Time":       variant(now), "0:ReceiveTime": variant(now), "0:Message": variant(text(message)),
		"0:Severity": variant(severity),
	}}
}

func (e *event) set(path string, v any) { e.fields[path] = variant(v) }

// overflowEvent stands where events were lost, so that a client knows.
func overflowEvent() *event {
	return newEvent(num(0, 3035), serverObject, "Server", "events were lost: the client reads too slowly", 500)
}

const (
	maxClauses  = 100
	maxElements = 50
)

// An eventFilter is what a client wants of events, and which of them.
type eventFilter struct {
	selects []string // paths; "" is a null field
	where   []*ua.ContentFilterElement
}

func pathOf(o *ua.SimpleAttributeOperand) string {
	var b strings.Builder
	for i, q := range o.BrowsePath {
		if i > 0 {
			b.WriteByte('/')
		}
		fmt.Fprintf(&b, "%d:%s", q.NamespaceIndex, q.Name)
	}
	return b.String()
}

// newFilter checks a filter; mu is held.
func (s *space) newFilter(f *ua.EventFilter) (*eventFilter, *ua.EventFilterResult, ua.StatusCode) {
	r := &ua.EventFilterResult{SelectClauseDiagnosticInfos: []*ua.DiagnosticInfo{},
		WhereClauseResult: &ua.ContentFilterResult{ElementResults: []*ua.ContentFilterElementResult{},
			ElementDiagnosticInfos: []*ua.DiagnosticInfo{}}}
	out := &eventFilter{}
	switch {
	case len(f.SelectClauses) == 0 || len(f.SelectClauses) > maxClauses:
		return nil, r, ua.StatusBadEventFilterInvalid
	case len(f.WhereClause.Elements) > maxElements:
		return nil, r, ua.StatusBadEventFilterInvalid
	}
	for _, c := range f.SelectClauses {
		status := ua.StatusOK
		path := ""
		t := s.nodes[keyOf(c.TypeDefinitionID)]
		switch {
		case t == nil && !keyOf(c.TypeDefinitionID).isNull():
			status = ua.StatusBadTypeDefinitionInvalid
		case c.IndexRange != "":
			status = ua.StatusBadIndexRangeInvalid
		case c.AttributeID == ua.AttributeIDValue && len(c.BrowsePath) > 0 && len(c.BrowsePath) <= maxDepth:
			path = pathOf(c)
		case c.AttributeID == ua.AttributeIDNodeID && len(c.BrowsePath) == 0: // a condition's id; no event here has one
		default:
			status = ua.StatusBadAttributeIDInvalid
		}
		r.SelectClauseResults = append(r.SelectClauseResults, status)
		out.selects = append(out.selects, path)
	}
	good := true
	for i, e := range f.WhereClause.Elements {
		one := &ua.ContentFilterElementResult{OperandStatusCodes: []ua.StatusCode{},
			OperandDiagnosticInfos: []*ua.DiagnosticInfo{}}
		least, most := 2, 2
		switch e.FilterOperator {
		case ua.FilterOperatorAnd, ua.FilterOperatorOr, ua.FilterOperatorEquals, ua.FilterOperatorGreaterThan,
			ua.FilterOperatorLessThan,
			ua.FilterOperatorGreaterThanOrEqual, ua.FilterOperatorLessThanOrEqual:
		case ua.FilterOperatorNot, ua.FilterOperatorIsNull, ua.FilterOperatorOfType:
			least, most = 1, 1
		case ua.FilterOperatorInList:
			most = maxElements
		default:
			one.StatusCode = ua.StatusBadFilterOperatorUnsupported
		}
		if one.StatusCode == ua.StatusOK && (len(e.FilterOperands) < least || len(e.FilterOperands) > most) {
			one.StatusCode = ua.StatusBadFilterOperandCountMismatch
		}
		for _, o := range e.FilterOperands {
			status := ua.StatusOK
			switch v := o.Value.(type) {
			case *ua.LiteralOperand:
			case *ua.SimpleAttributeOperand:
				if v.AttributeID != ua.AttributeIDValue || len(v.BrowsePath) == 0 || len(v.BrowsePath) > maxDepth {
					status = ua.StatusBadFilterOperandInvalid
				}
			case *ua.ElementOperand: // later ones alone, so that there is no circle
				if int64(v.Index) <= int64(i) || int64(v.Index) >= int64(len(f.WhereClause.Elements)) {
					status = ua.StatusBadFilterOperandInvalid
				}
			default:
				status = ua.StatusBadFilterOperandInvalid
			}
			if status != ua.StatusOK && one.StatusCode == ua.StatusOK {
				one.StatusCode = status
			}
			one.OperandStatusCodes = append(one.OperandStatusCodes, status)
		}
		good = good && one.StatusCode == ua.StatusOK
		r.WhereClauseResult.ElementResults = append(r.WhereClauseResult.ElementResults, one)
	}
	if !good {
		return nil, r, ua.StatusBadEventFilterInvalid
	}
	out.where = f.WhereClause.Elements
	return out, r, ua.StatusOK
}

func (f *eventFilter) fields(e *event) []*ua.Variant {
	list := make([]*ua.Variant, len(f.selects))
	for i, path := range f.selects {
		if list[i] = e.fields[path]; list[i] == nil {
			list[i] = &ua.Variant{}
		}
	}
	return list
}

// passes says whether the where clause lets an event through. What can't be compared does not pass.
func (f *eventFilter) passes(s *space, e *event) bool {
	if len(f.where) == 0 {
		return true
	}
	known := make([]*ua.Variant, len(f.where)) // each element once, however many others name it
	for i := len(f.where) - 1; i >= 0; i-- {
		known[i] = variant(evaluate(s, f.where[i], e, known))
	}
	return known[0].Bool()
}

func evaluate(s *space, el *ua.ContentFilterElement, e *event, known []*ua.Variant) bool {
	value := func(i int) *ua.Variant {
		var v *ua.Variant
		switch o := el.FilterOperands[i].Value.(type) {
		case *ua.LiteralOperand:
			v = o.Value
		case *ua.SimpleAttributeOperand:
			v = e.fields[pathOf(o)]
		case *ua.ElementOperand:
			v = known[o.Index]
		}
		if v == nil {
			v = &ua.Variant{}
		}
		return v
	}
	truth := func(i int) bool { b, _ := value(i).Value().(bool); return b }
	order := func(i, j int) (int, bool) { return compare(value(i), value(j)) }
	switch el.FilterOperator {
	case ua.FilterOperatorAnd:
		return truth(0) && truth(1)
	case ua.FilterOperatorOr:
		return truth(0) || truth(1)
	case ua.FilterOperatorNot:
		return !truth(0)
	case ua.FilterOperatorIsNull:
		return value(0).Type() == ua.TypeIDNull
	case ua.FilterOperatorOfType:
		switch id := value(0).Value().(type) {
		case *ua.NodeID:
			return s.isA(e.typ, keyOf(id))
		case *ua.ExpandedNodeID:
			return s.isA(e.typ, keyOf(id.NodeID))
		}
		return false
	case ua.FilterOperatorInList:
		for i := 1; i < len(el.FilterOperands); i++ {
			if c, ok := order(0, i); ok && c == 0 {
				return true
			}
		}
		return false
	}
	c, ok := order(0, 1)
	if !ok {
		return false
	}
	switch el.FilterOperator {
	case ua.FilterOperatorEquals:
		return c == 0
	case ua.FilterOperatorGreaterThan:
		return c > 0
	case ua.FilterOperatorLessThan:
		return c < 0
	case ua.FilterOperatorGreaterThanOrEqual:
		return c >= 0
	}
	return c <= 0
}

// compare orders numbers, texts and times; ids and truths are equal or not. Others can't be compared.
func compare(a, b *ua.Variant) (int, bool) {
	switch x := a.Value().(type) {
	case bool:
		y, ok := b.Value().(bool)
		return unequal(x == y), ok
	case *ua.NodeID:
		y, ok := b.Value().(*ua.NodeID)
		return unequal(ok && keyOf(x) == keyOf(y)), ok
	case time.Time:
		y, ok := b.Value().(time.Time)
		return x.Compare(y), ok
	}
	if x, ok := textOf(a.Value()); ok {
		y, ok := textOf(b.Value())
		return cmp.Compare(x, y), ok
	}
	x, ok := numberOf(a.Value())
	if !ok {
		return 0, false
	}
	y, ok := numberOf(b.Value())
	return cmp.Compare(x, y), ok
}

func unequal(same bool) int {
	if same {
		return 0
	}
	return 1
}

func textOf(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case *ua.LocalizedText:
		return x.Text, true
	}
	return "", false
}

func numberOf(v any) (float64, bool) {
	switch x := v.(type) {
	case int8:
		return float64(x), true
	case uint8:
		return float64(x), true
	case int16:
		return float64(x), true
	case uint16:
		return float64(x), true
	case int32:
		return float64(x), true
	case uint32:
		return float64(x), true
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float32:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}
