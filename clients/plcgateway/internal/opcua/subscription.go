package opcua

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gopcua/opcua/ua"
)

// Locks are taken in this order: space.mu, subscription.mu, session.mu.

// A publishRequest waits for a subscription that has something to say.
type publishRequest struct {
	conn    *conn
	id      uint32
	handle  uint32
	expires time.Time // zero: never
	results []ua.StatusCode
}

func (p publishRequest) fault(status ua.StatusCode) {
	resp := &ua.ServiceFault{ResponseHeader: responseHeader(p.handle, status)}
	_ = p.conn.send(p.id, resp) // its connection is gone where this fails
}

// A subscription sends what its items have gathered, once an interval, from a goroutine of its own.
type subscription struct {
	session *session
	id      uint32
	wake    chan struct{}
	done    chan struct{}
	once    sync.Once

	mu         sync.Mutex
	interval   time.Duration
	changed    bool // the interval is another
	lifetimes  uint32
	keepAlive  uint32
	most       int // notifications of a message; 0 for any number
	publishing bool
	items      map[uint32]*item
	order      []*item
	sequence   uint32
	retained   []retained // messages that can be asked for again
	idle, dead uint32     // cycles since the last message, and since the last publish request
	first      bool
	late       bool
}

type retained struct {
	*ua.NotificationMessage
	size int // notifications in it
}

// An item is one monitored item. All but sub, node and attribute is under sub.mu.
type item struct {
	sub       *subscription
	id        uint32
	node      *node
	attribute ua.AttributeID

	handle     uint32
	mode       ua.MonitoringMode
	timestamps ua.TimestampsToReturn
	size       int
	oldest     bool // is discarded where the queue is full
	filter     *eventFilter
	status     bool // only changes of the status are told

	values   []*ua.DataValue
	events   [][]*ua.Variant
	overflow bool
}

func (s *session) subscription(id uint32) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscriptions {
		if sub.id == id {
			return sub, nil
		}
	}
	return nil, ua.StatusBadSubscriptionIDInvalid
}

func revise(interval float64, lifetimes, keepAlive uint32) (time.Duration, uint32, uint32) {
	if math.IsNaN(interval) {
		interval = 0
	}
	d := time.Duration(min(max(interval, 0), 1e9) * float64(time.Millisecond))
	d = min(max(d, minPublishing), maxPublishing)
	if keepAlive == 0 {
		keepAlive = 10
	}
	keepAlive = min(keepAlive, maxKeepAlive)
	lifetimes = min(max(lifetimes, 3*keepAlive), maxLifetimes)
	return d, lifetimes, keepAlive
}

func (s *session) createSubscription(r *ua.CreateSubscriptionRequest) (ua.Response, error) {
	sub := &subscription{session: s, id: s.srv.nextID(), wake: make(chan struct{}, 1), done: make(chan struct{}),
		items: map[uint32]*item{}, publishing: r.PublishingEnabled, most: int(min(r.MaxNotificationsPerPublish,
			maxQueued)), first: true}
	sub.interval, sub.lifetimes, sub.keepAlive = revise(r.RequestedPublishingInterval, r.RequestedLifetimeCount,
		r.RequestedMaxKeepAliveCount)
	s.mu.Lock()
	if s.closed || len(s.subscriptions) >= maxSubscriptions {
		s.mu.Unlock()
		return nil, ua.StatusBadTooManySubscriptions
	}
	s.subscriptions = append(s.subscriptions, sub)
	s.mu.Unlock()
	go sub.run()
	return &ua.CreateSubscriptionResponse{SubscriptionID: sub.id,
		RevisedPublishingInterval: float64(sub.interval) / float64(time.Millisecond),
		RevisedLifetimeCount:      sub.lifetimes, RevisedMaxKeepAliveCount: sub.keepAlive}, nil
}

func (s *session) modifySubscription(r *ua.ModifySubscriptionRequest) (ua.Response, error) {
	sub, err := s.subscription(r.SubscriptionID)
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.interval, sub.lifetimes, sub.keepAlive = revise(r.RequestedPublishingInterval, r.RequestedLifetimeCount,
		r.RequestedMaxKeepAliveCount)
	sub.most, sub.changed, sub.dead = int(min(r.MaxNotificationsPerPublish, maxQueued)), true, 0
	sub.poke()
	return &ua.ModifySubscriptionResponse{RevisedPublishingInterval: float64(sub.interval) / float64(time.Millisecond),
		RevisedLifetimeCount: sub.lifetimes, RevisedMaxKeepAliveCount: sub.keepAlive}, nil
}

