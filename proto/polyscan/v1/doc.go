// Package polyscanv1 is the protocol of polyscan, version 1: the messages and services that the schemas beside it
// define, as protoc-gen-go and protoc-gen-go-grpc give them. Frames are large; package framecodec sends and receives
// them without copying their pixels.
package polyscanv1
