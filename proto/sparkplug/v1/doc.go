// Package sparkplugv1 is the payload of Sparkplug B messages, as protoc-gen-go gives it for the schema beside it.
package sparkplugv1
