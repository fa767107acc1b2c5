// Command uanodeset writes the table of OPC UA nodes that plcgateway serves its types from.
//
//	uanodeset NODESETS OUT
//
// NODESETS is a folder with the OPC Foundation's Opc.Ua.NodeSet2.xml and Opc.Ua.MachineVision.NodeSet2.xml, as the npm
// package node-opcua-nodesets has them. OUT gets one node a line, as JSON, in the order of the nodesets. Of OPC 40100-1
// every node is taken; of the base nodeset those that OPC 40100-1 and a server's own objects need, because the whole of
// it is ten times as much, and clients know it.
package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: uanodeset NODESETS OUT")
		os.Exit(2)
	}
	out, err := generate(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], out, 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "uanodeset:", err)
		os.Exit(1)
	}
}

// header begins the table. Its lines are none of the table's.
const header = `# Nodes of the OPC Foundation's nodesets Opc.Ua.NodeSet2.xml and Opc.Ua.MachineVision.NodeSet2.xml, one a line, as
# tools/uanodeset makes them of the files of npm's node-opcua-nodesets. Do not edit.
#
# Copyright (c) 2005-2026 The OPC Foundation, Inc. All rights reserved.
#
# OPC Foundation MIT License 1.00
#
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
# documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
# rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
# persons to whom the Software is furnished to do so, subject to the following conditions:
#
# The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
# Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED
# TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS
# OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
# OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
#
# The complete license agreement can be found here: http://opcfoundation.org/License/MIT/1.00/
`

// machineVision is the namespace index that the table gives to OPC 40100-1. The server's namespace array has it there.
const machineVision = 2

// A Node is one line of the table. Node ids and browse names carry the table's namespace indexes.
type Node struct {
	ID           string   `json:"id"`
	Class        string   `json:"c"`
	BrowseName   string   `json:"b"`
	DisplayName  string   `json:"n,omitempty"` // where it isn't the browse name's
	Description  string   `json:"x,omitempty"`
	InverseName  string   `json:"inv,omitempty"`
	Abstract     bool     `json:"abs,omitempty"`
	Symmetric    bool     `json:"sym,omitempty"`
	DataType     string   `json:"dt,omitempty"`
	ValueRank    *int     `json:"vr,omitempty"` // where it isn't -1
	Dimensions   string   `json:"dim,omitempty"`
	AccessLevel  int      `json:"al,omitempty"` // where it isn't 1
	Declaration  string   `json:"decl,omitempty"`
	EventSource  int      `json:"ev,omitempty"`
	Value        *Value   `json:"v,omitempty"`
	Fields       []Field  `json:"f,omitempty"` // of a DataType
	IsUnion      bool     `json:"u,omitempty"`
	IsOptionSet  bool     `json:"o,omitempty"`
	References   []string `json:"r,omitempty"` // "TYPE TARGET" forward, "TYPE -TARGET" inverse
	references   []reference
	definedTypes []string
}

type reference struct {
	kind, target string
	forward      bool
}

// A Value is a variable's. Scalars stand as text, byte strings in base64.
type Value struct {
	Type string     `json:"t"`
	List bool       `json:"l,omitempty"`
	Text []string   `json:"s,omitempty"`
	Args []Argument `json:"a,omitempty"`
	Enum []Enum     `json:"e,omitempty"`
}

type Argument struct {
	Name        string `json:"n"`
	DataType    string `json:"d"`
	ValueRank   int    `json:"r"`
	Description string `json:"x,omitempty"`
}

type Enum struct {
	Value       int64  `json:"v"`
	Name        string `json:"n"`
	Description string `json:"x,omitempty"`
}

// A Field is one of a structure, or a value of an enumeration.
type Field struct {
	Name        string `json:"n"`
	DataType    string `json:"d,omitempty"`
	ValueRank   int    `json:"r,omitempty"` // 0 stands for -1, a scalar
	Optional    bool   `json:"o,omitempty"`
	Value       int64  `json:"v,omitempty"`
	Description string `json:"x,omitempty"`
}

