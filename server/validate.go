// Validation of fields by the rules in the schemas.

package server

import (
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// newValidator compiles the rules of all requests at once, so that no call pays for it and a rule that can't be
// compiled shows at the start. The rules leave out the regions themselves, which package polygon checks in one pass.
func newValidator() (protovalidate.Validator, error) {
	return protovalidate.New(protovalidate.WithMessages(
		&pb.ReduceRequest{}, &pb.RasterizeRequest{}, &pb.StreamFramesRequest{},
		&pb.PutRecipeRequest{}, &pb.GetRecipeRequest{}, &pb.ListRecipesRequest{}, &pb.DeleteRecipeRequest{},
		&pb.GetDeviceRequest{},
	))
}

// validate checks a request of ours. Messages of other packages (health, reflection) have no rules.
func (s *Server) validate(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil // no request: the call was refused before it was read
	}
	err := s.validator.Validate(m)
	if err == nil {
		return nil
	}
	return validationError(err)
}

// validationError turns violations of rules into refusals of fields. Errors of the rules themselves stay what they are.
func validationError(err error) error {
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	e := &fieldError{}
	for i, v := range invalid.Violations {
		if i == maxViolations {
			e.more = len(invalid.Violations) - i
			break
		}
		field := protovalidate.FieldPathString(v.Proto.GetField())
		value := ""
		if v.FieldDescriptor != nil && v.FieldValue.IsValid() {
			value = shortValue(v.FieldDescriptor, v.FieldValue)
		}
		reason := v.Proto.GetMessage()
		if reason == "" {
			reason = v.Proto.GetRuleId()
		}
		// "value must be ..." reads on from the value.
		reason = strings.TrimPrefix(reason, "value ")
		e.violations = append(e.violations, violation{field, value, reason})
	}
	return e
}

// shortValue is a scalar as an error has it; messages, lists and bytes say nothing that fits a line.
func shortValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	const most = 64
	var s string
	switch x := v.Interface().(type) {
	case string:
		if len(x) > most {
			return fmt.Sprintf("%q…", x[:most])
		}
		s = fmt.Sprintf("%q", x)
	case protoreflect.EnumNumber:
		s = fmt.Sprint(x)
		if d := fd.Enum().Values().ByNumber(x); d != nil {
			s = string(d.Name())
		}
	case bool, int32, int64, uint32, uint64, float32, float64:
		s = fmt.Sprint(x)
	}
	return s
}
