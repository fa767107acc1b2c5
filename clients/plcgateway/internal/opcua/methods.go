package opcua

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gopcua/opcua/ua"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// methods gives the methods of OPC 40100-1 what they do.
func (v *vision) methods() {
	const (
		object = ua.TypeIDExtensionObject
		int32s = ua.TypeIDInt32
		texts  = ua.TypeIDString
		list   = ua.TypeIDNull
	)
	sp := v.srv.space
	bind := func(path string, takes []ua.TypeID, f func(*session, []*ua.Variant) ([]any, error)) {
		sp.at(v.root, path).call = &method{takes, f}
	}
	// A command without arguments of its own: cause and its description are for the log.
	command := func(c station.Command) func(*session, []*ua.Variant) ([]any, error) {
		return func(s *session, args []*ua.Variant) ([]any, error) {
			_, code := v.do(s, c, station.CommandArgs{})
			v.note(s, c.String(), code, args)
			return []any{failure(code)}, nil
		}
	}
	const machine, automatic = "VisionStateMachine.", "VisionStateMachine.AutomaticModeStateMachine."
	cause := []ua.TypeID{int32s, texts}
	bind(machine+"Halt", cause, command(station.Halt))
	bind(machine+"Reset", cause, command(station.Reset))
	bind(machine+"SelectModeAutomatic", nil, command(station.AckError))
	bind(machine+"ConfirmAll", []ua.TypeID{ua.TypeIDLocalizedText}, func(s *session, args []*ua.Variant) ([]any, error) {
		_, code := v.do(s, station.AckError, station.CommandArgs{})
		v.note(s, station.AckError.String(), code, args)
		if code != station.NoError { // it has no output to say so
			return nil, ua.StatusBadInvalidState
		}
		return nil, nil
	})
	bind(automatic+"Stop", cause, command(station.Stop))
	bind(automatic+"Abort", cause, command(station.Abort))
	bind(automatic+"SimulationMode", []ua.TypeID{ua.TypeIDBoolean, int32s, texts}, func(s *session,
		a []*ua.Variant) ([]any, error) {
		if on, _ := a[0].Value().(bool); on {
			return []any{failure(station.WrongState)}, nil // results here are never simulated
		}
		return []any{failure(station.NoError)}, nil
	})
	start := []ua.TypeID{object, object, object, object, list}
	bind(automatic+"StartSingleJob", start, v.startSingle)
	bind(automatic+"StartContinuous", start, v.startContinuous)

	const recipes = "RecipeManagement."
	bind(recipes+"PrepareRecipe", []ua.TypeID{object, object}, func(s *session, a []*ua.Variant) ([]any, error) {
		return v.recipe(s, station.PrepareRecipe, a)
	})
	bind(recipes+"UnprepareRecipe", []ua.TypeID{object, object}, func(s *session, a []*ua.Variant) ([]any, error) {
		return v.recipe(s, station.UnprepareRecipe, a)
	})
	bind(recipes+"PrepareProduct", []ua.TypeID{object}, func(s *session, a []*ua.Variant) ([]any, error) {
		return v.product(s, station.PrepareRecipe, a[0])
	})
	bind(recipes+"UnprepareProduct", []ua.TypeID{object}, func(s *session, a []*ua.Variant) ([]any, error) {
		return v.product(s, station.UnprepareRecipe, a[0])
	})
	bind(recipes+"GetRecipeListFiltered", []ua.TypeID{object, object, int32s, ua.TypeIDUint32, ua.TypeIDUint32,
		int32s}, v.listRecipes)
	released := func(*session, []*ua.Variant) ([]any, error) { return []any{int32(0)}, nil } // lists hold nothing
	bind(recipes+"ReleaseRecipeHandle", []ua.TypeID{ua.TypeIDUint32}, released)

	const configurations = "ConfigurationManagement."
	own := func(a *ua.Variant) (bool, error) {
		id, err := argument[configurationID](a)
		return err == nil && id.ID == v.config.ID, err
	}
	active := func() *ua.ExtensionObject { return structure(&configurationData{v.config, v.started}) }
	bind(configurations+"GetConfigurationList", []ua.TypeID{ua.TypeIDUint32, ua.TypeIDUint32, int32s},
		func(_ *session, a []*ua.Variant) ([]any, error) {
			items := []*ua.ExtensionObject{}
			if from, _ := a[1].Value().(uint32); from == 0 {
				items = append(items, active())
			}
			return []any{true, uint32(len(items)), uint32(0), items, int32(0)}, nil
		})
	bind(configurations+"GetConfigurationById", []ua.TypeID{object, int32s}, func(_ *session, a []*ua.Variant) ([]any,
		error) {
		if ok, err := own(a[0]); !ok || err != nil {
			return []any{uint32(0), structure(&configurationData{}), failure(station.UnknownRecipe)}, err
		}
		return []any{uint32(0), active(), int32(0)}, nil
	})
	bind(configurations+"ActivateConfiguration", []ua.TypeID{object}, func(_ *session, a []*ua.Variant) ([]any, error) {
		ok, err := own(a[0])
		if !ok {
			return []any{failure(station.UnknownRecipe)}, err // there is one, and it is active
		}
		return []any{int32(0)}, err
	})
	bind(configurations+"ReleaseConfigurationHandle", []ua.TypeID{ua.TypeIDUint32}, released)

	const results = "ResultManagement."
	bind(results+"GetResultById", []ua.TypeID{object, int32s}, func(_ *session, a []*ua.Variant) ([]any, error) {
		r, err := v.find(a[0])
		if r == nil {
			return []any{uint32(0), structure(&result{}), failure(station.NothingWaits)}, err
		}
		return []any{r.Sequence, structure(r), int32(0)}, nil
	})
	bind(results+"GetResultComponentsById", []ua.TypeID{object, int32s}, func(_ *session, a []*ua.Variant) ([]any, error) {
		r, err := v.find(a[0])
		code := station.NoError
		if r == nil {
			r, code = &result{Content: []*ua.Variant{}}, station.NothingWaits
		}
		return []any{false, r.Sequence, false, false, r.State, structure(&r.Meas), structure(&r.Part),
			structure(&recipeIDExternal{r.Recipe.binaryID}),
			structure(&r.Recipe), structure(&r.Product), structure(&configurationID{}), structure(&r.Config),
			structure(&r.Job), r.Created,
			structure(&r.Times), r.Content, failure(code)}, err
	})
	bind(results+"GetResultListFiltered", []ua.TypeID{int32s, object, object, object, object, object, object, object,
		object,
		ua.TypeIDUint32, ua.TypeIDUint32, int32s}, v.listResults)
	bind(results+"ReleaseResultHandle", []ua.TypeID{ua.TypeIDUint32}, func(s *session, a []*ua.Variant) ([]any, error) {
		handle, _ := a[0].Value().(uint32)
		v.mu.Lock()
		h := v.holds[s]
		v.mu.Unlock()
		if h == nil || handle == 0 { // who looks on has nothing to acknowledge
			return []any{int32(0)}, nil
		}
		code := codeOf(h.Acknowledge(handle))
		// NothingWaits is right for a result that was acknowledged before. For one that still waits, such as while the
		// heartbeat is stale, it is told: the next result would never come.
		if code == station.NoError || code == station.NothingWaits && v.acknowledged(handle) {
			v.acked(handle)
			code = station.NoError
		}
		return []any{failure(code)}, nil
	})
}

