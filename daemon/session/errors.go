package session

import (
	"encoding/json"
	"errors"
)

// Sentinels a caller branches on.
var (
	ErrNotFound = errors.New("no such session")
	ErrInUse    = errors.New("session is already open")
	ErrClosed   = errors.New("session has left memory")
	ErrNoEditor = errors.New("no editor serves this")
)

// JSON-RPC and ACP error codes (agentclientprotocol.com, "Error codes").
const (
	CodeParse         = -32700
	CodeInvalid       = -32600
	CodeNoMethod      = -32601
	CodeParams        = -32602
	CodeInternal      = -32603
	CodeCancelled     = -32800
	CodeAuthRequired  = -32000
	CodeNotFound      = -32002
	CodeBusy          = -33100 // ours: a limit is reached, try again later
	CodeInterrupted   = -33101 // ours: the turn was interrupted, its effects are unknown
	CodeStoreReadOnly = -33102 // ours: nothing can be stored at the moment
	CodeForbidden     = -33103 // ours: the token of the connection does not allow this
)

// Error is an error for the wire: Code for programs, Message (one line) for
// the user, Data for details. It is also persisted in TurnEnded.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }
