package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
)

// maxMessage is how much of a server's words a user is shown.
const maxMessage = 400

// Answer is an error a server answered with.
type Answer struct {
	Status  int
	Type    string // of the error, or its code
	Message string
	Header  http.Header // nil when it came inside a stream
}

// ReadAnswer reads the body of an error: the forms of Anthropic, OpenAI and
// their kin, or any text.
func ReadAnswer(status int, header http.Header, body []byte) Answer {
	a := Answer{Status: status, Header: header}
	var form struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &form) != nil {
		a.Message = string(body)
		if strings.Contains(strings.ToLower(a.Message), "<html") {
			a.Message = "a web page"
		}
		return a
	}
	a.Message = form.Message
	var inner struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
	}
	var text string
	switch {
	case json.Unmarshal(form.Error, &text) == nil:
		a.Message = text
	case json.Unmarshal(form.Error, &inner) == nil:
		a.Type = inner.Type
		if inner.Message != "" {
			a.Message = inner.Message
		}
		var code string
		var number int
		if json.Unmarshal(inner.Code, &code) == nil && code != "" {
			a.Type = code
		} else if json.Unmarshal(inner.Code, &number) == nil && number >= 400 && number < 600 {
			a.Status = number // OpenRouter, inside a stream
		}
	case json.Unmarshal(form.Detail, &text) == nil:
		a.Message = text
	}
	if a.Message == "" {
		a.Message = string(body)
	}
	return a
}

// statuses are of errors that came inside a stream, which began with 200.
var statuses = map[string]int{
	"authentication_error": 401, "invalid_api_key": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "invalid_request_error": 400,
	"timeout_error": 504, "overloaded_error": 529, "api_error": 500, "server_error": 500,
}

// Fault makes the error of an answer. login says how credentials are given to
// the provider.
func (e Endpoint) Fault(a Answer, model string) *llm.Error {
	if a.Status < 400 {
		a.Status = statuses[a.Type]
		if a.Status == 0 {
			a.Status = 500
		}
	}
	f := &llm.Error{Provider: e.Provider, Status: a.Status, Message: e.line(a.Message)}
	if f.Message == "" {
		f.Message = strings.ToLower(http.StatusText(a.Status))
	}
	lower := strings.ToLower(a.Message)
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) || a.Type == w {
				return true
			}
		}
		return false
	}
	switch {
	case a.Type == "insufficient_quota" || a.Status == 402 || says("billing_error", "credit balance", "exceeded your current quota"):
		f.Advice = "The account with " + e.Provider + " has no credit left: add some, or choose another model."
	case a.Status == 401:
		f.AuthNeeded = true
		f.Advice = "The key was refused. " + Login(e.Provider)
	case a.Status == 403:
		f.AuthNeeded = says("api key", "api_key", "credential", "token", "authentication")
		f.Advice = "The key may not be used for this: choose another model, or another key. " + Login(e.Provider)
	case says("context_length_exceeded", "prompt is too long", "context length", "context window", "maximum context", "too many tokens", "exceeds the available context"):
		f.TooLong = true
		f.Advice = "The conversation is longer than the model can hold: send /compact or /reset, or choose a model that holds more."
	case a.Status == 404:
		f.Advice = fmt.Sprintf("The model %s or the address is unknown there: choose another model, or look at base_url.", model)
	case a.Status == 413:
		f.Advice = "The request is too large: send fewer or smaller attachments, or begin a new session."
	case a.Status == 429:
		f.Temporary = true
		f.Advice = "Too many requests for this account: wait a little and send the prompt again, or choose another model."
	case a.Status == 529 || a.Status == 503 || says("overloaded"):
		f.Temporary = true
		f.Advice = e.Provider + " is overloaded: send the prompt again in a while, or choose another model."
	case a.Status == 408 || a.Status == 409 || a.Status >= 500:
		f.Temporary = true
		f.Advice = e.Provider + " has trouble of its own: send the prompt again in a while."
	default:
		f.Advice = "The request was not accepted: change the prompt or its attachments, the reasoning effort, or the model."
	}
	f.RetryAfter = retryAfter(a.Header)
	switch a.Header.Get("X-Should-Retry") {
	case "true":
		f.Temporary = true
	case "false":
		f.Temporary = false
	}
	return f
}

// Broken makes the error of a request that got no answer, or only a part of
// one. begun says that the answer had begun. A context's error is returned as
// it is.
func (e Endpoint) Broken(ctx context.Context, err error, begun bool) error {
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	f := &llm.Error{Provider: e.Provider, Temporary: true}
	host := e.host()
	var dns *net.DNSError
	switch {
	case errors.Is(err, errSilent):
		f.Message = "nothing came from the server for " + Idle.String()
		f.Temporary = false
		f.Advice = "Send the prompt again; if it stays so, look whether " + host + " works."
	case begun:
		f.Message = "the connection was cut in the middle of an answer (" + e.cause(err) + ")"
		f.Advice = "Send \"continue\" to go on from what is there."
	case errors.Is(err, errRedirect):
		f.Message = "the server points to another host"
		f.Temporary = false
		f.Advice = "Set base_url to the address the server really has."
	case refused(err):
		f.Message = "nothing listens at " + host
		f.Temporary = false
		f.Advice = "Start the server, or look at base_url."
	case errors.As(err, &dns):
		f.Message = "the address " + dns.Name + " is not found"
		f.Temporary = !dns.IsNotFound
		f.Advice = "Look at the network and at base_url."
	default:
		f.Message = "the server cannot be reached: " + e.cause(err)
		f.Advice = "Look at the network, then send the prompt again."
	}
	return f
}

// Strange is the error of an answer that is no stream.
func (e Endpoint) Strange(res *http.Response) *llm.Error {
	f := &llm.Error{Provider: e.Provider, Message: "the answer is not what a model streams",
		Advice: "Look at base_url: it should be the address of the API, as in http://127.0.0.1:11434/v1."}
	if res != nil {
		f.Message += fmt.Sprintf(" (HTTP %d, %s)", res.StatusCode, e.line(res.Header.Get("Content-Type")))
	}
	return f
}

// refused tells whether nobody listened.
func refused(err error) bool {
	const windows = 10061 // WSAECONNREFUSED
	var no syscall.Errno
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &no) && no == windows
}

func (e Endpoint) host() string {
	if u, err := url.Parse(e.BaseURL); err == nil && u.Host != "" {
		return u.Host
	}
	return e.Provider
}

// cause is the innermost reason, without addresses and methods.
func (e Endpoint) cause(err error) string {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "it ended too early"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return e.line(err.Error())
}

// line makes one short line of a server's words, without the key.
func (e Endpoint) line(text string) string {
	text = strings.Join(strings.Fields(e.Key.Redact(strings.ToValidUTF8(text, "\uFFFD"))), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage-1]) + "…"
	}
	return text
}

// Login says how a provider is given a key.
func Login(provider string) string {
	text := "Run `hermesd login " + provider + "` in a terminal"
	if v := credentials.Variable(provider); v != "" {
		text += ", or set " + v + " in the environment the daemon is started from"
	}
	return text + "."
}

// retryAfter reads how long the server wants to be left alone.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e10 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e7 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
