//go:build !linux

package main

import (
	"context"
	"errors"
)

// watcher waits for files of a folder, which takes Linux.
type watcher struct{}

func watchFolder(string, *watcher) (*watcher, error) {
	return nil, errors.New("a folder that fills is watched on Linux alone")
}

func (*watcher) close() error { return nil }

func (*watcher) forget(string) {}

func (*watcher) next(context.Context) (string, error) { return "", errors.ErrUnsupported }
