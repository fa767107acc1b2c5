package opcua

import (
	"strings"
	"time"

	"github.com/gopcua/opcua/ua"
)

// The structures of OPC 40100-1. Those with optional fields begin with a mask of which are there; a field that is empty
// is not. Package ua has no such structures, so these encode themselves.

// binaryID is the base of the ids of recipes and configurations.
type binaryID struct {
	ID            string
	Version       string
	Hash          []byte
	HashAlgorithm string
	Description   string
}

func (b *binaryID) encode(buf *ua.Buffer) {
	var mask uint32
	for i, there := range []bool{b.Version != "", b.Hash != nil, b.HashAlgorithm != "", b.Description != ""} {
		if there {
			mask |= 1 << i
		}
	}
	buf.WriteUint32(mask)
	buf.WriteString(b.ID)
	if b.Version != "" {
		buf.WriteString(b.Version)
	}
	if b.Hash != nil {
		buf.WriteByteString(b.Hash)
	}
	if b.HashAlgorithm != "" {
		buf.WriteString(b.HashAlgorithm)
	}
	if b.Description != "" {
		buf.WriteStruct(text(b.Description))
	}
}

func (b *binaryID) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	b.encode(buf)
	return buf.Bytes(), buf.Error()
}

func (b *binaryID) Decode(data []byte) (int, error) {
	buf := ua.NewBuffer(data)
	mask := buf.ReadUint32()
	b.ID = trimmed(buf)
	if mask&1 != 0 {
		b.Version = trimmed(buf)
	}
	if mask&2 != 0 {
		b.Hash = buf.ReadBytes()
	}
	if mask&4 != 0 {
		b.HashAlgorithm = buf.ReadString()
	}
	if mask&8 != 0 {
		b.Description = readText(buf)
	}
	return buf.Pos(), buf.Error()
}

// trimmed reads a TrimmedString.
func trimmed(buf *ua.Buffer) string { return strings.TrimSpace(buf.ReadString()) }

func readText(buf *ua.Buffer) string {
	t := new(ua.LocalizedText)
	buf.ReadStruct(t)
	return t.Text
}

type (
	recipeIDExternal struct{ binaryID }
	recipeIDInternal struct{ binaryID }
	configurationID  struct{ binaryID }
)

// named is an id with a description: of a measurement, a part or a product.
type named struct {
	ID          string
	Description string
}

func (n *named) encode(buf *ua.Buffer) {
	var mask uint32
	if n.Description != "" {
		mask = 1
	}
	buf.WriteUint32(mask)
	buf.WriteString(n.ID)
	if n.Description != "" {
		buf.WriteStruct(text(n.Description))
	}
}

func (n *named) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	n.encode(buf)
	return buf.Bytes(), buf.Error()
}

func (n *named) Decode(data []byte) (int, error) {
	buf := ua.NewBuffer(data)
	mask := buf.ReadUint32()
	n.ID = trimmed(buf)
	if mask&1 != 0 {
		n.Description = readText(buf)
	}
	return buf.Pos(), buf.Error()
}

type (
	measID    struct{ named }
	partID    struct{ named }
	productID struct{ named }
)

// plainID is an id and nothing else: of a job or of a result.
type plainID struct{ ID string }

func (p *plainID) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	buf.WriteString(p.ID)
	return buf.Bytes(), buf.Error()
}

func (p *plainID) Decode(data []byte) (int, error) {
	buf := ua.NewBuffer(data)
	p.ID = trimmed(buf)
	return buf.Pos(), buf.Error()
}

type (
	jobID    struct{ plainID }
	resultID struct{ plainID }
)

type configurationData struct {
	Internal configurationID
	Modified time.Time
}

func (c *configurationData) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	buf.WriteUint32(0)
	c.Internal.encode(buf)
	buf.WriteTime(c.Modified)
	return buf.Bytes(), buf.Error()
}

func (c *configurationData) Decode([]byte) (int, error) { return 0, ua.StatusBadDecodingError } // no service takes one

