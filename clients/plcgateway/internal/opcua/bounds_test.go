package opcua

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	_ "github.com/polyscan/polyscan/internal/shorttest"
)

// TestTable compares ids that code names with the table.
func TestTable(t *testing.T) {
	s, err := newSpace("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	names := map[any]string{
		(*recipeIDExternal)(nil): "RecipeIdExternalDataType", (*recipeIDInternal)(nil): "RecipeIdInternalDataType",
		(*configurationID)(nil): "ConfigurationIdDataType", (*measID)(nil): "MeasIdDataType",
		(*partID)(nil):    "PartIdDataType",
		(*productID)(nil): "ProductIdDataType", (*jobID)(nil): "JobIdDataType", (*resultID)(nil): "ResultIdDataType",
		(*configurationData)(nil): "ConfigurationDataType", (*processingTimes)(nil): "ProcessingTimesDataType",
		(*systemState)(nil): "SystemStateDescriptionDataType", (*result)(nil): "ResultDataType",
	}
	for v, id := range encodings {
		n := s.nodes[num(machineVision, id)]
		if n == nil || n.browseName.Name != "Default Binary" {
			t.Errorf("%T: node %d is no binary encoding", v, id)
			continue
		}
		if got := s.nodes[n.target(hasEncoding, false)].browseName.Name; got != names[v] {
			t.Errorf("%T: node %d encodes %s, want %s", v, id, got, names[v])
		}
	}
	for id, name := range map[nodeID]string{visionSystemType: "VisionSystemType",
		stateMachineType: "VisionStateMachineType",
		automaticType:    "VisionAutomaticModeStateMachineType", jobStartedEvent: "JobStartedEventType",
		stateChangedEvent: "StateChangedEventType",
		errorEvent:        "ErrorEventType", errorResolvedEvent: "ErrorResolvedEventType", recipePrepared: "RecipePreparedEventType",
		readyEvent: "ReadyEventType", resultReadyEvent: "ResultReadyEventType", baseEventType: "BaseEventType", num(0,
			3035): "EventQueueOverflowEventType"} {
		if n := s.nodes[id]; n == nil || n.browseName.Name != name {
			t.Errorf("%v is not %s", id, name)
		}
	}
}

// TestPaths goes from each state of a station to each other one, by transitions that the types have.
func TestPaths(t *testing.T) {
	s, err := newSpace("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range []nodeID{stateMachineType, automaticType} {
		m := s.newMachine(nil, "", typ)
		for a, from := range states {
			for b, to := range states {
				if from[i].isNull() || to[i].isNull() || from[i] == to[i] {
					continue
				}
				for _, cause := range []string{"", "method", "Recipe", "Stop", "Abort"} {
					m.state = from[i]
					at := from[i]
					for _, step := range m.path(to[i], cause) {
						if step.from != at {
							t.Fatalf("%s to %s: %s does not begin at %v", a, b, step.name, at)
						}
						at = step.to
					}
					if at != to[i] {
						t.Errorf("%s to %s, cause %q: no way", a, b, cause)
					}
				}
			}
		}
	}
}