type xmlSet struct {
	NamespaceURIs []string `xml:"NamespaceUris>Uri"`
	Aliases       []struct {
		Alias string `xml:",attr"`
		ID    string `xml:",chardata"`
	} `xml:"Aliases>Alias"`
	Nodes []xmlNode `xml:",any"`
}

type xmlNode struct {
	XMLName       xml.Name
	NodeID        string `xml:"NodeId,attr"`
	BrowseName    string `xml:",attr"`
	IsAbstract    bool   `xml:",attr"`
	Symmetric     bool   `xml:",attr"`
	DataType      string `xml:",attr"`
	ValueRank     string `xml:",attr"`
	Dimensions    string `xml:"ArrayDimensions,attr"`
	AccessLevel   int    `xml:",attr"`
	Declaration   string `xml:"MethodDeclarationId,attr"`
	EventNotifier int    `xml:",attr"`
	DisplayName   string
	Description   string
	InverseName   string
	References    []struct {
		Kind      string `xml:"ReferenceType,attr"`
		IsForward string `xml:",attr"`
		Target    string `xml:",chardata"`
	} `xml:"References>Reference"`
	Definition *struct {
		IsUnion     bool `xml:",attr"`
		IsOptionSet bool `xml:",attr"`
		Fields      []struct {
			Name        string `xml:",attr"`
			DataType    string `xml:",attr"`
			ValueRank   int    `xml:",attr"`
			IsOptional  bool   `xml:",attr"`
			Value       int64  `xml:",attr"`
			Description string
		} `xml:"Field"`
	}
	Value *struct {
		Inner xmlValue `xml:",any"`
	}
}

type xmlValue struct {
	XMLName xml.Name
	Text    string     `xml:",chardata"`
	Kids    []xmlValue `xml:",any"`
}

// kid returns the first child of that name, or an empty one.
func (v xmlValue) kid(name string) xmlValue {
	for _, k := range v.Kids {
		if k.XMLName.Local == name {
			return k
		}
	}
	return xmlValue{}
}

func (v xmlValue) text() string { return strings.TrimSpace(v.Text) }