type processingTimes struct {
	Start, End time.Time
	Processing time.Duration
}

func (p *processingTimes) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	buf.WriteUint32(2) // there is a processing duration and no acquisition duration
	buf.WriteTime(p.Start)
	buf.WriteTime(p.End)
	buf.WriteFloat64(float64(p.Processing) / float64(time.Millisecond))
	return buf.Bytes(), buf.Error()
}

func (p *processingTimes) Decode([]byte) (int, error) { return 0, ua.StatusBadDecodingError }

type systemState struct {
	State       int32
	Description string
}

func (s *systemState) Encode() ([]byte, error) {
	buf := ua.NewBuffer(nil)
	buf.WriteUint32(1)
	buf.WriteInt32(s.State)
	buf.WriteString(s.Description)
	return buf.Bytes(), buf.Error()
}

func (s *systemState) Decode([]byte) (int, error) { return 0, ua.StatusBadDecodingError }

// result is a ResultDataType.
type result struct {
	ID       resultID
	State    int32
	Meas     measID
	Part     partID
	Recipe   recipeIDInternal
	Product  productID
	Config   configurationID
	Job      jobID
	Created  time.Time
	Times    processingTimes
	Content  []*ua.Variant
	Sequence uint32 // its handle
	acked    bool
}

func (r *result) Encode() ([]byte, error) {
	const (
		transferable = 1 << iota
		simulated
		meas
		part
		externalRecipe
		product
		externalConfiguration
		times
		content
	)
	mask := uint32(transferable | simulated | meas | times | content)
	if r.Part.ID != "" {
		mask |= part
	}
	if r.Product.ID != "" {
		mask |= product
	}
	buf := ua.NewBuffer(nil)
	buf.WriteUint32(mask)
	buf.WriteString(r.ID.ID)
	buf.WriteBool(false)
	buf.WriteBool(false) // no result is partial
	buf.WriteBool(false) // nor simulated
	buf.WriteInt32(r.State)
	r.Meas.encode(buf)
	if mask&part != 0 {
		r.Part.encode(buf)
	}
	r.Recipe.encode(buf)
	if mask&product != 0 {
		r.Product.encode(buf)
	}
	r.Config.encode(buf)
	buf.WriteString(r.Job.ID)
	buf.WriteTime(r.Created)
	buf.WriteStruct(&r.Times)
	buf.WriteUint32(uint32(len(r.Content)))
	for _, v := range r.Content {
		buf.WriteStruct(v)
	}
	return buf.Bytes(), buf.Error()
}

func (r *result) Decode([]byte) (int, error) { return 0, ua.StatusBadDecodingError }

// The ids of the structures' binary encodings, which a test compares with the table's.
var encodings = map[any]uint32{
	(*recipeIDExternal)(nil): 5002, (*recipeIDInternal)(nil): 5268, (*configurationID)(nil): 5090,
	(*measID)(nil): 5006, (*partID)(nil): 5013, (*productID)(nil): 5224, (*jobID)(nil): 5008, (*resultID)(nil): 5274,
	(*configurationData)(nil): 5088, (*processingTimes)(nil): 5016, (*systemState)(nil): 5278, (*result)(nil): 5018,
}

func init() {
	for v, id := range encodings {
		ua.RegisterExtensionObject(num(machineVision, id).ua(), v)
		switch v.(type) {
		case *recipeIDExternal, *recipeIDInternal, *configurationID, *measID, *partID, *productID, *jobID, *resultID:
			inside[num(machineVision, id)] = nil
		}
	}
}

// structure wraps a structure for a variant.
func structure(v any) *ua.ExtensionObject { return ua.NewExtensionObject(v) }

// argument returns the structure of an argument. A missing one is empty.
func argument[T any](v *ua.Variant) (*T, error) {
	o, ok := v.Value().(*ua.ExtensionObject)
	if !ok || o == nil || o.Value == nil {
		return new(T), nil
	}
	t, ok := o.Value.(*T)
	if !ok {
		return nil, ua.StatusBadTypeMismatch
	}
	return t, nil
}
