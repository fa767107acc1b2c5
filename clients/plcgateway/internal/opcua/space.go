package opcua

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
)

// nodes.json has the types of OPC 40100-1 and those of the base nodeset that they need; tools/uanodeset writes it.
//
//go:embed nodes.json
var table []byte

// A nodeID identifies a node, and can be a map's key. Ids of GUIDs are none here.
type nodeID struct {
	ns   uint16
	num  uint32
	name string
}

func num(ns uint16, n uint32) nodeID        { return nodeID{ns: ns, num: n} }
func str(ns uint16, name string) nodeID     { return nodeID{ns: ns, name: name} }
func (n nodeID) expand() *ua.ExpandedNodeID { return &ua.ExpandedNodeID{NodeID: n.ua()} }
func (n nodeID) isNull() bool               { return n == nodeID{} }

func (n nodeID) ua() *ua.NodeID {
	switch {
	case n.name != "":
		return ua.NewStringNodeID(n.ns, n.name)
	case n.ns == 0 && n.num < 256:
		return ua.NewTwoByteNodeID(uint8(n.num))
	case n.ns < 256 && n.num < 65536:
		return ua.NewFourByteNodeID(uint8(n.ns), uint16(n.num))
	}
	return ua.NewNumericNodeID(n.ns, n.num)
}

// keyOf returns an id as a key; that of a GUID is one that no node has.
func keyOf(n *ua.NodeID) nodeID {
	switch n.Type() {
	case ua.NodeIDTypeTwoByte, ua.NodeIDTypeFourByte, ua.NodeIDTypeNumeric:
		return num(n.Namespace(), n.IntID())
	case ua.NodeIDTypeString:
		return nodeID{ns: n.Namespace(), name: n.StringID()}
	case ua.NodeIDTypeByteString:
		b, _ := base64.StdEncoding.DecodeString(n.StringID())
		return nodeID{ns: n.Namespace(), num: 0xffffffff, name: string(b)}
	}
	return nodeID{ns: 0xffff, name: n.String()}
}

func parseID(s string) nodeID {
	var n nodeID
	if rest, ok := strings.CutPrefix(s, "ns="); ok {
		ns, id, _ := strings.Cut(rest, ";")
		i, _ := strconv.ParseUint(ns, 10, 16)
		n.ns, s = uint16(i), id
	}
	if text, ok := strings.CutPrefix(s, "s="); ok {
		n.name = text
		return n
	}
	i, err := strconv.ParseUint(strings.TrimPrefix(s, "i="), 10, 32)
	if err != nil {
		panic("opcua: " + s + " is no node id") // of the table, which a test reads
	}
	n.num = uint32(i)
	return n
}

// Nodes that code names.
var (
	organizes         = num(0, 35)
	hasModellingRule  = num(0, 37)
	hasEncoding       = num(0, 38)
	hasTypeDefinition = num(0, 40)
	hasSubtype        = num(0, 45)
	hasProperty       = num(0, 46)
	hasComponent      = num(0, 47)
	hasNotifier       = num(0, 48)
	mandatory         = num(0, 78)
	objectsFolder     = num(0, 85)
	serverObject      = num(0, 2253)
	baseEventType     = num(0, 2041)
)

type reference struct {
	kind    nodeID
	target  nodeID
	forward bool
}

// A node does not change after the server has started, but for its value.
type node struct {
	id          nodeID
	class       ua.NodeClass
	browseName  *ua.QualifiedName
	displayName string
	description string
	inverseName string
	abstract    bool
	symmetric   bool
	refs        []reference

	dataType    nodeID
	rank        int32
	dimensions  []uint32
	access      byte // 1 read, 2 write
	definition  *ua.ExtensionObject
	declaration nodeID // of a method of an instance: the type's
	notifier    byte

	// Of variables, under space.mu. read takes the value from elsewhere; write is for those with access 2, and runs
	// without locks of the space.
	value *ua.DataValue
	read  func() *ua.DataValue
	write func(*session, *ua.Variant) ua.StatusCode
	// watchers are the monitored items of the value, and of an event notifier those of events.
	watchers map[*item]struct{}

	call *method
}