// TestSecured logs in by each policy and mode, and by each kind of user.
func TestSecured(t *testing.T) {
	client, server, person := identityOf(t, "line"), identityOf(t, "plcgateway"), identityOf(t, "person")
	s := serve(t, Config{Policies: PolicyNames, Users: users(t), ApplicationURI: server.uri, Trusted: trust(t,
		client), UserTrusted: trust(t, person),
		Certificate: server.cert, Key: server.key}, "127.0.0.1:0", newStation(t, time.Minute))
	ctx := context.Background()
	endpoints, err := opcua.GetEndpoints(ctx, s.url)
	if err != nil {
		t.Fatal(err)
	}
	if len(endpoints) != 7 {
		t.Fatalf("%d endpoints, want 7", len(endpoints))
	}
	for _, e := range endpoints {
		if e.SecurityMode == ua.MessageSecurityModeNone {
			continue // node-opcua's client logs in there; this one can't encrypt a password without a policy
		}
		t.Run(strings.TrimPrefix(e.SecurityPolicyURI, ua.SecurityPolicyURIPrefix)+" "+e.SecurityMode.String(),
			func(t *testing.T) {
				secured := func(i *identity, more ...opcua.Option) (*opcua.Client, error) {
					return dial(t, s.url, append([]opcua.Option{opcua.Certificate(i.cert), opcua.PrivateKey(i.key),
						opcua.ApplicationURI(i.uri)}, more...)...)
				}
				password := func(p string) []opcua.Option {
					return []opcua.Option{opcua.AuthUsername("plc", p), opcua.SecurityFromEndpoint(e, ua.UserTokenTypeUserName)}
				}
				c, err := secured(client, password("secret")...)
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, c, "cell/Handshake/Verdict")[0]; got != uint16(station.Reject) {
					t.Fatalf("verdict %v", got)
				}
				if _, err := secured(client, password("other")...); err == nil {
					t.Fatal("a wrong password was let in")
				}
				if _, err := secured(person, password("secret")...); err == nil {
					t.Fatal("a certificate that is not trusted was let in")
				}
				if _, err := secured(client, opcua.AuthAnonymous(), opcua.SecurityFromEndpoint(e,
					ua.UserTokenTypeAnonymous)); err == nil {
					t.Fatal("nobody was let in")
				}
			})
	}
	if _, err := dial(t, s.url, opcua.SecurityMode(ua.MessageSecurityModeNone), opcua.AuthAnonymous()); err == nil {
		t.Fatal("nobody was let in, without security")
	}
}

// TestDiscoveryOnly has no endpoint without security: a channel without it lists the endpoints, and nothing else.
func TestDiscoveryOnly(t *testing.T) {
	server := identityOf(t, "plcgateway")
	s := serve(t, Config{Policies: []string{"Basic256Sha256"}, Anonymous: true, ApplicationURI: server.uri,
		Certificate: server.cert, Key: server.key},
		"127.0.0.1:0", newStation(t, time.Minute))
	endpoints, err := opcua.GetEndpoints(context.Background(), s.url)
	if err != nil || len(endpoints) != 2 {
		t.Fatalf("%d endpoints, %v", len(endpoints), err)
	}
	if _, err := dial(t, s.url, opcua.SecurityMode(ua.MessageSecurityModeNone), opcua.AuthAnonymous()); err == nil {
		t.Fatal("a session without security was let in")
	}
}

