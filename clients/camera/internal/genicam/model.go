// Package genicam reads and writes a camera's features by their names, as the camera's own description says (GenICam's
// GenApi: an XML file that maps features to registers, by way of formulas).
//
// A description comes from a camera, which may be hostile: its size, depth, number of nodes and what one access to a
// feature computes are bounded; it may have no DOCTYPE and so no entities; nodes that lead back to themselves are an
// error of the access that meets them.
//
// What is not here: ports other than the camera's registers, events, and descriptions in several files. A kind of node
// that isn't known is an error once a feature needs it.
package genicam

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of a description.
const (
	MaxBytes  = 16 << 20 // of the XML
	maxNodes  = 200_000  // elements
	maxDepth  = 32
	maxText   = 1 << 16 // of an element
	maxPath   = 1 << 10 // of a feature's category
	maxCommon = 64      // elements that the entries of a StructReg have in common
)

// node is an element of the description.
type node struct {
	kind     string
	name     string // the Name attribute
	attrs    map[string]string
	text     string
	children []*node
}

// child is the first child of a kind, or nil.
func (n *node) child(kinds ...string) *node {
	for _, c := range n.children {
		if slices.Contains(kinds, c.kind) {
			return c
		}
	}
	return nil
}

// value is the text of the first child of a kind, or "".
func (n *node) value(kind string) string {
	if c := n.child(kind); c != nil {
		return c.text
	}
	return ""
}

// Model is a description that was read.
type Model struct {
	nodes map[string]*node
	Name  string // of the camera's model
}

// Parse reads a description: XML, or a zip file with one XML in it.
func Parse(data []byte) (*Model, error) {
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		var err error
		if data, err = unzip(data); err != nil {
			return nil, fmt.Errorf("genicam: %w", err)
		}
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("genicam: description of %d bytes: at most %d", len(data), MaxBytes)
	}
	root, err := parse(bytes.TrimRight(data, "\x00"))
	if err != nil {
		return nil, fmt.Errorf("genicam: %w", err)
	}
	if root.kind != "RegisterDescription" {
		return nil, fmt.Errorf("genicam: the description is a <%s>, not a <RegisterDescription>", root.kind)
	}
	m := &Model{nodes: map[string]*node{}, Name: root.attrs["ModelName"]}
	m.index(root)
	return m, nil
}

func unzip(data []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		if !strings.HasSuffix(strings.ToLower(f.Name), ".xml") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		out, err := io.ReadAll(io.LimitReader(r, MaxBytes+1)) // whatever the file says of its size
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	return nil, errors.New("the zip file holds no XML file")
}

func parse(data []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	var stack []*node
	var texts [][]byte // of those
	var root *node
	nodes := 0
	for {
		t, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.Directive:
			return nil, errors.New("a DOCTYPE: descriptions have none")
		case xml.StartElement:
			if nodes++; nodes > maxNodes {
				return nil, fmt.Errorf("more than %d elements", maxNodes)
			}
			if len(stack) == maxDepth {
				return nil, fmt.Errorf("elements deeper than %d", maxDepth)
			}
			n := &node{kind: t.Name.Local}
			for _, a := range t.Attr {
				if a.Name.Local == "Name" {
					n.name = a.Value
				}
				if n.attrs == nil {
					n.attrs = map[string]string{}
				}
				n.attrs[a.Name.Local] = a.Value
			}
			switch {
			case len(stack) > 0:
				top := stack[len(stack)-1]
				top.children = append(top.children, n)
			case root != nil:
				return nil, errors.New("more than one root")
			default:
				root = n
			}
			stack, texts = append(stack, n), append(texts, nil)
		case xml.EndElement:
			if len(stack) == 0 || stack[len(stack)-1].kind != t.Name.Local {
				return nil, fmt.Errorf("</%s> ends nothing", t.Name.Local)
			}
			last := len(stack) - 1
			stack[last].text = string(bytes.TrimSpace(texts[last]))
			stack, texts = stack[:last], texts[:last]
		case xml.CharData:
			if last := len(stack) - 1; last >= 0 {
				if texts[last] = append(texts[last], t...); len(texts[last]) > maxText {
					return nil, fmt.Errorf("text of more than %d bytes in <%s>", maxText, stack[last].kind)
				}
			}
		}
	}
	if root == nil || len(stack) > 0 {
		return nil, errors.New("the XML ends early")
	}
	return root, nil
}

// index finds the nodes with names. Groups hold others; entries of a StructReg take what they lack from it.
func (m *Model) index(n *node) {
	for _, c := range n.children {
		switch c.kind {
		case "Group":
			m.index(c)
			continue
		case "StructReg":
			var common []*node
			for _, e := range c.children {
				if e.kind != "StructEntry" && len(common) < maxCommon {
					common = append(common, e)
				}
			}
			for _, e := range c.children {
				if e.kind == "StructEntry" && e.name != "" {
					whole := &node{kind: "MaskedIntReg", name: e.name, children: slices.Concat(e.children, common)}
					m.nodes[e.name] = whole
				}
			}
		}
		if c.name != "" {
			if _, ok := m.nodes[c.name]; !ok {
				m.nodes[c.name] = c
			}
		}
	}
}

// Feature is one that a camera has.
type Feature struct {
	Name     string
	Category string // a path, such as Root/AcquisitionControl
	Kind     string // Integer, Float, String, Boolean, Enumeration or Command
	Tip      string
}

var kinds = map[string]string{
	"Integer": "Integer", "IntReg": "Integer", "MaskedIntReg": "Integer", "IntSwissKnife": "Integer",
	"IntConverter": "Integer", "Float": "Float", "FloatReg": "Float", "SwissKnife": "Float", "Converter": "Float",
	"StringReg": "String", "String": "String", "Boolean": "Boolean", "Enumeration": "Enumeration", "Command": "Command",
}

// Features are those of the category Root and below, in its order, each once.
func (m *Model) Features() []Feature {
	var out []Feature
	seen := map[string]bool{}
	var walk func(name, path string, depth int)
	walk = func(name, path string, depth int) {
		n := m.nodes[name]
		if n == nil || seen[name] || depth > maxDepth {
			return
		}
		seen[name] = true
		if n.kind != "Category" {
			if kind := kinds[n.kind]; kind != "" {
				tip := n.value("ToolTip")
				if tip == "" {
					tip = n.value("Description")
				}
				out = append(out, Feature{name, strings.TrimPrefix(path, "Root/"), kind, tip})
			}
			return
		}
		next := name
		if path != "" && path != "Root" {
			next = path + "/" + name
		}
		next = next[:min(len(next), maxPath)]
		for _, c := range n.children {
			if c.kind == "pFeature" {
				walk(c.text, next, depth+1)
			}
		}
	}
	walk("Root", "", 0)
	return out
}

// Has reports whether there is a node of a name.
func (m *Model) Has(name string) bool { return m.nodes[name] != nil }

// Entries are the names of an enumeration's values.
func (m *Model) Entries(name string) (names []string) {
	n := m.nodes[name]
	if n == nil || n.kind != "Enumeration" {
		return nil
	}
	for _, e := range n.children {
		if e.kind == "EnumEntry" {
			names = append(names, e.name)
		}
	}
	return names
}