// space is the address space. Values change under mu, so that whoever reads several under one lock sees them of one
// moment: there is no torn result.
type space struct {
	namespaces []string

	mu    sync.RWMutex
	nodes map[nodeID]*node
	order []nodeID // as they were added
}

type tableNode struct {
	ID          string `json:"id"`
	Class       string `json:"c"`
	BrowseName  string `json:"b"`
	DisplayName string `json:"n"`
	Description string `json:"x"`
	InverseName string `json:"inv"`
	Abstract    bool   `json:"abs"`
	Symmetric   bool   `json:"sym"`
	DataType    string `json:"dt"`
	ValueRank   *int32 `json:"vr"`
	Dimensions  string `json:"dim"`
	AccessLevel byte   `json:"al"`
	Declaration string `json:"decl"`
	EventSource byte   `json:"ev"`
	Value       *struct {
		Type string   `json:"t"`
		List bool     `json:"l"`
		Text []string `json:"s"`
		Args []struct {
			Name        string `json:"n"`
			DataType    string `json:"d"`
			ValueRank   int32  `json:"r"`
			Description string `json:"x"`
		} `json:"a"`
		Enum []struct {
			Value       int64  `json:"v"`
			Name        string `json:"n"`
			Description string `json:"x"`
		} `json:"e"`
	} `json:"v"`
	Fields []struct {
		Name        string `json:"n"`
		DataType    string `json:"d"`
		ValueRank   int32  `json:"r"`
		Optional    bool   `json:"o"`
		Value       int64  `json:"v"`
		Description string `json:"x"`
	} `json:"f"`
	Union      bool     `json:"u"`
	References []string `json:"r"`
}

var classes = map[string]ua.NodeClass{
	"Object": ua.NodeClassObject, "Variable": ua.NodeClassVariable, "Method": ua.NodeClassMethod,
	"ObjectType": ua.NodeClassObjectType, "VariableType": ua.NodeClassVariableType,
	"ReferenceType": ua.NodeClassReferenceType, "DataType": ua.NodeClassDataType,
}

// newSpace returns the nodes of the table, under the namespaces that ids have.
func newSpace(applicationURI string) (*space, error) {
	s := &space{namespaces: []string{uaNamespace, applicationURI, visionNamespace, ownNamespace},
		nodes: map[nodeID]*node{}}
	var structures []tableNode
	for i, line := range bytes.Split(table, []byte("\n")) {
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		var t tableNode
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("opcua: nodes.json:%d: %w", i+1, err)
		}
		n := &node{id: parseID(t.ID), class: classes[t.Class], browseName: qualified(t.BrowseName),
			displayName: t.DisplayName,
			description: t.Description, inverseName: t.InverseName, abstract: t.Abstract, symmetric: t.Symmetric,
			rank: -1, access: 1, notifier: t.EventSource}
		if n.class == 0 {
			return nil, fmt.Errorf("opcua: nodes.json:%d: class %q", i+1, t.Class)
		}
		if n.displayName == "" {
			n.displayName = n.browseName.Name
		}
		if t.DataType != "" {
			n.dataType = parseID(t.DataType)
		}
		if t.ValueRank != nil {
			n.rank = *t.ValueRank
		}
		if t.Declaration != "" {
			n.declaration = parseID(t.Declaration)
		}
		for d := range strings.FieldsFuncSeq(t.Dimensions, func(r rune) bool { return r == ',' }) {
			v, err := strconv.ParseUint(d, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("opcua: nodes.json:%d: dimension %q", i+1, d)
			}
			n.dimensions = append(n.dimensions, uint32(v))
		}
		if err := n.setTableValue(&t); err != nil {
			return nil, fmt.Errorf("opcua: nodes.json:%d: %w", i+1, err)
		}
		for _, r := range t.References {
			kind, target, _ := strings.Cut(r, " ")
			target, back := strings.CutPrefix(target, "-")
			n.refs = append(n.refs, reference{parseID(kind), parseID(target), !back})
		}
		s.nodes[n.id] = n
		s.order = append(s.order, n.id)
		if n.class == ua.NodeClassDataType {
			structures = append(structures, t)
		}
	}
	// The nodesets have most references at one of their ends only.
	for _, id := range s.order {
		for _, r := range slices.Clone(s.nodes[id].refs) {
			if s.nodes[r.target] != nil {
				s.nodes[r.target].refer(reference{r.kind, id, !r.forward})
			}
		}
	}
	for _, t := range structures {
		s.define(s.nodes[parseID(t.ID)], &t)
	}
	return s, nil
}

