package main

// The connection to an MQTT broker, as the configuration has it.

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/mqtt"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
	"github.com/polyscan/polyscan/internal/command"
)

// mqttConfig is a broker, and what is spoken over it: Sparkplug, or JSON under a prefix of topics.
type mqttConfig struct {
	Brokers      []string         `yaml:"brokers"`
	ClientID     string           `yaml:"client-id"`
	User         string           `yaml:"user,omitempty"`
	PasswordFile string           `yaml:"password-file,omitempty"`
	CA           string           `yaml:"ca,omitempty"`
	Cert         string           `yaml:"cert,omitempty"`
	Key          string           `yaml:"key,omitempty"`
	ServerName   string           `yaml:"server-name,omitempty"`
	Sparkplug    *sparkplugConfig `yaml:"sparkplug,omitempty"`
	JSON         string           `yaml:"json,omitempty"`
}

type sparkplugConfig struct {
	Group       string `yaml:"group"`
	Node        string `yaml:"node"`
	PrimaryHost string `yaml:"primary-host,omitempty"`
}

// client makes the client for stations; nothing is connected yet. It is also the check of the section.
func (m *mqttConfig) client(stations []*station.Station, log *slog.Logger) (*mqtt.Client, error) {
	cfg := mqtt.Config{Brokers: m.Brokers, ClientID: m.ClientID, User: m.User}
	if m.PasswordFile != "" {
		b, err := os.ReadFile(m.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("password-file: %w", err)
		}
		switch cfg.Password = strings.TrimRight(string(b), "\r\n"); {
		case cfg.Password == "":
			return nil, fmt.Errorf("password-file: %s is empty", m.PasswordFile)
		case m.User == "":
			return nil, errors.New("password-file has no effect without user")
		}
	}
	secure := slices.ContainsFunc(m.Brokers, func(b string) bool { return strings.HasPrefix(b, "mqtts:") })
	for name, given := range map[string]string{"ca": m.CA, "cert": m.Cert, "key": m.Key, "server-name": m.ServerName} {
		if given != "" && !secure {
			return nil, fmt.Errorf("%s has no effect: no broker is mqtts://host:port", name)
		}
	}
	var err error
	if cfg.TLS, err = (clients.TLSFiles{CA: m.CA, Cert: m.Cert, Key: m.Key, ServerName: m.ServerName}).Config(); err != nil {
		return nil, err
	}
	switch {
	case (m.Sparkplug == nil) == (m.JSON == ""):
		return nil, errors.New("want one of sparkplug and json")
	case m.Sparkplug != nil:
		s := mqtt.Sparkplug{Group: m.Sparkplug.Group, Node: m.Sparkplug.Node, PrimaryHost: m.Sparkplug.PrimaryHost}
		return mqtt.NewSparkplug(cfg, s, command.Build(), stations, log)
	}
	return mqtt.NewPlain(cfg, m.JSON, stations, log)
}

func (m *mqttConfig) check(k *checker) {
	if _, err := m.client(nil, slog.New(slog.DiscardHandler)); err != nil {
		k.add("mqtt: %s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "mqtt: "), "sparkplug: ")).at("mqtt")
	}
}
