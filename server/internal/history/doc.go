// Package history keeps what parts came to beyond the process, in an SQLite database and files beside it, and answers
// the calls of HistoryService.
//
// Those who inspect hand over verdicts, and pictures of some parts, and never wait (keep.go): a queue of bounded memory
// takes them in, and what it has no room for is dropped and counted. One goroutine writes the queue in batches
// (write.go), another one makes files of pictures (evidence.go). Numbers of regions are one blob for each part
// (numbers.go); what lists, counts and charts need lies in columns (schema.go). Calls read from connections of their
// own (query.go, counts.go, series.go, export.go, audit.go).
package history