// TestConnections opens more connections than there is room for and says nothing on them. A client still gets in.
func TestConnections(t *testing.T) {
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", newStation(t, time.Minute))
	address := strings.TrimPrefix(s.url, "opc.tcp://")
	first, err := dial(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxConnections {
		n, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		n.Write([]byte("HEL"))
	}
	if _, err := dial(t, s.url); err != nil {
		t.Fatalf("behind half-open connections: %v", err)
	}
	read(t, first, "cell/Handshake/State") // who is in stays in
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	if n > maxConnections {
		t.Fatalf("%d connections, at most %d", n, maxConnections)
	}
}

func TestSessions(t *testing.T) {
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", newStation(t, time.Minute))
	for i := range maxSessions {
		if _, err := dial(t, s.url); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	if _, err := dial(t, s.url); err == nil {
		t.Fatalf("more than %d sessions", maxSessions)
	}
}

// TestItems asks for more subscriptions, items and room in queues than a session may have.
func TestItems(t *testing.T) {
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", newStation(t, time.Minute))
	c, err := dial(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	send := func(r ua.Request, into func(ua.Response)) error {
		return c.Send(ctx, r, func(v ua.Response) error { into(v); return nil })
	}
	var ids []uint32
	for range maxSubscriptions {
		err := send(&ua.CreateSubscriptionRequest{RequestedPublishingInterval: 1000, RequestedLifetimeCount: 1000,
			RequestedMaxKeepAliveCount: 100}, func(r ua.Response) {
			ids = append(ids, r.(*ua.CreateSubscriptionResponse).SubscriptionID)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := send(&ua.CreateSubscriptionRequest{}, func(ua.Response) {}); err == nil {
		t.Fatalf("more than %d subscriptions", maxSubscriptions)
	}
	req := &ua.CreateMonitoredItemsRequest{SubscriptionID: ids[0], TimestampsToReturn: ua.TimestampsToReturnBoth}
	for range maxItems + 1 {
		req.ItemsToCreate = append(req.ItemsToCreate,
			&ua.MonitoredItemCreateRequest{ItemToMonitor: &ua.ReadValueID{NodeID: str(3, "cell/Handshake/State").ua(),
				AttributeID: ua.AttributeIDValue, DataEncoding: &ua.QualifiedName{}}, MonitoringMode: ua.MonitoringModeReporting,
				RequestedParameters: &ua.MonitoringParameters{QueueSize: 1 << 30, Filter: ua.NewExtensionObject(nil)}})
	}
	var got *ua.CreateMonitoredItemsResponse
	if err := send(req, func(r ua.Response) { got = r.(*ua.CreateMonitoredItemsResponse) }); err != nil {
		t.Fatal(err)
	}
	room := 0
	var made []uint32
	for _, r := range got.Results {
		switch r.StatusCode {
		case ua.StatusOK:
			room += int(r.RevisedQueueSize)
			made = append(made, r.MonitoredItemID)
		case ua.StatusBadTooManyMonitoredItems:
		default:
			t.Fatalf("an item: %v", r.StatusCode)
		}
	}
	if room > maxQueued || len(made) != maxQueued/maxItemQueue {
		t.Fatalf("%d items with room for %d notifications, at most %d", len(made), room, maxQueued)
	}
	// What is deleted makes room.
	if err := send(&ua.DeleteMonitoredItemsRequest{SubscriptionID: ids[0], MonitoredItemIDs: made},
		func(ua.Response) {}); err != nil {
		t.Fatal(err)
	}
	req.ItemsToCreate = req.ItemsToCreate[:1]
	if err := send(req, func(r ua.Response) { got = r.(*ua.CreateMonitoredItemsResponse) }); err != nil ||
		got.Results[0].StatusCode != ua.StatusOK {
		t.Fatalf("after the items were deleted: %v, %v", err, got.Results[0].StatusCode)
	}
	if err := send(&ua.ReadRequest{NodesToRead: make([]*ua.ReadValueID, 0)}, func(ua.Response) {}); err == nil {
		t.Fatal("a read of nothing")
	}
}

// TestMessages sends what no client should; each ends the connection, or gets an error, and none hurts another's.
func TestMessages(t *testing.T) {
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", newStation(t, time.Minute))
	good, err := dial(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	huge := messageBytes("MSGC", 0, 2, make([]byte, 60000))
	for name, b := range map[string][]byte{
		"not a hello":           []byte("GET / HTTP/1.1\r\n\r\n"),
		"a chunk that is huge":  {'H', 'E', 'L', 'F', 0xff, 0xff, 0xff, 0xff},
		"a chunk that is short": {'H', 'E', 'L', 'F', 1, 0, 0, 0},
		"a hello twice":         append(helloBytes(t), helloBytes(t)...),
		"a message first":       messageBytes("MSGF", 0, 1, nil),
		"no channel":            append(helloBytes(t), huge...),
		"another channel":       append(append(helloBytes(t), openBytes(t)...), huge...),
	} {
		t.Run(name, func(t *testing.T) {
			n, err := net.Dial("tcp", strings.TrimPrefix(s.url, "opc.tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			n.SetDeadline(time.Now().Add(20 * time.Second))
			n.Write(b)
			rest, err := io.ReadAll(n)
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatal(err)
			}
			if err == nil && !strings.Contains(string(rest), "ERRF") {
				t.Errorf("no error was sent, but %q", rest)
			}
		})
	}
	read(t, good, "cell/Handshake/State")
}

// TestSlow has a client that asks for much and reads nothing: it is cut off, and nobody else notices.
func TestSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time-out of a write")
	}
	st := newStation(t, time.Minute)
	s := fuzzServer(t)
	go s.AddStation(st)()
	c, peer := pipe(s) // a pipe has no room at all
	defer peer.Close()
	c.channel = &channel{id: 1, policy: ua.SecurityPolicyURINone, mode: ua.MessageSecurityModeNone}
	c.channel.sending.Store(&token{id: 1})
	began := time.Now()
	err := c.send(1, &ua.GetEndpointsResponse{ResponseHeader: responseHeader(1, ua.StatusOK),
		Endpoints: s.endpoints("opc.tcp://x")})
	if err == nil {
		t.Fatal("nobody read, and it was sent")
	}
	if d := time.Since(began); d < writeTimeout {
		t.Fatalf("given up after %v, want %v", d, writeTimeout)
	}
	if _, err := peer.Write([]byte("x")); err == nil {
		t.Fatal("the connection is still open")
	}
}

// TestOverflow has more events than an item's queue has room for: the client is told that some are lost.
func TestOverflow(t *testing.T) {
	s := fuzzServer(t)
	sub := &subscription{session: &session{srv: s}}
	f, _, status := s.space.newFilter(&ua.EventFilter{SelectClauses: []*ua.SimpleAttributeOperand{
		{TypeDefinitionID: baseEventType.ua(), BrowsePath: []*ua.QualifiedName{{Name: "EventType"}},
			AttributeID: ua.AttributeIDValue},
		{TypeDefinitionID: baseEventType.ua(), BrowsePath: []*ua.QualifiedName{{Name: "Message"}},
			AttributeID: ua.AttributeIDValue}},
		WhereClause: &ua.ContentFilter{}})
	if status != ua.StatusOK {
		t.Fatal(status)
	}
	i := &item{sub: sub, mode: ua.MonitoringModeReporting, size: 3, oldest: true, filter: f}
	sub.order = []*item{i}
	for k := range 5 {
		i.notify(newEvent(readyEvent, serverObject, "x", fmt.Sprint(k), 1))
	}
	data, n, more := sub.gather()
	events := data[0].Value.(*ua.EventNotificationList).Events
	if n != 4 || more || len(events) != 4 || keyOf(events[0].EventFields[0].Value().(*ua.NodeID)) != num(0, 3035) ||
		events[1].EventFields[1].Value().(*ua.LocalizedText).Text != "2" {
		t.Fatalf("%d events, the first %v", n, events[0].EventFields[0].Value())
	}
	i = &item{sub: sub, mode: ua.MonitoringModeReporting, size: 2, oldest: true}
	for k := range 5 {
		i.push(dataValue(uint32(k)))
	}
	if len(i.values) != 2 || i.values[0].Status&0x480 != 0x480 || i.values[0].Value.Value() != uint32(3) {
		t.Fatalf("values %v with status %x", i.values[0].Value.Value(), uint32(i.values[0].Status))
	}
}

// TestWhere evaluates filters of events.
func TestWhere(t *testing.T) {
	s := fuzzServer(t)
	field := func(ns uint16, name string) *ua.ExtensionObject {
		return ua.NewExtensionObject(&ua.SimpleAttributeOperand{TypeDefinitionID: baseEventType.ua(),
			BrowsePath: []*ua.QualifiedName{{NamespaceIndex: ns, Name: name}}, AttributeID: ua.AttributeIDValue})
	}
	literal := func(v any) *ua.ExtensionObject { return ua.NewExtensionObject(&ua.LiteralOperand{Value: variant(v)}) }
	element := func(i uint32) *ua.ExtensionObject { return ua.NewExtensionObject(&ua.ElementOperand{Index: i}) }
	e := newEvent(resultReadyEvent, serverObject, "cell", "done", 100)
	one := func(op ua.FilterOperator, operands ...*ua.ExtensionObject) *ua.ContentFilterElement {
		return &ua.ContentFilterElement{FilterOperator: op, FilterOperands: operands}
	}
	for i, c := range []struct {
		where []*ua.ContentFilterElement
		want  bool
	}{
		{nil, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorOfType, literal(resultReadyEvent.ua()))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorOfType, literal(baseEventType.ua()))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorOfType, literal(readyEvent.ua()))}, false},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorGreaterThan, field(0, "Severity"), literal(uint16(99)))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorGreaterThan, field(0, "Severity"), literal(int32(100)))}, false},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorEquals, field(0, "SourceName"), literal("cell"))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorEquals, field(0, "Severity"), literal("100"))}, false},
		// can't be compared
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorIsNull, field(2, "JobId"))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorInList, field(0, "Severity"), literal(uint16(1)),
			literal(uint16(100)))}, true},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorAnd, element(1), element(2)), one(ua.FilterOperatorNot, element(2)),
			one(ua.FilterOperatorOfType, literal(readyEvent.ua()))}, false},
		{[]*ua.ContentFilterElement{one(ua.FilterOperatorOr, element(1), element(2)), one(ua.FilterOperatorNot, element(2)),
			one(ua.FilterOperatorOfType, literal(readyEvent.ua()))}, true},
	} {
		f, _,
			status := s.space.newFilter(&ua.EventFilter{SelectClauses: []*ua.SimpleAttributeOperand{{TypeDefinitionID: baseEventType.ua(),
			BrowsePath: []*ua.QualifiedName{{Name: "Message"}}, AttributeID: ua.AttributeIDValue}},
			WhereClause: &ua.ContentFilter{Elements: c.where}})
		if status != ua.StatusOK {
			t.Errorf("filter %d: %v", i, status)
		} else if got := f.passes(s.space, e); got != c.want {
			t.Errorf("filter %d passes %v, want %v", i, got, c.want)
		}
	}
	for i, where := range [][]*ua.ContentFilterElement{
		{one(ua.FilterOperatorAnd, element(0), element(0))}, // a circle
		{one(ua.FilterOperatorAnd, element(9), element(9))},
		{one(ua.FilterOperatorLike, field(0, "Message"), literal("%"))},
		{one(ua.FilterOperatorNot)},
	} {
		if _, _,
			status := s.space.newFilter(&ua.EventFilter{SelectClauses: []*ua.SimpleAttributeOperand{{TypeDefinitionID: baseEventType.ua(),
			BrowsePath: []*ua.QualifiedName{{Name: "Message"}}, AttributeID: ua.AttributeIDValue}},
			WhereClause: &ua.ContentFilter{Elements: where}}); status != ua.StatusBadEventFilterInvalid {
			t.Errorf("bad filter %d: %v", i, status)
		}
	}
}