func generate(folder string) ([]byte, error) {
	base, err := read(filepath.Join(folder, "Opc.Ua.NodeSet2.xml"), 0)
	if err != nil {
		return nil, err
	}
	vision, err := read(filepath.Join(folder, "Opc.Ua.MachineVision.NodeSet2.xml"), machineVision)
	if err != nil {
		return nil, err
	}
	taken, err := needed(base, vision)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(header)
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, n := range append(base, vision...) {
		if !taken[n.ID] {
			continue
		}
		for _, r := range n.references {
			if !taken[r.target] || !taken[r.kind] {
				continue
			}
			sign := ""
			if !r.forward {
				sign = "-"
			}
			n.References = append(n.References, r.kind+" "+sign+r.target)
		}
		if err := enc.Encode(n); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// The references along which one node needs another: forward for what a type or an instance is made of, in both
// directions never.
var (
	makes = []string{"i=47", "i=46", "i=49", "i=38", "i=37", "i=40", "i=39", "i=51", "i=52", "i=53", "i=54", "i=41",
		"i=117"}
	// Nodes that a server has whatever its types: the folders, and of the Server object what is served.
	roots = []int{3035, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 3048, 11715}
	// Of these only the components that are named here are taken.
	server = []int{2253, 2254, 2255, 2256, 2257, 2258, 2259, 2260, 2261, 2262, 2263, 2264, 2265, 2266, 2992, 2993, 2267,
		2994, 2268, 2269, 2271, 2272, 2735, 2736, 2737, 3704, 2996, 2997, 2274, 2294, 2295, 2296, 3709,
		11704, 11705, 11707, 11709, 11710, 11711, 11712, 11714, 11702, 11703}
)

// needed returns the ids of the nodes of the table.
func needed(base, vision []*Node) (map[string]bool, error) {
	all := map[string]*Node{}
	for _, n := range slices.Concat(base, vision) {
		if all[n.ID] != nil {
			return nil, fmt.Errorf("node %s is there twice", n.ID)
		}
		all[n.ID] = n
	}
	taken, closed := map[string]bool{}, map[string]bool{}
	var queue []string
	take := func(id string) {
		if id != "" && !taken[id] && all[id] != nil {
			taken[id] = true
			queue = append(queue, id)
		}
	}
	for _, i := range slices.Concat(roots, server) {
		closed[fmt.Sprintf("i=%d", i)] = true
		take(fmt.Sprintf("i=%d", i))
	}
	for _, n := range vision {
		take(n.ID)
	}
	for _, n := range base { // every built-in data type, so that a client finds the names of all
		if n.Class == "DataType" && len(n.ID) <= 4 {
			take(n.ID)
		}
	}
	for len(queue) > 0 {
		n := all[queue[0]]
		queue = queue[1:]
		take(n.DataType)
		for _, t := range n.definedTypes {
			take(t)
		}
		for _, r := range n.references {
			switch {
			case r.kind == "i=45" && !r.forward, r.kind == "i=40" && r.forward:
				take(r.target)
			case strings.HasPrefix(n.ID, "ns="):
				take(r.target) // whatever OPC 40100-1 names
			case r.forward && !closed[n.ID] && slices.Contains(makes, r.kind):
				take(r.target)
			}
			if taken[r.target] || strings.HasPrefix(n.ID, "ns=") {
				take(r.kind)
			}
		}
	}
	return taken, nil
}

var nodeID = regexp.MustCompile(`^(?:ns=(\d+);)?([isgb]=.+)$`)

// read returns the nodes of a nodeset; what it calls namespace 1 has index ns in the table.
func read(file string, ns int) ([]*Node, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var set xmlSet
	if err := xml.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(set.NamespaceURIs) > 1 {
		return nil, fmt.Errorf("%s: %d namespaces, at most one is known", file, len(set.NamespaceURIs))
	}
	alias := map[string]string{}
	for _, a := range set.Aliases {
		alias[a.Alias] = strings.TrimSpace(a.ID)
	}
	var errs []error
	id := func(s string) string {
		s = strings.TrimSpace(s)
		if a := alias[s]; a != "" {
			s = a
		}
		if s == "" {
			return ""
		}
		m := nodeID.FindStringSubmatch(s)
		if m == nil {
			errs = append(errs, fmt.Errorf("%s: %q is no node id", file, s))
			return ""
		}
		if m[1] == "" {
			return m[2]
		}
		return fmt.Sprintf("ns=%d;%s", ns, m[2])
	}
	var nodes []*Node
	for _, x := range set.Nodes {
		if x.NodeID == "" || !strings.HasPrefix(x.XMLName.Local, "UA") {
			continue
		}
		n := &Node{
			ID: id(x.NodeID), Class: strings.TrimPrefix(x.XMLName.Local, "UA"), Description: strings.TrimSpace(x.Description),
			InverseName: strings.TrimSpace(x.InverseName), Abstract: x.IsAbstract, Symmetric: x.Symmetric,
			Dimensions:  x.Dimensions,
			AccessLevel: x.AccessLevel, Declaration: id(x.Declaration), EventSource: x.EventNotifier,
		}
		name, plain := x.BrowseName, x.BrowseName
		if i, rest, ok := strings.Cut(x.BrowseName, ":"); ok && i == "1" {
			name, plain = fmt.Sprintf("%d:%s", ns, rest), rest
		}
		n.BrowseName = name
		if d := strings.TrimSpace(x.DisplayName); d != plain {
			n.DisplayName = d
		}
		switch n.Class {
		case "Variable", "VariableType":
			n.DataType = id(x.DataType)
			if n.DataType == "" {
				n.DataType = "i=24" // the schema's default: any
			}
			if x.ValueRank != "" && x.ValueRank != "-1" {
				rank, err := strconv.Atoi(x.ValueRank)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: ValueRank: %w", file, x.NodeID, err)
				}
				n.ValueRank = &rank
			}
		}
		if n.AccessLevel == 1 {
			n.AccessLevel = 0
		}
		for _, r := range x.References {
			n.references = append(n.references, reference{id(r.Kind), id(r.Target), r.IsForward != "false"})
		}
		if d := x.Definition; d != nil {
			n.IsUnion, n.IsOptionSet = d.IsUnion, d.IsOptionSet
			for _, f := range d.Fields {
				g := Field{Name: f.Name, ValueRank: f.ValueRank, Optional: f.IsOptional, Value: f.Value,
					Description: strings.TrimSpace(f.Description), DataType: id(f.DataType)}
				if g.ValueRank == -1 {
					g.ValueRank = 0
				}
				n.definedTypes = append(n.definedTypes, g.DataType)
				n.Fields = append(n.Fields, g)
			}
		}
		if x.Value != nil {
			if n.Value, err = valueOf(x.Value.Inner, id); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, x.NodeID, err)
			}
			if n.Value != nil {
				for _, a := range n.Value.Args {
					n.definedTypes = append(n.definedTypes, a.DataType)
				}
			}
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		errs = append(errs, fmt.Errorf("%s: no nodes", file))
	}
	return nodes, errors.Join(errs...)
}

