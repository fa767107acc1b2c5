package opcua

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gopcua/opcua/ua"
	"github.com/gopcua/opcua/uacp"
)

// pipe is a connection to a server in memory; what the server writes is read by nobody who cares.
func pipe(s *Server) (*conn, net.Conn) {
	ours, theirs := net.Pipe()
	return &conn{srv: s, net: ours, in: bufio.NewReaderSize(ours, 4096), opened: time.Now(), sendChunk: maxChunk}, theirs
}

func helloBytes(t testing.TB) []byte {
	t.Helper()
	b, err := (&uacp.Hello{ReceiveBufSize: 65535, SendBufSize: 65535, EndpointURL: "opc.tcp://localhost"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return frame("HELF", b)
}

// openBytes opens a channel without security.
func openBytes(t testing.TB) []byte {
	t.Helper()
	buf := ua.NewBuffer(nil)
	buf.Write([]byte("OPNF\x00\x00\x00\x00\x00\x00\x00\x00"))
	buf.WriteString(ua.SecurityPolicyURINone)
	buf.WriteByteString(nil)
	buf.WriteByteString(nil)
	buf.WriteUint32(1)
	buf.WriteUint32(1)
	body, err := encode(&ua.OpenSecureChannelRequest{RequestHeader: requestHeader(nil),
		SecurityMode: ua.MessageSecurityModeNone, RequestedLifetime: 60000})
	if err != nil {
		t.Fatal(err)
	}
	buf.Write(body)
	b := buf.Bytes()
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	return b
}

func requestHeader(token []byte) *ua.RequestHeader {
	h := &ua.RequestHeader{AuthenticationToken: ua.NewTwoByteNodeID(0), AdditionalHeader: ua.NewExtensionObject(nil)}
	if token != nil {
		h.AuthenticationToken = ua.NewByteStringNodeID(0, token)
	}
	return h
}

// messageBytes is a chunk of a message; channel and token are those of the channel that openBytes opens on a fresh
// server whose ids begin at first.
func messageBytes(kind string, first, sequence uint32, body []byte) []byte {
	b := make([]byte, symmetricHead+8, symmetricHead+8+len(body))
	copy(b, kind)
	binary.LittleEndian.PutUint32(b[8:], first+1)
	binary.LittleEndian.PutUint32(b[12:], first+2)
	binary.LittleEndian.PutUint32(b[16:], sequence)
	binary.LittleEndian.PutUint32(b[20:], sequence)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	return b
}

const firstID = 1000

func fuzzServer(t testing.TB) *Server {
	t.Helper()
	i := identityOf(t, "plcgateway")
	s, err := NewServer(Config{ApplicationURI: i.uri, Certificate: i.cert, Key: i.key, Policies: PolicyNames,
		Anonymous: true, Users: users(t),
		Trusted: trust(t, identityOf(t, "line"))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzChunks sends any bytes to a connection: hellos, channels, messages. The server must end the connection or answer,
// and never panic or take more memory than its bounds.
func FuzzChunks(f *testing.F) {
	s := fuzzServer(f)
	st := newStation(f, time.Minute)
	go s.AddStation(st)()
	hello, open := helloBytes(f), openBytes(f)
	endpoints, err := encode(&ua.GetEndpointsRequest{RequestHeader: requestHeader(nil)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("HELF"))
	f.Add(hello)
	f.Add(slices.Concat(hello, open))
	f.Add(slices.Concat(hello, open, messageBytes("MSGF", firstID, 2, endpoints)))
	f.Add(slices.Concat(hello, open, messageBytes("MSGC", firstID, 2, endpoints[:20]), messageBytes("MSGF", firstID,
		2, endpoints[20:])))
	f.Add(slices.Concat(hello, open, messageBytes("MSGA", firstID, 2, nil), messageBytes("CLOF", firstID, 3, nil)))
	f.Add(slices.Concat(hello, open[:8], []byte{0, 0, 0, 0}, open[12:40]))
	f.Fuzz(func(t *testing.T, data []byte) {
		s.ids.Store(firstID)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, peer := pipe(s)
		done := make(chan struct{})
		go func() { defer close(done); c.serve() }()
		go io.Copy(io.Discard, peer)
		peer.Write(data) // an error says that the server has ended it
		peer.Close()
		<-done
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Fatalf("%d bytes took %d bytes of memory", len(data), grown)
		}
	})
}

// FuzzService sends any bytes as the body of each service's request, in an activated session.
func FuzzService(f *testing.F) {
	s := fuzzServer(f)
	st := newStation(f, time.Minute)
	go s.AddStation(st)()
	var ids []uint32
	for id := range s.handlers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	seed := func(r ua.Request) {
		r.SetHeader(requestHeader(nil))
		b, err := encode(r)
		if err != nil {
			f.Fatal(err)
		}
		_, n, err := serviceID(b)
		if err != nil {
			f.Fatal(err)
		}
		size, err := guarded(b[n:], reflect.TypeFor[ua.RequestHeader]())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(slices.Index(ids, uint32(ua.ServiceTypeID(r)))), b[n+size:])
	}
	value := &ua.ReadValueID{NodeID: num(0, 2258).ua(), AttributeID: ua.AttributeIDValue,
		DataEncoding: &ua.QualifiedName{}}
	seed(&ua.ReadRequest{NodesToRead: []*ua.ReadValueID{value}})
	seed(&ua.WriteRequest{NodesToWrite: []*ua.WriteValue{{NodeID: str(3, "cell/Handshake/PlcHeartbeat").ua(),
		AttributeID: ua.AttributeIDValue, Value: dataValue(uint16(7))}}})
	seed(&ua.BrowseRequest{View: &ua.ViewDescription{ViewID: nodeID{}.ua()},
		NodesToBrowse: []*ua.BrowseDescription{{NodeID: num(0, 84).ua(),
			ReferenceTypeID: num(0, 33).ua(), IncludeSubtypes: true, ResultMask: 63}}})
	seed(&ua.CallRequest{MethodsToCall: []*ua.CallMethodRequest{{ObjectID: str(3, automatic).ua(), MethodID: num(2,
		7098).ua(),
		InputArguments: []*ua.Variant{variant(structure(&measID{named{ID: "7", Description: "seven"}})),
			variant(structure(&partID{})),
			variant(structure(&recipeIDExternal{binaryID{ID: "board", Hash: []byte{1}}})),
			variant(structure(&productID{})), variant([]*ua.Variant{})}}}})
	filter := &ua.EventFilter{SelectClauses: []*ua.SimpleAttributeOperand{{TypeDefinitionID: baseEventType.ua(),
		BrowsePath:  []*ua.QualifiedName{{Name: "Message"}},
		AttributeID: ua.AttributeIDValue}},
		WhereClause: &ua.ContentFilter{Elements: []*ua.ContentFilterElement{{FilterOperator: ua.FilterOperatorOfType,
			FilterOperands: []*ua.ExtensionObject{ua.NewExtensionObject(&ua.LiteralOperand{Value: variant(resultReadyEvent.ua())})}}}}}
	seed(&ua.CreateMonitoredItemsRequest{SubscriptionID: 1,
		ItemsToCreate: []*ua.MonitoredItemCreateRequest{{ItemToMonitor: &ua.ReadValueID{NodeID: serverObject.ua(),
			AttributeID: ua.AttributeIDEventNotifier, DataEncoding: &ua.QualifiedName{}},
			MonitoringMode:      ua.MonitoringModeReporting,
			RequestedParameters: &ua.MonitoringParameters{Filter: ua.NewExtensionObject(filter), QueueSize: 10}}}})
	seed(&ua.CreateSubscriptionRequest{RequestedPublishingInterval: 100, RequestedLifetimeCount: 100,
		RequestedMaxKeepAliveCount: 10})
	seed(&ua.PublishRequest{SubscriptionAcknowledgements: []*ua.SubscriptionAcknowledgement{{SubscriptionID: 1,
		SequenceNumber: 1}}})
	seed(&ua.TranslateBrowsePathsToNodeIDsRequest{BrowsePaths: []*ua.BrowsePath{{StartingNode: num(0, 85).ua(),
		RelativePath: &ua.RelativePath{
			Elements: []*ua.RelativePathElement{{ReferenceTypeID: num(0, 33).ua(), IncludeSubtypes: true,
				TargetName: &ua.QualifiedName{NamespaceIndex: 3, Name: "cell"}}}}}}})
	seed(&ua.ActivateSessionRequest{ClientSignature: &ua.SignatureData{}, UserTokenSignature: &ua.SignatureData{},
		UserIdentityToken: ua.NewExtensionObject(&ua.UserNameIdentityToken{PolicyID: userPolicy, UserName: "plc",
			Password:            make([]byte, 256),
			EncryptionAlgorithm: "http://www.w3.org/2001/04/xmlenc#rsa-oaep"})})
	f.Fuzz(func(t *testing.T, service uint8, body []byte) {
		c, peer := pipe(s)
		defer c.net.Close()
		go io.Copy(io.Discard, peer)
		c.channel = &channel{id: 1, policy: ua.SecurityPolicyURINone, mode: ua.MessageSecurityModeNone}
		c.channel.sending.Store(&token{id: 1})
		one := &session{srv: s, id: num(1, 1), token: []byte("token"), policy: c.channel.policy, timeout: time.Minute,
			conn: c, activated: true,
			seen: time.Now(), nonce: make([]byte, 32), continuations: map[string][]*ua.ReferenceDescription{}}
		s.mu.Lock()
		s.sessions = append(s.sessions, one)
		s.mu.Unlock()
		defer s.drop(one, "the test ends")
		if _, err := one.createSubscription(&ua.CreateSubscriptionRequest{RequestedPublishingInterval: 1000}); err != nil {
			t.Fatal(err)
		}
		buf := ua.NewBuffer(nil)
		buf.WriteStruct(ua.NewFourByteExpandedNodeID(0, uint16(ids[int(service)%len(ids)])))
		buf.WriteStruct(requestHeader(one.token))
		buf.Write(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := s.handle(c, 1, buf.Bytes()); err != nil {
			if e, ok := err.(*statusError); ok && e.status == ua.StatusBadInternalError {
				t.Fatal(err) // it panicked
			}
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Fatalf("%d bytes took %d bytes of memory", len(body), grown)
		}
	})
}

// FuzzGuard has the guard and the decoder read the same bytes: what the guard lets through decodes, as long as it said.
func FuzzGuard(f *testing.F) {
	types := []reflect.Type{reflect.TypeFor[ua.WriteRequest](), reflect.TypeFor[ua.CallRequest](),
		reflect.TypeFor[ua.CreateMonitoredItemsRequest](),
		reflect.TypeFor[ua.ActivateSessionRequest](), reflect.TypeFor[ua.BrowseRequest](),
		reflect.TypeFor[ua.PublishRequest](), typeVariant, typeDataValue, typeDiag}
	f.Add(uint8(6), []byte{byte(ua.TypeIDInt32) | ua.VariantArrayValues, 0xff, 0xff, 0xff, 0x7f})
	f.Add(uint8(6), []byte{24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 1, 1})
	f.Add(uint8(8), []byte{64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 0})
	f.Add(uint8(7), []byte{63, 6, 1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		typ := types[int(which)%len(types)]
		n, err := guarded(b, typ)
		if err != nil {
			return
		}
		m, err := ua.Decode(b, reflect.New(typ).Interface())
		if err == nil && m != n {
			t.Fatalf("%s: the guard read %d bytes, the decoder %d", typ, n, m)
		}
	})
}
