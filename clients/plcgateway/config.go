package main

// The configuration: one file, checked before anything runs. Each mistake is told with its line.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/modbus"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/source"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	"github.com/polyscan/polyscan/internal/command"
	"github.com/polyscan/polyscan/internal/digits"
)

// config is a file.
type config struct {
	// HTTP is the address of metrics and health; without it there are none.
	HTTP      string                   `yaml:"http,omitempty"`
	LogLevel  string                   `yaml:"log-level"`
	LogFormat string                   `yaml:"log-format"`
	Servers   map[string]*serverConfig `yaml:"servers"`
	Modbus    *modbusConfig            `yaml:"modbus,omitempty"`
	MQTT      *mqttConfig              `yaml:"mqtt,omitempty"`
	OPCUA     *opcuaConfig             `yaml:"opcua,omitempty"`
	Stations  []stationConfig          `yaml:"stations"`
}

// serverConfig is a polyscan server.
type serverConfig struct {
	Addr       string `yaml:"addr"`
	TLS        bool   `yaml:"tls,omitempty"`
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"server-name,omitempty"`
	TokenFile  string `yaml:"token-file,omitempty"`
}

// options are those of the connection.
func (s *serverConfig) options() (opts []clients.Option) {
	if s.TLS || s.CA != "" || s.Cert != "" || s.Key != "" || s.ServerName != "" {
		opts = append(opts, clients.WithTLS(clients.TLSFiles{CA: s.CA, Cert: s.Cert, Key: s.Key, ServerName: s.ServerName}))
	}
	if s.TokenFile != "" {
		opts = append(opts, clients.WithTokenFile(s.TokenFile))
	}
	return opts
}

// modbusConfig is the Modbus TCP server of all stations that have a unit.
type modbusConfig struct {
	Listen    string           `yaml:"listen"`
	WordOrder modbus.WordOrder `yaml:"word-order"`
}

// stationConfig is a station. Exactly one of Parts, Resident and Folder says where its verdicts are from.
type stationConfig struct {
	Name      string            `yaml:"name"`
	Server    string            `yaml:"server"`
	Parts     string            `yaml:"parts,omitempty"`
	Resident  string            `yaml:"resident,omitempty"`
	Folder    string            `yaml:"folder,omitempty"`
	Recipes   map[uint16]string `yaml:"recipes"`
	Prepare   uint16            `yaml:"prepare,omitempty"`
	Deadline  time.Duration     `yaml:"deadline"`
	Heartbeat time.Duration     `yaml:"heartbeat"`
	Values    []string          `yaml:"values,omitempty,flow"`
	Modbus    *stationModbus    `yaml:"modbus,omitempty"`
	// MQTT: the station is seen over the broker, too.
	MQTT bool `yaml:"mqtt,omitempty"`
	// OPCUA: the station is a vision system of the OPC UA server.
	OPCUA bool `yaml:"opcua,omitempty"`
}

// stationModbus is how a station is seen over Modbus.
type stationModbus struct {
	Unit uint8 `yaml:"unit"`
	// WordOrder is that of all stations unless it is given.
	WordOrder modbus.WordOrder `yaml:"word-order,omitempty"`
}

func (c *config) station(name string) *stationConfig {
	for i := range c.Stations {
		if c.Stations[i].Name == name {
			return &c.Stations[i]
		}
	}
	return nil
}

// slots are the recipes of a station; the file was checked.
func (s *stationConfig) slots() map[uint16]station.Recipe {
	slots := map[uint16]station.Recipe{}
	for n, text := range s.Recipes {
		ref, _ := clients.ParseRecipeRef(text)
		slots[n] = station.Recipe{Slot: n, Name: ref.GetName(), Version: ref.GetVersion()}
	}
	return slots
}

func (s *stationConfig) values() (values []source.Value) {
	for _, text := range s.Values {
		v, _ := source.ParseValue(text)
		values = append(values, v)
	}
	return values
}

// level is the slog level; the file was checked.
func (c *config) level() (l slog.Level) {
	_ = l.UnmarshalText([]byte(c.LogLevel))
	return l
}

// print writes the configuration as a file that is the same again.
func (c *config) print(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(c), e.Close())
}

// loadConfig reads and checks a file. The error is an *inputError with a line for each mistake.
func loadConfig(name string) (*config, error) {
	text, err := readConfig(name)
	if err != nil {
		return nil, err
	}
	return parseConfig(name, text)
}

func readConfig(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usage("--config: %v", err)
	}
	return text, nil
}

// inJSON finds the setting in a text that may be no YAML, whose mistakes are to be told in the form that it asks for.
var inJSON = regexp.MustCompile(`(?m)^["']?log-format["']?:[ \t]*["']?json\b`)

func parseConfig(name string, text []byte) (*config, error) {
	k := &checker{name: name}
	root, err := command.Document(name, text)
	switch {
	case err != nil:
		return nil, &inputError{err.Error()}
	case root == nil:
		k.add("the file is empty")
		return nil, k.err()
	}
	k.root = root
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	c := &config{}
	if err = d.Decode(c); err == nil {
		plainNumbers(root)
		c = &config{}
		err = root.Decode(c)
	}
	if err != nil {
		k.decode(err)
		return nil, k.err()
	}
	c.defaults(k)
	c.check(k)
	k.empty(k.root, "")
	return c, k.err()
}

// plainNumbers makes texts of all numbers but whole ones in plain digits. The YAML library would take 1.7 for slot 1,
// 010 for slot 8, and of slots 01 and 1 the last.
func plainNumbers(n *yaml.Node) {
	if n.Tag == "!!float" || n.Tag == "!!int" && !digits.Whole(n.Value) {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		plainNumbers(c)
	}
}

// defaults fills in what a file leaves out. What it sets to nothing stays so, and is a mistake. A setting that comes from
// another station, by "<<", is not found in this one.
func (c *config) defaults(k *checker) {
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	c.LogFormat = cmp.Or(c.LogFormat, "text")
	if c.Modbus != nil {
		c.Modbus.WordOrder = cmp.Or(c.Modbus.WordOrder, modbus.HighFirst)
	}
	if c.OPCUA != nil {
		c.OPCUA.defaults(k)
	}
	for i := range c.Stations {
		s := &c.Stations[i]
		if s.Server == "" && len(c.Servers) == 1 {
			s.Server = slices.Collect(maps.Keys(c.Servers))[0]
		}
		if s.Deadline == 0 && !k.has("stations", i, "deadline") {
			s.Deadline = 50 * time.Millisecond
		}
		if s.Heartbeat == 0 && !k.has("stations", i, "heartbeat") {
			s.Heartbeat = 500 * time.Millisecond
		}
	}
}

// The bounds of times.
const (
	minDeadline, maxDeadline   = time.Millisecond, time.Minute
	minHeartbeat, maxHeartbeat = 100 * time.Millisecond, 10 * time.Second
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c *config) check(k *checker) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		k.add("log-level %q: want debug, info, warn or error", c.LogLevel).at("log-level")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		k.add("log-format %q: want text or json", c.LogFormat).at("log-format")
	}
	k.listen(c.HTTP, c.HTTP != "", "http")
	if len(c.Servers) == 0 {
		k.add("servers: there is none").at("servers")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		switch s := c.Servers[name]; {
		case s == nil || s.Addr == "":
			k.add("server %s: addr is missing", name).at("servers", name)
		case !strings.HasPrefix(s.Addr, "unix") && !strings.Contains(s.Addr, "://") && !hostPort(s.Addr, 1):
			k.add("server %s: addr %q: want HOST:PORT or unix:PATH", name, s.Addr).at("servers", name, "addr")
		default:
			l, err := source.Dial(name, s.Addr, slog.New(slog.DiscardHandler), s.options()...)
			if err != nil {
				k.add("server %s: %s", name, strings.TrimPrefix(err.Error(), "clients: ")).at("servers", name)
			} else {
				l.Close()
			}
		}
	}
	if c.Modbus != nil {
		k.listen(c.Modbus.Listen, true, "modbus", "listen")
		k.order(c.Modbus.WordOrder, false, "modbus", "word-order")
	}
	if c.MQTT != nil {
		c.MQTT.check(k)
	}
	if c.OPCUA != nil {
		c.OPCUA.check(k)
	}
	if len(c.Stations) == 0 {
		k.add("stations: there is none").at("stations")
	}
	// A section that serves no station would listen for nobody, or not at all.
	for section, there := range map[string]bool{"modbus": c.Modbus != nil, "mqtt": c.MQTT != nil, "opcua": c.OPCUA != nil} {
		if there && !slices.ContainsFunc(c.Stations, func(s stationConfig) bool { return s.protocols()[section] }) {
			k.add("%s: no station says %s", section, section).at(section)
		}
	}
	names, units := map[string]bool{}, map[uint8]string{}
	for i := range c.Stations {
		s := &c.Stations[i]
		s.check(c, i, k)
		if names[s.Name] {
			k.add("station %s: another one has this name", s.Name).at("stations", i, "name")
		}
		names[s.Name] = true
		if s.Modbus == nil {
			continue
		}
		if other := units[s.Modbus.Unit]; other != "" {
			k.add("station %s: unit %d is that of %s", s.Name, s.Modbus.Unit, other).at("stations", i, "modbus", "unit")
		}
		units[s.Modbus.Unit] = s.Name
	}
}

// protocols are those that serve a station, by their sections.
func (s *stationConfig) protocols() map[string]bool {
	return map[string]bool{"modbus": s.Modbus != nil, "mqtt": s.MQTT, "opcua": s.OPCUA}
}

func (s *stationConfig) check(c *config, i int, k *checker) {
	bad := func(field string, format string, args ...any) {
		k.add("station %s: "+format, append([]any{cmp.Or(s.Name, fmt.Sprint(i+1))}, args...)...).at("stations", i, field)
	}
	if !namePattern.MatchString(s.Name) {
		bad("name", "name %q: want 1 to 63 letters, digits and . _ -, a letter or digit first", s.Name)
	}
	switch {
	case s.Server == "" && len(c.Servers) == 0: // which is told by itself
	case s.Server == "":
		bad("server", "server is missing, and there are several")
	case c.Servers[s.Server] == nil:
		bad("server", "server %q: there is none of that name", s.Server)
	}
	if s.Parts != "" {
		if err := cli.CheckStreamName(s.Parts); err != nil {
			bad("parts", "parts: %v", err)
		}
	}
	n := 0
	for _, where := range []string{s.Parts, s.Resident, s.Folder} {
		if where != "" {
			n++
		}
	}
	if n != 1 {
		bad("", "want one of parts, resident and folder")
	}
	if s.Folder != "" {
		if info, err := os.Stat(s.Folder); err != nil || !info.IsDir() {
			bad("folder", "folder %s: no such folder", s.Folder)
		}
	}
	if len(s.Recipes) == 0 {
		bad("recipes", "recipes: there is none")
	}
	for _, slot := range slices.Sorted(maps.Keys(s.Recipes)) {
		if slot == 0 {
			bad("recipes", "recipes: slots count from 1")
		}
		if _, err := clients.ParseRecipeRef(s.Recipes[slot]); err != nil {
			k.add("station %s: %v", s.Name, err).at("stations", i, "recipes", fmt.Sprint(slot))
		}
	}
	if _, ok := s.Recipes[s.Prepare]; !ok && (s.Prepare != 0 || k.has("stations", i, "prepare")) {
		bad("prepare", "prepare %d: no recipe has this slot", s.Prepare)
	}
	if s.Deadline < minDeadline || s.Deadline > maxDeadline {
		bad("deadline", "deadline %v: must be %v to %v", s.Deadline, minDeadline, maxDeadline)
	}
	if s.Heartbeat < minHeartbeat || s.Heartbeat > maxHeartbeat {
		bad("heartbeat", "heartbeat %v: must be %v to %v", s.Heartbeat, minHeartbeat, maxHeartbeat)
	}
	if len(s.Values) > station.MaxValues {
		bad("values", "%d values: at most %d", len(s.Values), station.MaxValues)
	}
	for j, text := range s.Values {
		if _, err := source.ParseValue(text); err != nil {
			k.add("station %s: %v", s.Name, err).at("stations", i, "values", j)
		}
	}
	if s.Modbus != nil {
		if s.Modbus.Unit < 1 || s.Modbus.Unit > 247 {
			bad("modbus", "unit %d: must be 1 to 247", s.Modbus.Unit)
		}
		if c.Modbus == nil {
			bad("modbus", "modbus: the file has no modbus section that says where to listen")
		}
		k.order(s.Modbus.WordOrder, true, "stations", i, "modbus", "word-order")
	}
	if s.Modbus == nil && !s.MQTT && !s.OPCUA {
		bad("", "no PLC can reach it: want one of modbus, mqtt and opcua")
	}
	if s.OPCUA && c.OPCUA == nil {
		bad("opcua", "opcua: the file has no opcua section that says where to listen")
	}
	if s.MQTT && c.MQTT == nil {
		bad("mqtt", "mqtt: the file has no mqtt section that names a broker")
	}
}

// checker collects mistakes, and finds their lines.
type checker struct {
	name     string
	root     *yaml.Node
	mistakes []*mistake
	listens  []string
}

type mistake struct {
	k    *checker
	line int
	text string
}

func (k *checker) add(format string, args ...any) *mistake {
	m := &mistake{k: k, line: 1, text: fmt.Sprintf(format, args...)}
	k.mistakes = append(k.mistakes, m)
	return m
}

// at says which field a mistake is about: keys of maps, and indices. Where it is missing, the line is of what should
// hold it.
func (m *mistake) at(path ...any) { m.line, _ = m.k.find(path...) }

// has says whether the file has a field.
func (k *checker) has(path ...any) bool {
	_, ok := k.find(path...)
	return ok
}

// find looks for a field, and returns the line of the last of its path that is there.
func (k *checker) find(path ...any) (line int, ok bool) {
	n := k.root
	line = 1
	for _, p := range path {
		line = max(n.Line, 1)
		var next *yaml.Node
		switch p := p.(type) {
		case int:
			if n.Kind == yaml.SequenceNode && p < len(n.Content) {
				next = n.Content[p]
			}
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == p {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		}
		if next == nil {
			return line, false
		}
		if n = next; n.Kind == yaml.ScalarNode || n.Kind == yaml.MappingNode {
			line = max(n.Line, 1)
		}
	}
	return line, true
}

// empty finds settings that are given and hold nothing, such as a variable that whoever wrote the file forgot to fill
// in. They would become defaults, or no password, without a word. Where a line has a mistake already, that is enough.
func (k *checker) empty(n *yaml.Node, name string) {
	known := func(line int) bool {
		return slices.ContainsFunc(k.mistakes, func(m *mistake) bool { return m.line == line })
	}
	if n.Kind == yaml.ScalarNode && n.Value == "" || n.Kind == yaml.ScalarNode && n.Tag == "!!null" ||
		n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		if !known(n.Line) {
			k.add("%s: it is empty", name).line = n.Line
		}
	}
	for i, c := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			k.empty(c, name)
		case i%2 == 1:
			k.empty(c, n.Content[i-1].Value)
		}
	}
}

// unknown are the words of the YAML library that name a type of Go.
var (
	lineOf = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	inType = regexp.MustCompile(` (?:not found )?in type \S+$`)
	noType = regexp.MustCompile(`^cannot unmarshal (?:!!\S+ )?(.*) into (\S+)$`)
)

// wanted says what the types of the file are: a uint16 is a slot, and a uint8 a unit. Others are of structure: a list,
// or a section.
var wanted = map[string]string{
	"time.Duration": "a time with its unit, as 50ms", "uint16": "a whole number, 1 to 65535, in plain digits",
	"uint8": "a whole number, 1 to 247, in plain digits", "bool": "true or false", "string": "a text",
	"modbus.WordOrder": "a text",
}

// structures are the tags of YAML that stand in the place of a value.
var structures = map[string]string{"!!seq": "a list", "!!map": "settings"}

// decode takes the mistakes that the YAML library finds.
func (k *checker) decode(err error) {
	texts := []string{err.Error()}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = te.Errors
	}
	for _, text := range texts {
		m := k.add("%s", text)
		if found := lineOf.FindStringSubmatch(text); found != nil {
			fmt.Sscan(found[1], &m.line)
			m.text = found[2]
		}
		if inType.MatchString(m.text) {
			m.text = inType.ReplaceAllString(m.text, "") + ": there is no such setting"
		}
		if found := noType.FindStringSubmatch(m.text); found != nil {
			want := cmp.Or(wanted[found[2]], "settings, as KEY: VALUE")
			if strings.HasPrefix(found[2], "[]") {
				want = "a list"
			}
			name := settingAt(k.root, "", m.line, found[1])
			m.text = strings.TrimSpace(name+" "+found[1]) + ": want " + want
			if s := structures[found[1]]; s != "" {
				m.text = cmp.Or(name, "the file") + ": want " + want + ", not " + s
			}
		}
	}
}

// settingAt names the setting that has a value in a line, or that is a section with such a key. The YAML library quotes
// the value, and shortens a long one; of a list or a section it has the tag.
func settingAt(n *yaml.Node, name string, line int, quoted string) string {
	value, long := strings.CutSuffix(strings.Trim(quoted, "`"), "...")
	if n.Line == line && (n.Kind == yaml.ScalarNode && (n.Value == value || long && strings.HasPrefix(n.Value, value)) ||
		n.ShortTag() == quoted) {
		return name
	}
	section := name
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			name = n.Content[i-1].Value
		} else if n.Kind == yaml.MappingNode {
			name = section
		}
		if found := settingAt(c, name, line, quoted); found != "" {
			return found
		}
	}
	return ""
}