func qualified(s string) *ua.QualifiedName {
	ns, name, ok := strings.Cut(s, ":")
	if i, err := strconv.ParseUint(ns, 10, 16); ok && err == nil {
		return &ua.QualifiedName{NamespaceIndex: uint16(i), Name: name}
	}
	return &ua.QualifiedName{Name: s}
}

func (n *node) refer(r reference) {
	if !slices.Contains(n.refs, r) {
		n.refs = append(n.refs, r)
	}
}

func text(s string) *ua.LocalizedText {
	if s == "" {
		return &ua.LocalizedText{}
	}
	return ua.NewLocalizedTextWithLocale(s, "en")
}

func (n *node) setTableValue(t *tableNode) error {
	if t.Value == nil {
		return nil
	}
	var v any
	one := func(s string) (any, error) {
		switch t.Value.Type {
		case "Boolean":
			return s == "true", nil
		case "Byte":
			i, err := strconv.ParseUint(s, 10, 8)
			return byte(i), err
		case "Int32":
			i, err := strconv.ParseInt(s, 10, 32)
			return int32(i), err
		case "UInt32":
			i, err := strconv.ParseUint(s, 10, 32)
			return uint32(i), err
		case "String":
			return s, nil
		case "ByteString":
			return base64.StdEncoding.DecodeString(s)
		case "LocalizedText":
			return ua.NewLocalizedText(s), nil
		case "DateTime":
			return time.Parse(time.RFC3339, s)
		}
		return nil, fmt.Errorf("a value of type %s", t.Value.Type)
	}
	switch {
	case t.Value.Args != nil:
		list := []*ua.ExtensionObject{}
		for _, a := range t.Value.Args {
			list = append(list, ua.NewExtensionObject(&ua.Argument{Name: a.Name, DataType: parseID(a.DataType).ua(),
				ValueRank:       a.ValueRank,
				ArrayDimensions: make([]uint32, max(a.ValueRank, 0)), Description: text(a.Description)}))
		}
		v = list
	case t.Value.Enum != nil:
		list := []*ua.ExtensionObject{}
		for _, e := range t.Value.Enum {
			list = append(list, ua.NewExtensionObject(&ua.EnumValueType{Value: e.Value, DisplayName: text(e.Name),
				Description: text(e.Description)}))
		}
		v = list
	case t.Value.List && t.Value.Type == "LocalizedText":
		list := []*ua.LocalizedText{}
		for _, s := range t.Value.Text {
			list = append(list, ua.NewLocalizedText(s))
		}
		v = list
	case t.Value.List && t.Value.Type == "String":
		v = append([]string{}, t.Value.Text...)
	case t.Value.List && t.Value.Type == "Int32":
		list := []int32{}
		for _, text := range t.Value.Text {
			i, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return err
			}
			list = append(list, int32(i))
		}
		v = list
	case t.Value.List || len(t.Value.Text) != 1:
		return fmt.Errorf("a list of type %s", t.Value.Type)
	default:
		var err error
		if v, err = one(t.Value.Text[0]); err != nil {
			return err
		}
	}
	n.value = dataValue(v)
	return nil
}

