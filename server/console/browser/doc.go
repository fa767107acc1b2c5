// Package browser plays the console in a real Chromium, against the built programs: what docs/console.md promises of
// its pages. It is a module of its own, so that nobody else needs what drives a browser. The stage "console" of .ci/run
// runs it; POLYSCAN_CHROMIUM names the browser where PATH doesn't lead to it, and POLYSCAN_SHOTS a folder for pictures.
package browser