// note logs what a person or a PLC gave as the cause of a command.
func (v *vision) note(s *session, what string, code station.Code, args []*ua.Variant) {
	attrs := []any{"station", v.cfg.Name, "by", s.who(), "command", what, "result", code.String()}
	for _, a := range args {
		if t, ok := textOf(a.Value()); ok && t != "" {
			attrs = append(attrs, "cause", t[:min(len(t), 200)])
		}
	}
	v.srv.log.Info("opcua: a command", attrs...)
}

// startSingle is StartSingleJob. MeasId is the trigger's id, a number; without one the gateway takes the next. The
// job's id is the trigger's.
func (v *vision) startSingle(s *session, a []*ua.Variant) ([]any, error) {
	id, part, code, err := v.startArguments(s, a)
	if err == nil && code == station.NoError {
		_, code = v.single(s, id, part)
	}
	if err != nil {
		return nil, err
	}
	job := &jobID{}
	if code == station.NoError {
		job.ID = strconv.FormatUint(uint64(id), 10)
	}
	return []any{structure(job), failure(code)}, nil
}

func (v *vision) single(s *session, id uint32, part string) (station.CommandResult, station.Code) {
	r, code := v.do(s, station.SingleJob, station.CommandArgs{TriggerID: id, PartID: part})
	if code == station.NoError {
		e := newEvent(jobStartedEvent, v.root.id, v.cfg.Name, "job "+strconv.FormatUint(uint64(id), 10)+" has started", 100)
		e.set("2:JobId", structure(&jobID{plainID{strconv.FormatUint(uint64(id), 10)}}))
		v.emit(e)
	}
	return r, code
}