// listen checks an address to listen on; port 0 is any. No two sections listen on one.
func (k *checker) listen(addr string, needed bool, path ...any) {
	switch {
	case !needed:
	case !hostPort(addr, 0):
		k.add("%v %q: want HOST:PORT", path[len(path)-1], addr).at(path...)
	case !strings.HasSuffix(addr, ":0") && slices.Contains(k.listens, addr):
		k.add("%v %s: another section listens there", path[len(path)-1], addr).at(path...)
	}
	k.listens = append(k.listens, addr)
}

// hostPort says whether an address has a port, which is a number from least on.
func hostPort(addr string, least uint64) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n >= least
}

func (k *checker) order(o modbus.WordOrder, optional bool, path ...any) {
	if o != modbus.HighFirst && o != modbus.LowFirst && (o != "" || !optional) {
		k.add("word-order %q: want %s or %s", o, modbus.HighFirst, modbus.LowFirst).at(path...)
	}
}

// err has all mistakes, by their lines.
func (k *checker) err() error {
	if len(k.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(k.mistakes, func(a, b *mistake) int { return cmp.Compare(a.line, b.line) })
	var b strings.Builder
	for _, m := range k.mistakes {
		fmt.Fprintf(&b, "%s:%d: %s\n", k.name, m.line, m.text)
	}
	return &inputError{strings.TrimSuffix(b.String(), "\n")}
}
