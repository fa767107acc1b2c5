// Package browser plays the console in a real Chromium, against the built programs. It is a module of its own, so that
// nobody else needs what drives a browser. The stage "console" of .ci/run runs it.
package browser