// TestRelease releases results by their handles: that is their acknowledgement, and the next one is presented.
func TestRelease(t *testing.T) {
	st := newStation(t, time.Minute)
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", st)
	c, err := dial(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	call(t, c, "cell/VisionStateMachine", "SelectModeAutomatic")
	call(t, c, "cell/RecipeManagement", "PrepareRecipe", structure(&recipeIDExternal{binaryID{ID: "board"}}),
		structure(&recipeIDInternal{}))
	for _, id := range []uint32{5, 6} {
		if got := call(t, c, "cell/Handshake", "Trigger", id, "p2"); got[1] != int32(0) {
			t.Fatalf("trigger %d: %v", id, got)
		}
	}
	eventually(t, "the first result is shown", func() bool {
		return read(t, c,
			"cell/Handshake/Sequence")[0] == uint32(1)
	})
	release := func(handle uint32) any { return call(t, c, "cell/ResultManagement", "ReleaseResultHandle", handle)[0] }
	if got := release(1); got != int32(0) {
		t.Fatalf("the presented result: %v", got)
	}
	if got := release(1); got != int32(0) {
		t.Fatalf("the same again: %v", got)
	}
	eventually(t, "the second result is shown", func() bool {
		return read(t, c,
			"cell/Handshake/Sequence")[0] == uint32(2)
	})
}