// define sets the definition of a data type, which clients decode its values by.
func (s *space) define(n *node, t *tableNode) {
	base := nodeID{}
	enum := false
	for up := n; ; {
		next := up.target(hasSubtype, false)
		if up == n {
			base = next
		}
		if next == num(0, 29) {
			enum = true
		}
		if next.isNull() {
			break
		}
		up = s.nodes[next]
	}
	switch {
	case enum && len(t.Fields) > 0:
		d := &ua.EnumDefinition{}
		for _, f := range t.Fields {
			d.Fields = append(d.Fields, &ua.EnumField{Value: f.Value, Name: f.Name, DisplayName: text(f.Name),
				Description: text(f.Description)})
		}
		n.definition = ua.NewExtensionObject(d)
	case !enum && (len(t.Fields) > 0 || base.ns == machineVision):
		d := &ua.StructureDefinition{BaseDataType: base.ua(), DefaultEncodingID: ua.NewTwoByteNodeID(0),
			Fields: []*ua.StructureField{}}
		if len(t.Fields) == 0 && !slices.ContainsFunc(n.refs, func(r reference) bool { return r.kind == hasEncoding }) {
			return // a plain type under another name
		}
		if t.Union {
			d.StructureType = ua.StructureTypeUnion
		}
		for _, f := range s.fields(n.id, t) {
			if f.IsOptional {
				d.StructureType = ua.StructureTypeStructureWithOptionalFields
			}
			d.Fields = append(d.Fields, f)
		}
		for _, r := range n.refs {
			if r.kind == hasEncoding && r.forward && s.nodes[r.target] != nil &&
				s.nodes[r.target].browseName.Name == "Default Binary" {
				d.DefaultEncodingID = r.target.ua()
			}
		}
		n.definition = ua.NewExtensionObject(d)
	}
}

// fields are those of a structure, after those of the structures that it is a subtype of.
func (s *space) fields(id nodeID, t *tableNode) []*ua.StructureField {
	var list []*ua.StructureField
	if base := s.nodes[s.nodes[id].target(hasSubtype, false)]; base != nil && base.definition != nil {
		if d, ok := base.definition.Value.(*ua.StructureDefinition); ok {
			list = append(list, d.Fields...)
		}
	}
	for _, f := range t.Fields {
		dataType := num(0, 24)
		if f.DataType != "" {
			dataType = parseID(f.DataType)
		}
		rank := f.ValueRank
		if rank == 0 {
			rank = -1
		}
		list = append(list, &ua.StructureField{Name: f.Name, Description: text(f.Description),
			DataType: dataType.ua(), ValueRank: rank,
			ArrayDimensions: make([]uint32, max(rank, 0)), IsOptional: f.Optional})
	}
	return list
}

const machineVision = 2

// target returns the first reference of a kind, or a null id.
func (n *node) target(kind nodeID, forward bool) nodeID {
	for _, r := range n.refs {
		if r.kind == kind && r.forward == forward {
			return r.target
		}
	}
	return nodeID{}
}

// isA says whether a type is another one, or a subtype of it.
func (s *space) isA(id, of nodeID) bool {
	for range 50 {
		if id == of {
			return true
		}
		n := s.nodes[id]
		if n == nil {
			return false
		}
		id = n.target(hasSubtype, false)
	}
	return false
}

// link adds a reference at both of its ends.
func (s *space) link(from nodeID, kind, to nodeID) {
	s.nodes[from].refer(reference{kind, to, true})
	s.nodes[to].refer(reference{kind, from, false})
}

func (s *space) add(n *node) *node {
	if s.nodes[n.id] != nil {
		panic(fmt.Sprintf("opcua: node %v is there twice", n.id))
	}
	if n.displayName == "" {
		n.displayName = n.browseName.Name
	}
	s.nodes[n.id] = n
	s.order = append(s.order, n.id)
	return n
}

// object adds an object under a parent.
func (s *space) object(id nodeID, parent nodeID, kind nodeID, name string, typ nodeID) *node {
	n := s.add(&node{id: id, class: ua.NodeClassObject, browseName: qualified(name), rank: -1})
	s.link(parent, kind, id)
	s.link(id, hasTypeDefinition, typ)
	return n
}

// variable adds a variable under a parent.
func (s *space) variable(id nodeID, parent nodeID, name string, dataType nodeID, v any, description string) *node {
	n := s.add(&node{id: id, class: ua.NodeClassVariable, browseName: qualified(name), dataType: dataType, rank: -1,
		access:      1,
		description: description, value: dataValue(v)})
	s.link(parent, hasComponent, id)
	s.link(id, hasTypeDefinition, num(0, 63))
	return n
}

// instantiate makes an object of a type: a copy of each component and property that the type, and those it is a subtype
// of, declare as mandatory, and of the optional ones whose path optional names. It returns the object.
func (s *space) instantiate(id, parent, kind nodeID, name string, typ nodeID, optional map[string]bool) *node {
	n := s.object(id, parent, kind, name, typ)
	s.declare(n, typ, "", optional)
	return n
}

