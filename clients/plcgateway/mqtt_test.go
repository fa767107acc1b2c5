package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

// A station over MQTT whose server is not there: each trigger has its answer, and it is REJECT.
func TestGatewayOverMQTT(t *testing.T) {
	broker := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler), InlineClient: true})
	if err := broker.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	l := listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
	if err := broker.AddListener(l); err != nil {
		t.Fatal(err)
	}
	if err := broker.Serve(); err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	type message struct {
		topic string
		body  map[string]any
	}
	messages := make(chan message, 4096)
	err := broker.Subscribe("plant/#", 1, func(_ *mochi.Client, _ packets.Subscription, p packets.Packet) {
		m := message{topic: p.TopicName}
		if err := json.Unmarshal(p.Payload, &m.body); err != nil {
			t.Errorf("%s: %s", p.TopicName, p.Payload)
		}
		messages <- m
	})
	if err != nil {
		t.Fatal(err)
	}
	await := func(topic string, ok func(map[string]any) bool) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			select {
			case m := <-messages:
				if m.topic == "plant/"+topic && ok(m.body) {
					return
				}
			case <-deadline:
				t.Fatalf("%s: no such message", topic)
			}
		}
	}
	write := func(command string) {
		t.Helper()
		if err := broker.Publish("plant/desk/command", []byte(command), false, 0); err != nil {
			t.Fatal(err)
		}
	}

	file := writeFile(t,
		"servers: {hall: {addr: '127.0.0.1:1'}}\nmqtt: {brokers: ['mqtt://"+l.Address()+"'], client-id: g, json: plant}\n"+
			"stations:\n  - {name: desk, parts: camera-1, recipes: {1: line}, heartbeat: 10s, mqtt: true}\n")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &lines{more: make(chan struct{}, 1)}, &lines{more: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--config", file}, nil, out, errs) }()
	out.await(t, `MQTT at mqtt://`)
	await("gateway", func(m map[string]any) bool { return m["online"] == true })
	write(`{"enable": true, "command": 11}`)
	await("desk/status", func(m map[string]any) bool { return m["state"] == "initialized" })
	write(`{"command": 0, "trigger": true, "trigger_id": 5}`)
	await("desk/result", func(m map[string]any) bool {
		return m["trigger_id"] == 5.0 && m["verdict"] == "REJECT" && m["reason"] == "no recipe"
	})
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("code %d: %s", c, errs.text)
	}
	await("gateway", func(m map[string]any) bool { return m["online"] == false })
	if strings.Contains(errs.text, "panic") {
		t.Error(errs.text)
	}
}
