// Package sharedmem is memory that two processes of one host map at the same time, and the way in which one hands it to
// the other. polyscan's server and its client library both use it.
//
// The owner makes the memory with [Create]: a memfd with all its pages, sealed so that nobody can change its size,
// mapped for reading. Another process gets it with [Fetch]: it connects to the owner's unix socket, sends a [Token],
// and receives one byte. The byte 0 has the file descriptor beside it (SCM_RIGHTS), any other is a [Refusal]. The peer
// keeps the connection for as long as it needs the memory. An owner who takes it back earlier sends another byte, and
// then wipes the memory.
//
// Whoever has the descriptor can write to the pages, at any time, and can remove them, which leaves zeros behind;
// [Memory.Whole] finds that out. The owner must expect both of a peer that it doesn't trust: bytes that it looks at
// twice may differ, and touching a page that was removed takes a new one, which fails with SIGBUS where the system has
// none.
//
// It needs Linux. Elsewhere everything returns [ErrUnsupported].
package sharedmem

import (
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrUnsupported is returned by everything on systems other than Linux.
var ErrUnsupported = errors.New("shared memory needs Linux")

// ErrHole is what errors of [Memory.Whole] match.
var ErrHole = errors.New("pages were removed from the shared memory")

// TokenBytes is the length of a [Token].
const TokenBytes = 32

// Token is what a peer must know to get memory.
type Token [TokenBytes]byte

// NewToken makes a token that can't be guessed.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) // never fails
	return t
}

// Refusal is the owner's answer to a peer that gets nothing; [Fetch] returns it as an error.
type Refusal byte

// The refusals. They are part of the protocol: values stay.
const (
	// RefusedToken: the token is not known, was used, or came too late.
	RefusedToken Refusal = 1
	// RefusedUser: the peer's user may not have memory of this owner.
	RefusedUser Refusal = 2
)

// Error implements error.
func (r Refusal) Error() string {
	switch r {
	case RefusedToken:
		return "the token is not known there (any more)"
	case RefusedUser:
		return "this user may not have shared memory of that server"
	}
	return fmt.Sprintf("refused with the unknown code %d", byte(r))
}