// declare copies to n what a declaration has. path is that of n from the object that is made.
func (s *space) declare(n *node, from nodeID, path string, optional map[string]bool) {
	for up := from; !up.isNull(); up = s.nodes[up].target(hasSubtype, false) {
		for _, r := range slices.Clone(s.nodes[up].refs) {
			if !r.forward || r.kind != hasComponent && r.kind != hasProperty {
				continue
			}
			d := s.nodes[r.target]
			rule := nodeID{}
			if d != nil {
				rule = d.target(hasModellingRule, true)
			}
			p := strings.TrimPrefix(path+"."+d.browseName.Name, ".")
			if rule != mandatory && !optional[p] || rule.isNull() {
				continue
			}
			if slices.ContainsFunc(n.refs, func(o reference) bool {
				return o.forward && (o.kind == hasComponent || o.kind == hasProperty) &&
					*s.nodes[o.target].browseName == *d.browseName
			}) {
				continue // of the instance declaration, which comes before the type's
			}
			c := *d
			c.id, c.refs, c.watchers = str(n.id.ns, n.id.name+"/"+d.browseName.Name), nil, nil
			if c.class == ua.NodeClassMethod {
				c.declaration = d.id
			}
			s.add(&c)
			s.link(n.id, r.kind, c.id)
			if t := d.target(hasTypeDefinition, true); !t.isNull() {
				s.link(c.id, hasTypeDefinition, t)
				s.declare(&c, d.id, p, optional)
				s.declare(&c, t, p, optional)
			} else {
				s.declare(&c, d.id, p, optional)
			}
		}
		if s.nodes[up].class != ua.NodeClassObjectType && s.nodes[up].class != ua.NodeClassVariableType {
			return
		}
	}
}

// at returns a component by the path of browse names from a node of this server's own namespace.
func (s *space) at(n *node, path string) *node {
	c := s.nodes[str(n.id.ns, n.id.name+"/"+strings.ReplaceAll(path, ".", "/"))]
	if c == nil {
		panic(fmt.Sprintf("opcua: %s has no %s", n.id.name, path))
	}
	return c
}

func variant(v any) *ua.Variant {
	if v == nil {
		return &ua.Variant{}
	}
	return ua.MustVariant(v)
}

func dataValue(v any) *ua.DataValue {
	now := time.Now()
	return &ua.DataValue{EncodingMask: ua.DataValueValue | ua.DataValueSourceTimestamp | ua.DataValueServerTimestamp,
		Value: variant(v), SourceTimestamp: now, ServerTimestamp: now}
}

func badValue(status ua.StatusCode) *ua.DataValue {
	return &ua.DataValue{EncodingMask: ua.DataValueStatusCode | ua.DataValueServerTimestamp, Value: &ua.Variant{},
		Status: status, ServerTimestamp: time.Now()}
}

// set changes the values of variables, all at one moment, and tells who watches them. A nil value leaves a variable
// without one.
func (s *space) set(values map[*node]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, v := range values {
		d := dataValue(v)
		if v == nil {
			d.EncodingMask |= ua.DataValueStatusCode
			d.Status = ua.StatusBadWaitingForInitialData
		}
		same := n.value != nil && equal(n.value.Value, d.Value)
		n.value = d
		if same {
			continue
		}
		for w := range n.watchers {
			w.push(d)
		}
	}
}

func equal(a, b *ua.Variant) bool {
	x, errX := a.Encode()
	y, errY := b.Encode()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// refresh tells who watches variables that are read from elsewhere.
func (s *space) refresh(ids ...nodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		n := s.nodes[id]
		if len(n.watchers) == 0 {
			continue
		}
		d := n.current()
		for w := range n.watchers {
			w.push(d)
		}
	}
}

// current is a variable's value; space.mu is held.
func (n *node) current() *ua.DataValue {
	switch {
	case n.read != nil:
		return n.read()
	case n.value != nil:
		return n.value
	}
	return badValue(ua.StatusBadWaitingForInitialData)
}
