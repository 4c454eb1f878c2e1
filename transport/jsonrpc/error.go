package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Codes that this package answers with by itself.
const (
	codeParse     = -32700 // not JSON, or not UTF-8
	codeInvalid   = -32600 // JSON, but not a message we can take
	codeNoMethod  = -32601
	codeInternal  = -32603
	codeCancelled = -32800 // the request was cancelled and has no result
	codeBusy      = -33100 // a limit of ours; outside the ranges JSON-RPC and ACP reserve
)

// Reasons for which a peer closes or a line is not taken.
var (
	// ErrClosed is the reason when the owner closed the peer without one.
	ErrClosed = errors.New("connection closed")
	// ErrSlowReader closes a peer whose queue outgrew Options.MaxQueue.
	ErrSlowReader = errors.New("the other side reads too slowly")
	// ErrLineTooLong is given to Options.Garbage for a line beyond Options.MaxLine.
	ErrLineTooLong = errors.New("line too long")
	// ErrDuplicateID is returned by Call for an id that is still waiting for its answer.
	ErrDuplicateID = errors.New("request id is already in use")
)

// Error is an error as it stands on the wire. A [Handler] returns one to choose
// what the other side sees; [Peer.Call] returns one for an error response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message, or the code if there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return "error " + strconv.Itoa(e.Code)
	}
	return e.Message
}

// wireError chooses what the other side is told about err. An *Error goes as
// it is, also from inside a wrapping error.
func wireError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Code: codeCancelled, Message: "Request cancelled"}
	}
	return &Error{Code: codeInternal, Message: "Internal error: " + err.Error()}
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: codeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// parseError reads the error member of a response. A malformed one is an error
// all the same: whoever waits for the answer must not wait for ever.
func parseError(raw json.RawMessage) *Error {
	var e struct {
		Code    *int            `json:"code"`
		Message *string         `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.Code == nil {
		out := &Error{Code: codeInternal, Message: "The answer carries a malformed error", Data: raw}
		if e.Message != nil && *e.Message != "" {
			out.Message = *e.Message
		}
		return out
	}
	out := &Error{Code: *e.Code, Data: e.Data}
	if e.Message != nil {
		out.Message = *e.Message
	}
	return out
}