// each applies f to subscriptions by their ids.
func (s *session) each(ids []uint32, f func(*subscription)) ([]ua.StatusCode, error) {
	if err := tooMany(len(ids)); err != nil {
		return nil, err
	}
	var results []ua.StatusCode
	for _, id := range ids {
		sub, err := s.subscription(id)
		if err != nil {
			results = append(results, ua.StatusBadSubscriptionIDInvalid)
			continue
		}
		f(sub)
		results = append(results, ua.StatusOK)
	}
	return results, nil
}

func (s *session) setPublishingMode(r *ua.SetPublishingModeRequest) (ua.Response, error) {
	results, err := s.each(r.SubscriptionIDs, func(sub *subscription) {
		sub.mu.Lock()
		defer sub.mu.Unlock()
		sub.publishing, sub.dead = r.PublishingEnabled, 0
	})
	return &ua.SetPublishingModeResponse{Results: results, DiagnosticInfos: []*ua.DiagnosticInfo{}}, err
}

func (s *session) deleteSubscriptions(r *ua.DeleteSubscriptionsRequest) (ua.Response, error) {
	results, err := s.each(r.SubscriptionIDs, (*subscription).close)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	var orphans []publishRequest
	if len(s.subscriptions) == 0 {
		orphans, s.waiting = s.waiting, nil
	}
	s.mu.Unlock()
	for _, p := range orphans {
		p.fault(ua.StatusBadNoSubscription)
	}
	return &ua.DeleteSubscriptionsResponse{Results: results, DiagnosticInfos: []*ua.DiagnosticInfo{}}, nil
}

// transferSubscriptions finds none of another session: subscriptions end with theirs.
func (s *session) transferSubscriptions(r *ua.TransferSubscriptionsRequest) (ua.Response, error) {
	if err := tooMany(len(r.SubscriptionIDs)); err != nil {
		return nil, err
	}
	resp := &ua.TransferSubscriptionsResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for range r.SubscriptionIDs {
		resp.Results = append(resp.Results, &ua.TransferResult{StatusCode: ua.StatusBadSubscriptionIDInvalid,
			AvailableSequenceNumbers: []uint32{}})
	}
	return resp, nil
}