func (v *vision) startContinuous(s *session, a []*ua.Variant) ([]any, error) {
	_, _, code, err := v.startArguments(s, a)
	if err != nil {
		return nil, err
	}
	if code == station.NoError {
		_, code = v.do(s, station.Continuous, station.CommandArgs{})
	}
	job := &jobID{}
	if code == station.NoError {
		v.mu.Lock()
		v.runs++
		v.run = "continuous-" + strconv.FormatUint(uint64(v.runs), 10)
		job.ID = v.run
		v.mu.Unlock()
		e := newEvent(jobStartedEvent, v.root.id, v.cfg.Name, "job "+job.ID+" has started", 100)
		e.set("2:JobId", structure(job))
		v.emit(e)
	}
	return []any{structure(job), failure(code)}, nil
}

// startArguments reads MeasId, PartId, RecipeId, ProductId and Parameters, and makes the recipe that they name the one
// that judges.
func (v *vision) startArguments(s *session, a []*ua.Variant) (id uint32, part string, code station.Code, err error) {
	meas, err := argument[measID](a[0])
	if err != nil {
		return
	}
	p, err := argument[partID](a[1])
	if err != nil {
		return
	}
	recipe, err := argument[recipeIDExternal](a[2])
	if err != nil {
		return
	}
	prod, err := argument[productID](a[3])
	if err != nil {
		return
	}
	if a[4].ArrayLength() > 0 {
		return 0, "", 0, ua.StatusBadInvalidArgument // there are no parameters
	}
	part = p.ID
	if meas.ID == "" {
		v.mu.Lock()
		if v.nextID++; v.nextID == 0 {
			v.nextID = 1
		}
		id = v.nextID
		v.mu.Unlock()
	} else {
		n, perr := strconv.ParseUint(meas.ID, 10, 32)
		if perr != nil || n == 0 {
			return 0, "", station.BadTriggerID, nil
		}
		id = uint32(n)
	}
	var slot uint16
	switch {
	case recipe.ID != "":
		slot, _, code = v.slot(&recipe.binaryID)
	case prod.ID != "":
		slot, code = v.slotOf(prod.ID)
	default:
		return id, part, station.NoError, nil
	}
	if code == station.NoError && v.station.Snapshot().Recipe.Slot != slot {
		_, code = v.do(s, station.SelectRecipe, station.CommandArgs{Slot: slot})
	}
	return id, part, code, nil
}

// slot finds the slot of a recipe's name, and the version that is asked for, 0 for none.
func (v *vision) slot(id *binaryID) (slot uint16, version uint64, code station.Code) {
	if id.Version != "" {
		n, err := strconv.ParseUint(id.Version, 10, 64)
		if err != nil {
			return 0, 0, station.UnknownRecipe
		}
		version = n
	}
	for _, n := range v.slots() {
		if r := v.cfg.Slots[n]; r.Name == id.ID && (version == 0 || r.Version == 0 || r.Version == version) {
			return n, version, station.NoError
		}
	}
	return 0, 0, station.UnknownRecipe
}

func (v *vision) slotOf(product string) (uint16, station.Code) {
	n, err := strconv.ParseUint(product, 10, 16)
	if _, ok := v.cfg.Slots[uint16(n)]; err != nil || !ok {
		return 0, station.UnknownSlot
	}
	return uint16(n), station.NoError
}

