// Validation of fields by the rules in the schemas.

package wire

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// NewValidator compiles the rules of all requests of our services at once, so that no call pays for it and a rule that
// can't be compiled shows at the start. The rules leave out the regions themselves, which package polygon checks in one
// pass. All servers of a process share what is compiled.
var NewValidator = sync.OnceValues(func() (*Validator, error) {
	var requests []protoreflect.MessageDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage(pb.File_polyscan_v1_frame_proto.Package(),
		func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				for m := range f.Services().Get(i).Methods().Len() {
					requests = append(requests, f.Services().Get(i).Methods().Get(m).Input())
				}
			}
			return true
		})
	rules, err := protovalidate.New(protovalidate.WithMessageDescriptors(requests...))
	return &Validator{rules}, err
})

// Validator checks messages by the rules in the schemas.
type Validator struct{ rules protovalidate.Validator }

// Validate checks a message of ours. Messages of other packages (health, reflection) have no rules.
func (v *Validator) Validate(req any) error {
	if req == nil {
		return nil // the call is refused before its request is read
	}
	m, ok := req.(proto.Message)
	if !ok {
		return fmt.Errorf("request of type %T can't be validated", req)
	}
	var options []protovalidate.ValidationOption
	if proto.Size(m) > listedAll {
		options = append(options, protovalidate.WithFailFast())
	}
	err := v.rules.Validate(m, options...)
	if err == nil {
		return nil
	}
	return validationError(m, err)
}

// listedAll is how large a message may be, payloads of frames aside, so that all that is wrong with it is listed. A
// violation takes a kilobyte, and each byte of a message can be one, so of larger messages only the first is told.
const listedAll = 4 << 10

// validationError turns violations of rules into refusals of fields. Errors of the rules themselves stay what they are.
func validationError(m proto.Message, err error) error {
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	e := &apierr.FieldError{}
	for _, v := range invalid.Violations {
		field := protovalidate.FieldPathString(v.Proto.GetField())
		value := valueAt(m.ProtoReflect(), v.Proto.GetField())
		reason := v.Proto.GetMessage()
		if reason == "" {
			reason = v.Proto.GetRuleId()
		}
		if fd := v.FieldDescriptor; fd != nil && v.Proto.GetRuleId() == "string.pattern" {
			reason = patternReason(fd, reason)
		}
		// "value must be ..." reads on from the value.
		reason = strings.TrimPrefix(reason, "value ")
		e.Add(field, value, reason)
	}
	return e
}

// patterns says in words what the regular expressions of the schemas match.
var patterns = map[string]string{
	"^([0-9a-f]{64})?$": "must be 64 hexadecimal digits, in lower case",
	"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "must be 1 to 128 letters, digits, dots, underscores and hyphens, " +
		"of which the first is a letter or a digit",
	"^([A-Za-z0-9]([A-Za-z0-9 ._:/@#+-]{0,62}[A-Za-z0-9._:/@#+-])?)?$":  nameWords(64),
	"^([A-Za-z0-9]([A-Za-z0-9 ._:/@#+-]{0,126}[A-Za-z0-9._:/@#+-])?)?$": nameWords(128),
}

// nameWords are those for names of cameras and ids of parts.
func nameWords(most int) string {
	return fmt.Sprintf("must be at most %d letters, digits, spaces and any of . _ : / @ # + -, "+
		"of which the first is a letter or a digit and the last no space", most)
}

// CheckNames checks names that choose streams, which may end in * for all that begin so: Inspection.name is what they
// can choose.
func CheckNames(field string, names []string) error {
	for i, n := range names {
		if !chosenName.MatchString(n) {
			return apierr.Refuse(fmt.Sprintf("%s[%d]", field, i), strconv.Quote(n),
				"%s; * at the end stands for any others", nameWords(64))
		}
	}
	return nil
}

var chosenName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9 ._:/@#+-]{0,62}[A-Za-z0-9._:/@#+-])?` +
	`|([A-Za-z0-9][A-Za-z0-9 ._:/@#+-]{0,63})?\*)$`)

// patternReason is the words for the pattern of a field, or the reason as it is where there are none.
func patternReason(fd protoreflect.FieldDescriptor, reason string) string {
	rules, err := protovalidate.ResolveFieldRules(fd)
	if err != nil {
		return reason
	}
	if words, ok := patterns[rules.GetString().GetPattern()]; ok {
		return words
	}
	return reason
}

// valueAt is the scalar at a path, as an error has it; "" for what is not there, and for messages, lists and bytes,
// which say nothing that fits a line.
func valueAt(m protoreflect.Message, path *validate.FieldPath) string {
	var fd protoreflect.FieldDescriptor
	var v protoreflect.Value
	for i, e := range path.GetElements() {
		if i > 0 {
			if fd.Message() == nil || fd.IsMap() {
				return ""
			}
			m = v.Message()
		}
		if fd = m.Descriptor().Fields().ByNumber(protoreflect.FieldNumber(e.GetFieldNumber())); fd == nil {
			return "" // a oneof
		}
		v = m.Get(fd)
		if fd.IsList() {
			if _, ok := e.GetSubscript().(*validate.FieldPathElement_Index); !ok ||
				e.GetIndex() >= uint64(v.List().Len()) {
				return ""
			}
			v = v.List().Get(int(e.GetIndex()))
		}
	}
	if fd == nil {
		return ""
	}
	switch x := v.Interface().(type) {
	case string:
		const most = 64
		if len(x) > most {
			return fmt.Sprintf("%q and more, %d bytes", x[:most], len(x))
		}
		return fmt.Sprintf("%q", x)
	case protoreflect.EnumNumber:
		if d := fd.Enum().Values().ByNumber(x); d != nil {
			return string(d.Name())
		}
		return fmt.Sprint(x)
	case bool, int32, int64, uint32, uint64, float32, float64:
		return fmt.Sprint(x)
	}
	return ""
}