var scalars = map[string]bool{"Boolean": true, "Byte": true, "Int32": true, "UInt16": true, "UInt32": true,
	"Int64":  true,
	"UInt64": true, "Double": true, "String": true, "DateTime": true, "ByteString": true}

// valueOf returns nil for the values of structures that nothing here needs.
func valueOf(x xmlValue, id func(string) string) (*Value, error) {
	name, list := strings.CutPrefix(x.XMLName.Local, "ListOf")
	v := &Value{Type: name, List: list}
	items := []xmlValue{x}
	if list {
		items = x.Kids
	}
	for _, item := range items {
		switch {
		case scalars[name]:
			text := item.text()
			if name == "ByteString" {
				text = strings.Join(strings.Fields(text), "")
			}
			v.Text = append(v.Text, text)
		case name == "LocalizedText":
			v.Text = append(v.Text, item.kid("Text").text())
		case name == "ExtensionObject":
			body := item.kid("Body")
			if len(body.Kids) != 1 {
				return nil, fmt.Errorf("an extension object with %d bodies", len(body.Kids))
			}
			s := body.Kids[0]
			v.Type = s.XMLName.Local
			switch v.Type {
			case "Argument":
				rank, err := strconv.Atoi(s.kid("ValueRank").text())
				if err != nil {
					return nil, fmt.Errorf("argument %s: ValueRank: %w", s.kid("Name").text(), err)
				}
				v.Args = append(v.Args, Argument{Name: s.kid("Name").text(),
					DataType:  id(s.kid("DataType").kid("Identifier").text()),
					ValueRank: rank, Description: s.kid("Description").kid("Text").text()})
			case "EnumValueType":
				number, err := strconv.ParseInt(s.kid("Value").text(), 10, 64)
				if err != nil {
					return nil, fmt.Errorf("EnumValueType: %w", err)
				}
				v.Enum = append(v.Enum, Enum{Value: number, Name: s.kid("DisplayName").kid("Text").text(),
					Description: s.kid("Description").kid("Text").text()})
			default:
				return nil, nil
			}
		default:
			known := slices.Sorted(maps.Keys(scalars))
			return nil, fmt.Errorf("a value of type %s; known are %s", name, strings.Join(known, ", "))
		}
	}
	return v, nil
}