// close ends a subscription with its items.
func (sub *subscription) close() {
	sub.once.Do(func() {
		close(sub.done)
		s := sub.session
		sub.mu.Lock()
		items := slices.Collect(maps.Values(sub.items))
		sub.mu.Unlock()
		for _, i := range items {
			sub.remove(i)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscriptions = slices.DeleteFunc(s.subscriptions, func(o *subscription) bool { return o == sub })
	})
}

func (sub *subscription) poke() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

func (sub *subscription) run() {
	tick := time.NewTicker(sub.interval)
	defer tick.Stop()
	for {
		cycle := false
		select {
		case <-sub.done:
			return
		case <-sub.wake:
		case <-tick.C:
			cycle = true
		}
		sub.mu.Lock()
		if sub.changed {
			tick.Reset(sub.interval)
			sub.changed = false
		}
		sub.mu.Unlock()
		for {
			p, resp, more := sub.next(cycle)
			if resp == nil {
				break
			}
			if p.conn.send(p.id, resp) != nil || !more {
				break // what could not be sent can be asked for again
			}
			cycle = false
		}
		sub.mu.Lock()
		dead := sub.dead > sub.lifetimes
		sub.mu.Unlock()
		if dead {
			sub.session.srv.log.Info("opcua: a subscription ended: its client asks for nothing", "session", sub.session.name)
			sub.close()
			return
		}
	}
}

// next returns a message and the request that it answers, where there are both.
func (sub *subscription) next(cycle bool) (p publishRequest, resp *ua.PublishResponse, more bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	s := sub.session
	if cycle {
		sub.idle++
		if s.asks() {
			sub.dead = 0
		} else {
			sub.dead++
		}
	} else if !sub.late {
		return p, nil, false
	}
	waits := sub.publishing && slices.ContainsFunc(sub.order, (*item).has)
	if !waits && !sub.first && sub.idle < sub.keepAlive {
		sub.late = false
		return p, nil, false
	}
	p, ok := s.take()
	if !ok {
		sub.late = true
		return p, nil, false
	}
	sub.late, sub.first, sub.idle, sub.dead = false, false, 0, 0
	message := &ua.NotificationMessage{SequenceNumber: sub.sequence + 1, PublishTime: time.Now(),
		NotificationData: []*ua.ExtensionObject{}}
	if message.SequenceNumber == 0 {
		message.SequenceNumber = 1
	}
	if waits {
		sub.sequence = message.SequenceNumber
		var size int
		message.NotificationData, size, more = sub.gather()
		sub.retained = append(sub.retained, retained{message, size})
		total := 0
		for _, m := range sub.retained {
			total += m.size
		}
		for len(sub.retained) > 1 && (len(sub.retained) > maxRetained || total > maxQueued) {
			total -= sub.retained[0].size
			sub.retained = slices.Delete(sub.retained, 0, 1)
		}
		sub.late = more
	}
	available := []uint32{}
	for _, m := range sub.retained {
		available = append(available, m.SequenceNumber)
	}
	if p.results == nil {
		p.results = []ua.StatusCode{}
	}
	return p, &ua.PublishResponse{ResponseHeader: responseHeader(p.handle, ua.StatusOK), SubscriptionID: sub.id,
		AvailableSequenceNumbers: available, MoreNotifications: more, NotificationMessage: message, Results: p.results,
		DiagnosticInfos: []*ua.DiagnosticInfo{}}, more
}

func (i *item) has() bool {
	return i.mode == ua.MonitoringModeReporting && len(i.values)+len(i.events) > 0
}

// gather takes notifications out of the items' queues, and says whether some are left.
func (sub *subscription) gather() (data []*ua.ExtensionObject, size int, more bool) {
	room := sub.most
	if room == 0 {
		room = maxQueued
	}
	var changes []*ua.MonitoredItemNotification
	var events []*ua.EventFieldList
	for _, i := range sub.order {
		if !i.has() {
			continue
		}
		n := min(room, len(i.values))
		for _, d := range i.values[:n] {
			changes = append(changes, &ua.MonitoredItemNotification{ClientHandle: i.handle, Value: stamped(d, i.timestamps)})
		}
		i.values = slices.Delete(i.values, 0, n)
		room -= n
		if i.overflow && i.filter != nil && room > 0 {
			events = append(events, &ua.EventFieldList{ClientHandle: i.handle, EventFields: i.filter.fields(overflowEvent())})
			i.overflow = false
			room--
		}
		n = min(room, len(i.events))
		for _, e := range i.events[:n] {
			events = append(events, &ua.EventFieldList{ClientHandle: i.handle, EventFields: e})
		}
		i.events = slices.Delete(i.events, 0, n)
		room -= n
		more = more || len(i.values)+len(i.events) > 0
	}
	if changes != nil {
		data = append(data, ua.NewExtensionObject(&ua.DataChangeNotification{MonitoredItems: changes,
			DiagnosticInfos: []*ua.DiagnosticInfo{}}))
	}
	if events != nil {
		data = append(data, ua.NewExtensionObject(&ua.EventNotificationList{Events: events}))
	}
	return data, len(changes) + len(events), more
}

// asks says whether a publish request waits, and drops those that are too old.
func (s *session) asks() bool {
	s.mu.Lock()
	now := time.Now()
	var old []publishRequest
	s.waiting = slices.DeleteFunc(s.waiting, func(p publishRequest) bool {
		if !p.expires.IsZero() && now.After(p.expires) {
			old = append(old, p)
			return true
		}
		return false
	})
	n := len(s.waiting)
	s.mu.Unlock()
	for _, p := range old {
		go p.fault(ua.StatusBadTimeout) // under the lock of a subscription
	}
	return n > 0
}

func (s *session) take() (publishRequest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return publishRequest{}, false
	}
	p := s.waiting[0]
	s.waiting = slices.Delete(s.waiting, 0, 1)
	return p, true
}

