package main

// The OPC UA server, as the configuration has it.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/clients/plcgateway/internal/opcua"
	"github.com/polyscan/polyscan/internal/command"
)

// opcuaConfig is the OPC UA server of all stations that say so.
type opcuaConfig struct {
	Listen   string   `yaml:"listen"`
	Policies []string `yaml:"policies,flow"`
	// ApplicationURI names the server in its certificate. Certificate and Key are files, which are made where neither is
	// there.
	ApplicationURI string `yaml:"application-uri"`
	Certificate    string `yaml:"certificate,omitempty"`
	Key            string `yaml:"key,omitempty"`
	// Trusted is a folder with the certificates of client programs.
	Trusted string `yaml:"trusted,omitempty"`
	// Users is a file of htpasswd -B, and TrustedUsers a folder with the certificates of users.
	Users        string `yaml:"users,omitempty"`
	TrustedUsers string `yaml:"trusted-users,omitempty"`
	Anonymous    bool   `yaml:"anonymous,omitempty"`
}

func (o *opcuaConfig) defaults(k *checker) {
	if !k.has("opcua", "policies") {
		o.Policies = slices.DeleteFunc(slices.Clone(opcua.PolicyNames), func(p string) bool { return p == "None" })
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	o.ApplicationURI = cmp.Or(o.ApplicationURI, "urn:"+host+":polyscan:plcgateway")
}

// secured says whether a policy encrypts or signs, for which clients' certificates are looked up.
func (o *opcuaConfig) secured() bool {
	return slices.ContainsFunc(o.Policies, func(p string) bool { return p != "None" })
}

func (o *opcuaConfig) check(k *checker) {
	bad := func(field, format string, args ...any) { k.add("opcua: "+format, args...).at("opcua", field) }
	k.listen(o.Listen, true, "opcua", "listen")
	if len(o.Policies) == 0 {
		bad("policies", "policies: there is none")
	}
	for i, p := range o.Policies {
		if !slices.Contains(opcua.PolicyNames, p) {
			k.add("opcua: policy %q: there are %s", p, strings.Join(opcua.PolicyNames, ", ")).at("opcua", "policies", i)
		}
	}
	if !o.Anonymous && o.Users == "" && o.TrustedUsers == "" {
		bad("", "nobody may log in: want users, trusted-users, or anonymous: true")
	}
	if (o.Certificate == "") != (o.Key == "") {
		bad("", "certificate and key: want both, or neither")
	}
	if o.Certificate == "" && (o.secured() || o.Users != "" || o.TrustedUsers != "") {
		bad("",
			"certificate and key are missing: policies other than None, and users, need them; they are made where the files are not there")
	}
	if o.secured() && o.Trusted == "" {
		bad("", "trusted is missing: the folder with the certificates of clients that may use a policy other than None")
	}
	if o.Trusted != "" && len(o.Policies) > 0 && !o.secured() {
		bad("trusted", "trusted has no effect: of the policy None nobody's certificate is looked at")
	}
	for field, folder := range map[string]string{"trusted": o.Trusted, "trusted-users": o.TrustedUsers} {
		if info, err := os.Stat(folder); folder != "" && (err != nil || !info.IsDir()) {
			bad(field, "%s %s: no such folder", field, folder)
		}
	}
	if o.Users != "" {
		if _, err := opcua.LoadUsers(o.Users); err != nil {
			bad("users", "users: %v", err)
		}
	}
}

// server makes the server; nothing runs yet. It writes a certificate and its key where there are none.
func (o *opcuaConfig) server(log *slog.Logger) (*opcua.Server, error) {
	cfg := opcua.Config{ApplicationURI: o.ApplicationURI, Policies: o.Policies,
		Trusted: opcua.Trust{Folder: o.Trusted}, Anonymous: o.Anonymous,
		UserTrusted: opcua.Trust{Folder: o.TrustedUsers}, Version: command.Build(), Log: log}
	var err error
	if o.Certificate != "" {
		if _, err := os.Stat(o.Certificate); errors.Is(err, fs.ErrNotExist) {
			log.Info("opcua: the server's certificate is made; clients are asked to trust it", "certificate", o.Certificate)
		}
		if cfg.Certificate, cfg.Key, err = opcua.LoadIdentity(o.Certificate, o.Key, o.ApplicationURI, o.hosts()); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
	}
	if o.Users != "" {
		if cfg.Users, err = opcua.LoadUsers(o.Users); err != nil {
			return nil, fmt.Errorf("users: %w", err)
		}
	}
	return opcua.NewServer(cfg)
}

// hosts are the names that a certificate is made for.
func (o *opcuaConfig) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1"}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && host != "" && !slices.Contains(hosts, host) {
		hosts = append(hosts, host)
	}
	if host, err := os.Hostname(); err == nil && !slices.Contains(hosts, host) {
		hosts = append(hosts, host)
	}
	return hosts
}