func (v *vision) slots() []uint16 {
	var list []uint16
	for n := range v.cfg.Slots {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// recipe is PrepareRecipe and UnprepareRecipe: of the external id or, where that is empty, of the internal one.
func (v *vision) recipe(s *session, c station.Command, a []*ua.Variant) ([]any, error) {
	external, err := argument[recipeIDExternal](a[0])
	if err != nil {
		return nil, err
	}
	inner, err := argument[recipeIDInternal](a[1])
	if err != nil {
		return nil, err
	}
	id := &external.binaryID
	if id.ID == "" {
		id = &inner.binaryID
	}
	slot, version, code := v.slot(id)
	out := internal(station.Recipe{})
	if code == station.NoError {
		var r station.CommandResult
		if r, code = v.do(s, c, station.CommandArgs{Slot: slot, Version: version}); code == station.NoError {
			out = internal(r.Recipe)
		}
	}
	if c == station.PrepareRecipe {
		return []any{structure(out), code == station.NoError, failure(code)}, nil
	}
	return []any{structure(out), failure(code)}, nil
}

func (v *vision) product(s *session, c station.Command, a *ua.Variant) ([]any, error) {
	p, err := argument[productID](a)
	if err != nil {
		return nil, err
	}
	out := internal(station.Recipe{})
	slot, code := v.slotOf(p.ID)
	if code == station.NoError {
		var r station.CommandResult
		if r, code = v.do(s, c, station.CommandArgs{Slot: slot}); code == station.NoError {
			out = internal(r.Recipe)
		}
	}
	return []any{structure(out), failure(code)}, nil
}

// page returns part of a list: from and most as a client asks for, most 0 for all.
func page[T any](all []T, most, from uint32) (part []T, complete bool) {
	part = all[min(int(from), len(all)):]
	if most != 0 && int(most) < len(part) {
		return part[:most], false
	}
	return part, true
}

func (v *vision) listRecipes(_ *session, a []*ua.Variant) ([]any, error) {
	external, err := argument[recipeIDExternal](a[0])
	if err != nil {
		return nil, err
	}
	prod, err := argument[productID](a[1])
	if err != nil {
		return nil, err
	}
	const no, yes = 0, 1 // of a tri-state boolean; anything else is both
	which, given := a[2].Value().(int32)
	if !given {
		which = 2
	}
	most, _ := a[3].Value().(uint32)
	from, _ := a[4].Value().(uint32)
	prepared := v.station.Prepared()
	var all []*ua.ExtensionObject
	for _, n := range v.slots() {
		r := v.cfg.Slots[n]
		p, is := prepared[n]
		if is {
			r = p
		}
		r.Slot = n
		if external.ID != "" && external.ID != r.Name || external.Version != "" && external.Version != internal(r).Version ||
			prod.ID != "" && prod.ID != product(r).ID || which == no && is || which == yes && !is {
			continue
		}
		all = append(all, structure(internal(r)))
	}
	part, complete := page(all, most, from)
	if part == nil {
		part = []*ua.ExtensionObject{}
	}
	return []any{complete, uint32(len(part)), uint32(0), part, int32(0)}, nil
}

// find returns the result of an id, or nil.
func (v *vision) find(a *ua.Variant) (*result, error) {
	id, err := argument[resultID](a)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.results {
		if r.ID.ID == id.ID {
			return r, nil
		}
	}
	return nil, nil
}

// listResults gives the results that are kept, the newest first, by the filters that are not empty.
func (v *vision) listResults(_ *session, a []*ua.Variant) ([]any, error) {
	state, _ := a[0].Value().(int32)
	meas, err := argument[measID](a[1])
	part, err2 := argument[partID](a[2])
	external, err3 := argument[recipeIDExternal](a[3])
	inner, err4 := argument[recipeIDInternal](a[4])
	job, err5 := argument[jobID](a[8])
	if err := cmp.Or(err, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	most, _ := a[9].Value().(uint32)
	from, _ := a[10].Value().(uint32)
	is := func(want, have string) bool { return want == "" || want == have }
	var all []*ua.ExtensionObject
	v.mu.Lock()
	for _, r := range slices.Backward(v.results) {
		if (state == 0 || state == r.State) && is(meas.ID, r.Meas.ID) && is(part.ID, r.Part.ID) && is(external.ID,
			r.Recipe.ID) &&
			is(external.Version, r.Recipe.Version) && is(inner.ID, r.Recipe.ID) && is(inner.Version,
			r.Recipe.Version) && is(job.ID, r.Job.ID) {
			all = append(all, structure(r))
		}
	}
	v.mu.Unlock()
	list, complete := page(all, most, from)
	if list == nil {
		list = []*ua.ExtensionObject{}
	}
	return []any{complete, uint32(len(list)), uint32(0), list, int32(0)}, nil
}

// acked notes that a result is acknowledged.
func (v *vision) acked(sequence uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.results {
		if r.Sequence == sequence {
			r.acked = true
		}
	}
}

// acknowledged says whether a result is acknowledged, or not kept any more.
func (v *vision) acknowledged(sequence uint32) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.results {
		if r.Sequence == sequence {
			return r.acked
		}
	}
	return true
}