func (s *session) publish(r *ua.PublishRequest, id uint32) (ua.Response, error) {
	p := publishRequest{id: id, handle: r.RequestHeader.RequestHandle}
	if r.RequestHeader.TimeoutHint != 0 {
		p.expires = time.Now().Add(time.Duration(r.RequestHeader.TimeoutHint) * time.Millisecond)
	}
	for _, a := range r.SubscriptionAcknowledgements {
		status := ua.StatusBadSubscriptionIDInvalid
		if sub, err := s.subscription(a.SubscriptionID); err == nil {
			status = sub.acknowledge(a.SequenceNumber)
		}
		p.results = append(p.results, status)
	}
	s.mu.Lock()
	if len(s.subscriptions) == 0 {
		s.mu.Unlock()
		return nil, ua.StatusBadNoSubscription
	}
	p.conn = s.conn
	s.waiting = append(s.waiting, p)
	var over []publishRequest
	if len(s.waiting) > maxPublish {
		over = append(over, s.waiting[0])
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	subs := slices.Clone(s.subscriptions)
	s.mu.Unlock()
	for _, o := range over {
		o.fault(ua.StatusBadTooManyPublishRequests)
	}
	for _, sub := range subs {
		sub.poke()
	}
	return nil, nil
}

func (sub *subscription) acknowledge(sequence uint32) ua.StatusCode {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	i := slices.IndexFunc(sub.retained, func(m retained) bool { return m.SequenceNumber == sequence })
	if i < 0 {
		return ua.StatusBadSequenceNumberUnknown
	}
	sub.retained = slices.Delete(sub.retained, i, i+1)
	return ua.StatusOK
}

func (s *session) republish(r *ua.RepublishRequest) (ua.Response, error) {
	sub, err := s.subscription(r.SubscriptionID)
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.dead = 0
	for _, m := range sub.retained {
		if m.SequenceNumber == r.RetransmitSequenceNumber {
			return &ua.RepublishResponse{NotificationMessage: m.NotificationMessage}, nil
		}
	}
	return nil, ua.StatusBadMessageNotAvailable
}

// Monitored items.

func (s *session) createItems(r *ua.CreateMonitoredItemsRequest) (ua.Response, error) {
	sub, err := s.subscription(r.SubscriptionID)
	if err == nil {
		err = tooMany(len(r.ItemsToCreate))
	}
	if err == nil && r.TimestampsToReturn > ua.TimestampsToReturnNeither {
		err = ua.StatusBadTimestampsToReturnInvalid
	}
	if err != nil {
		return nil, err
	}
	resp := &ua.CreateMonitoredItemsResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	for _, c := range r.ItemsToCreate {
		resp.Results = append(resp.Results, sub.createItem(c, r.TimestampsToReturn))
	}
	return resp, nil
}

func (sub *subscription) createItem(c *ua.MonitoredItemCreateRequest,
	stamps ua.TimestampsToReturn) *ua.MonitoredItemCreateResult {
	result := &ua.MonitoredItemCreateResult{FilterResult: ua.NewExtensionObject(nil)}
	s := sub.session
	sp := s.srv.space
	sp.mu.Lock()
	defer sp.mu.Unlock()
	n := sp.nodes[keyOf(c.ItemToMonitor.NodeID)]
	i := &item{sub: sub, id: s.srv.nextID(), node: n, attribute: c.ItemToMonitor.AttributeID, mode: c.MonitoringMode,
		timestamps: stamps}
	var first *ua.DataValue
	switch {
	case c.MonitoringMode > ua.MonitoringModeReporting:
		result.StatusCode = ua.StatusBadMonitoringModeInvalid
	case n == nil:
		result.StatusCode = ua.StatusBadNodeIDUnknown
	case i.attribute == ua.AttributeIDEventNotifier:
		if n.class != ua.NodeClassObject || n.notifier&1 == 0 {
			result.StatusCode = ua.StatusBadAttributeIDInvalid
		}
	default:
		first = sp.attribute(c.ItemToMonitor)
		if first.Status == ua.StatusBadAttributeIDInvalid || first.Status == ua.StatusBadIndexRangeNoData ||
			first.Status == ua.StatusBadDataEncodingInvalid || first.Status == ua.StatusBadDataEncodingUnsupported {
			result.StatusCode = first.Status
		}
	}
	if result.StatusCode != ua.StatusOK {
		return result
	}
	var status ua.StatusCode
	if result.FilterResult, status = i.configure(sp, c.RequestedParameters); status != ua.StatusOK {
		result.StatusCode = status
		return result
	}
	s.mu.Lock()
	if s.closed || s.items >= maxItems || s.queued+i.size > maxQueued {
		s.mu.Unlock()
		result.StatusCode = ua.StatusBadTooManyMonitoredItems
		return result
	}
	s.items++
	s.queued += i.size
	s.mu.Unlock()
	sub.mu.Lock()
	sub.items[i.id] = i
	sub.order = append(sub.order, i)
	sub.mu.Unlock()
	if n.watchers == nil {
		n.watchers = map[*item]struct{}{}
	}
	if i.attribute == ua.AttributeIDValue || i.filter != nil {
		n.watchers[i] = struct{}{}
	}
	if first != nil {
		i.push(first)
	}
	result.MonitoredItemID, result.RevisedQueueSize = i.id, uint32(i.size)
	return result
}

// configure takes what a client asks of an item; sub.mu is held where the item is in use.
func (i *item) configure(sp *space, p *ua.MonitoringParameters) (*ua.ExtensionObject, ua.StatusCode) {
	result := ua.NewExtensionObject(nil)
	var filter any
	if p.Filter != nil {
		filter = p.Filter.Value
	}
	var events *eventFilter
	onlyStatus := false
	switch f := filter.(type) {
	case nil:
		if i.attribute == ua.AttributeIDEventNotifier {
			return result, ua.StatusBadEventFilterInvalid
		}
	case *ua.EventFilter:
		if i.attribute != ua.AttributeIDEventNotifier {
			return result, ua.StatusBadFilterNotAllowed
		}
		var status ua.StatusCode
		var r *ua.EventFilterResult
		if events, r, status = sp.newFilter(f); status != ua.StatusOK {
			return ua.NewExtensionObject(r), status
		}
		result = ua.NewExtensionObject(r)
	case *ua.DataChangeFilter:
		switch {
		case i.attribute != ua.AttributeIDValue:
			return result, ua.StatusBadFilterNotAllowed
		case f.DeadbandType != 0:
			return result, ua.StatusBadMonitoredItemFilterUnsupported
		}
		onlyStatus = f.Trigger == ua.DataChangeTriggerStatus
	default:
		return result, ua.StatusBadMonitoredItemFilterUnsupported
	}
	i.filter, i.status = events, onlyStatus
	i.handle, i.oldest, i.size = p.ClientHandle, p.DiscardOldest, int(min(max(p.QueueSize, 1), maxItemQueue))
	if i.filter != nil && p.QueueSize <= 1 {
		i.size = 32 // what a client means that does not care
	}
	return result, ua.StatusOK
}

// push queues a value; space.mu is held.
func (i *item) push(d *ua.DataValue) {
	i.sub.mu.Lock()
	defer i.sub.mu.Unlock()
	if i.mode == ua.MonitoringModeDisabled || i.status && len(i.values) > 0 &&
		i.values[len(i.values)-1].Status == d.Status {
		return
	}
	if len(i.values) < i.size {
		i.values = append(i.values, d)
		return
	}
	lost := *d
	if i.size > 1 {
		const overflow = 0x480 // info type data value, overflow
		lost.Status |= overflow
		lost.EncodingMask |= ua.DataValueStatusCode
	}
	if i.oldest {
		i.values = append(slices.Delete(i.values, 0, 1), d)
		if i.size > 1 {
			first := *i.values[0]
			first.Status, first.EncodingMask = lost.Status&0x480|first.Status, first.EncodingMask|ua.DataValueStatusCode
			i.values[0] = &first
		}
		return
	}
	i.values[len(i.values)-1] = &lost
}

// notify queues an event; space.mu is held.
func (i *item) notify(e *event) {
	if i.mode == ua.MonitoringModeDisabled || !i.filter.passes(i.sub.session.srv.space, e) {
		return
	}
	fields := i.filter.fields(e)
	if len(i.events) >= i.size {
		i.overflow = true
		if !i.oldest {
			return
		}
		i.events = slices.Delete(i.events, 0, 1)
	}
	i.events = append(i.events, fields)
}

// emit sends an event to those that listen at the notifiers.
func (s *space) emit(e *event, notifiers ...nodeID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range notifiers {
		for w := range s.nodes[id].watchers {
			w.sub.mu.Lock()
			w.notify(e)
			w.sub.mu.Unlock()
		}
	}
}

// remove takes an item out.
func (sub *subscription) remove(i *item) {
	sp := sub.session.srv.space
	sp.mu.Lock()
	delete(i.node.watchers, i)
	sp.mu.Unlock()
	sub.mu.Lock()
	if sub.items[i.id] != i {
		sub.mu.Unlock()
		return
	}
	delete(sub.items, i.id)
	sub.order = slices.DeleteFunc(sub.order, func(o *item) bool { return o == i })
	size := i.size
	sub.mu.Unlock()
	sub.session.mu.Lock()
	defer sub.session.mu.Unlock()
	sub.session.items--
	sub.session.queued -= size
}

// eachItem applies f to items by their ids.
func (s *session) eachItem(subscription uint32, ids []uint32, f func(*subscription,
	*item) ua.StatusCode) ([]ua.StatusCode, error) {
	sub, err := s.subscription(subscription)
	if err == nil {
		err = tooMany(len(ids))
	}
	if err != nil {
		return nil, err
	}
	var results []ua.StatusCode
	for _, id := range ids {
		sub.mu.Lock()
		i := sub.items[id]
		sub.mu.Unlock()
		if i == nil {
			results = append(results, ua.StatusBadMonitoredItemIDInvalid)
			continue
		}
		results = append(results, f(sub, i))
	}
	return results, nil
}

func (s *session) deleteItems(r *ua.DeleteMonitoredItemsRequest) (ua.Response, error) {
	results, err := s.eachItem(r.SubscriptionID, r.MonitoredItemIDs, func(sub *subscription, i *item) ua.StatusCode {
		sub.remove(i)
		return ua.StatusOK
	})
	return &ua.DeleteMonitoredItemsResponse{Results: results, DiagnosticInfos: []*ua.DiagnosticInfo{}}, err
}

func (s *session) setMonitoringMode(r *ua.SetMonitoringModeRequest) (ua.Response, error) {
	if r.MonitoringMode > ua.MonitoringModeReporting {
		return nil, ua.StatusBadMonitoringModeInvalid
	}
	sp := s.srv.space
	results, err := s.eachItem(r.SubscriptionID, r.MonitoredItemIDs, func(sub *subscription, i *item) ua.StatusCode {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		sub.mu.Lock()
		was := i.mode
		i.mode = r.MonitoringMode
		if i.mode == ua.MonitoringModeDisabled {
			i.values, i.events, i.overflow = nil, nil, false
		}
		sub.mu.Unlock()
		if was == ua.MonitoringModeDisabled && i.mode != was && i.attribute == ua.AttributeIDValue {
			i.push(i.node.current())
		}
		return ua.StatusOK
	})
	return &ua.SetMonitoringModeResponse{Results: results, DiagnosticInfos: []*ua.DiagnosticInfo{}}, err
}

func (s *session) modifyItems(r *ua.ModifyMonitoredItemsRequest) (ua.Response, error) {
	ids := make([]uint32, len(r.ItemsToModify))
	for k, m := range r.ItemsToModify {
		ids[k] = m.MonitoredItemID
	}
	resp := &ua.ModifyMonitoredItemsResponse{DiagnosticInfos: []*ua.DiagnosticInfo{}}
	k := 0
	byID := map[uint32]*ua.MonitoringParameters{}
	for _, m := range r.ItemsToModify {
		byID[m.MonitoredItemID] = m.RequestedParameters
	}
	made := map[uint32]*ua.MonitoredItemModifyResult{}
	results, err := s.eachItem(r.SubscriptionID, ids, func(sub *subscription, i *item) ua.StatusCode {
		one := &ua.MonitoredItemModifyResult{}
		made[i.id] = one
		return sub.modify(i, byID[i.id], r.TimestampsToReturn, one)
	})
	for ; k < len(results); k++ {
		one := made[ids[k]]
		if one == nil {
			one = &ua.MonitoredItemModifyResult{}
		}
		if one.FilterResult == nil {
			one.FilterResult = ua.NewExtensionObject(nil)
		}
		one.StatusCode = results[k]
		resp.Results = append(resp.Results, one)
	}
	return resp, err
}

func (sub *subscription) modify(i *item, p *ua.MonitoringParameters, stamps ua.TimestampsToReturn,
	result *ua.MonitoredItemModifyResult) ua.StatusCode {
	s := sub.session
	s.srv.space.mu.RLock()
	defer s.srv.space.mu.RUnlock()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	next := &item{attribute: i.attribute}
	var status ua.StatusCode
	if result.FilterResult, status = next.configure(s.srv.space, p); status != ua.StatusOK {
		return status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued-i.size+next.size > maxQueued {
		return ua.StatusBadTooManyMonitoredItems
	}
	s.queued += next.size - i.size
	i.handle, i.oldest, i.size, i.filter, i.status, i.timestamps = next.handle, next.oldest, next.size, next.filter,
		next.status, stamps
	if over := len(i.values) - i.size; over > 0 {
		i.values = slices.Delete(i.values, 0, over)
	}
	if over := len(i.events) - i.size; over > 0 {
		i.events, i.overflow = slices.Delete(i.events, 0, over), true
	}
	result.RevisedQueueSize = uint32(i.size)
	return ua.StatusOK
}
