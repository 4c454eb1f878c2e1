package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

// startPatience is how long a daemon that we start may take to be ready, and a
// running one to greet us.
const startPatience = 60 * time.Second

// dialOptions say how a command connects.
type dialOptions struct {
	Start  bool   // start a daemon if there is none
	Agent  string // which agent new sessions get
	Env    bool   // send the environment, for agents that are started for us
	Client acpclient.Options
}

// dial connects to the daemon as a shim does and initializes.
func (a *app) dial(ctx context.Context, o dialOptions) (*acpclient.Client, error) {
	places, err := a.places()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience,
		fmt.Errorf("hermesd does not answer after %v; its log is in %s", startPatience, places.Log))
	defer cancel()
	var conn net.Conn
	if o.Start {
		conn, err = link.Connect(ctx, link.Options{Places: places, Environ: selfAsDaemon(os.Environ())})
	} else {
		conn, err = link.Dial(ctx, places.Socket)
	}
	if err != nil {
		return nil, err
	}
	cwd, _ := os.Getwd() // a folder that was removed has no name
	hello := link.Hello{
		Link: link.Number, ID: link.NewID(), Version: buildVersion(), PID: os.Getpid(), Cwd: cwd, Agent: o.Agent,
	}
	if o.Env {
		hello.Env = link.Environ(os.Environ(), link.MaxEnv)
	}
	if o.Client.Name == "" {
		o.Client.Name = "hermesd"
	}
	o.Client.Version = buildVersion()
	c, _, err := acpclient.Greet(ctx, conn, hello, o.Client)
	if err != nil {
		return nil, err
	}
	if _, err := c.Initialize(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("initializing: %w", err)
	}
	return c, nil
}

// selfAsDaemon names this program as the daemon to start, unless the user named
// another one: then a daemon is of the same build as the command that needs it.
func selfAsDaemon(environ []string) []string {
	self, err := os.Executable()
	if err != nil || os.Getenv("HERMESD") != "" {
		return environ
	}
	return append(environ[:len(environ):len(environ)], "HERMESD="+self)
}

// withDaemon runs f with a connection to the running daemon.
func (a *app) withDaemon(f func(ctx context.Context, c *acpclient.Client) error) error {
	ctx, cancel := interruptible()
	defer cancel()
	c, err := a.dial(ctx, dialOptions{Client: acpclient.Options{Forget: true}})
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}

// The daemon's answers to our own methods. What is not listed is not read.

type daemonStatus struct {
	PID           int     `json:"pid"`
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptimeSeconds"`
	Goroutines    int     `json:"goroutines"`
	Memory        struct {
		HeapBytes int64 `json:"heapBytes"`
		RSSBytes  int64 `json:"rssBytes"`
	} `json:"memory"`
	Epoch       string             `json:"epoch"`
	Socket      string             `json:"socket"`
	Listen      []string           `json:"listen"`
	Connections []connectionStatus `json:"connections"`
	Sessions    []sessionStatus    `json:"sessions"`
	Agents      []agentStatus      `json:"agents"`

	Log          string    `json:"log"` // a path, "journal" or "stderr"
	Metrics      string    `json:"metrics"`
	MetricsError string    `json:"metricsError"`
	Began        time.Time `json:"began"`
	Stored       int       `json:"stored"`
	Turns        struct {
		Started uint64            `json:"started"`
		Active  int               `json:"active"`
		Queued  int               `json:"queued"`
		Ended   map[string]uint64 `json:"ended"`
	} `json:"turns"`
	Questions struct {
		Open          int     `json:"open"`
		OldestSeconds float64 `json:"oldestSeconds"`
	} `json:"questions"`
	Traffic struct {
		InBytes  int64 `json:"inBytes"`
		OutBytes int64 `json:"outBytes"`
	} `json:"traffic"`
	Disk struct {
		DatabaseBytes   int64   `json:"databaseBytes"`
		JournalBytes    int64   `json:"journalBytes"`
		Commits         uint64  `json:"commits"`
		CommitMeanMs    float64 `json:"commitMeanMs"`
		CommitSlowestMs float64 `json:"commitSlowestMs"`
		Failing         string  `json:"failing"`
		Damage          []struct {
			At       time.Time `json:"at"`
			File     string    `json:"file"`
			Sessions []struct {
				ID   string `json:"id"`
				Lost uint64 `json:"lost"`
			} `json:"sessions"`
		} `json:"damage"`
	} `json:"disk"`
	AgentStates map[string]map[string]int `json:"agentStates"`
}

type connectionStatus struct {
	ID       string    `json:"id"`
	Client   string    `json:"client"`
	PID      int       `json:"pid"`
	UID      int       `json:"uid"`
	Token    string    `json:"token"`
	Role     string    `json:"role"`
	Remote   string    `json:"remote"`
	Agent    string    `json:"agent"`
	Version  string    `json:"version"` // of its shim
	Since    time.Time `json:"since"`
	Behind   uint64    `json:"behind"`
	Queued   int64     `json:"queuedBytes"`
	Sessions []string  `json:"sessions"`
}

type sessionStatus struct {
	ID        string `json:"id"`
	State     string `json:"state"` // idle, running, waiting
	Agent     string `json:"agent"`
	Cwd       string `json:"cwd"`
	Title     string `json:"title"`
	Editors   int    `json:"editors"`
	Queue     int    `json:"queue"`
	Questions int    `json:"questions"`
	Events    uint64 `json:"events"`
}

type agentStatus struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Default bool   `json:"default"`
}

// who is somebody that did something.
type who struct {
	Client string `json:"client"`
	Token  string `json:"token"`
	Remote string `json:"remote"`
	UID    int    `json:"uid"`
	PID    int    `json:"pid"`
}

func (w who) String() string {
	if w.Token != "" {
		return fmt.Sprintf("%s, token %s at %s", w.Client, w.Token, w.Remote)
	}
	return fmt.Sprintf("%s, uid %d, process %d", w.Client, w.UID, w.PID)
}

type sessionDetails struct {
	ID       string            `json:"id"`
	Agent    string            `json:"agent"`
	Cwd      string            `json:"cwd"`
	Dirs     []string          `json:"dirs"`
	Title    string            `json:"title"`
	Created  time.Time         `json:"created"`
	Updated  time.Time         `json:"updated"`
	Parent   string            `json:"parent"`
	ForkedAt uint64            `json:"forkedAt"`
	Turns    int               `json:"turns"`
	Events   uint64            `json:"events"`
	Live     bool              `json:"live"`
	State    string            `json:"state"`
	Queue    []json.RawMessage `json:"queue"`
	Turn     *struct {
		Prompt uint64    `json:"prompt"`
		Since  time.Time `json:"since"`
		Origin who       `json:"origin"`
	} `json:"turn"`
	Attached  []connectionStatus `json:"attached"`
	Questions []openQuestion     `json:"questions"`
	Modes     json.RawMessage    `json:"modes"`
	Pinned    bool               `json:"pinned"`
	Imported  string             `json:"imported"`
	Meta      session.Meta       `json:"meta"`
}

type openQuestion struct {
	ID        string             `json:"id"`
	SessionID string             `json:"sessionId"`
	Title     string             `json:"title"`
	Options   []acpclient.Option `json:"options"`
	AskedAt   time.Time          `json:"askedAt"`
}

func status(ctx context.Context, c *acpclient.Client) (daemonStatus, error) {
	var s daemonStatus
	err := c.Call(ctx, "_hermes/status", nil, &s)
	return s, err
}

func showSession(ctx context.Context, c *acpclient.Client, id string) (sessionDetails, json.RawMessage, error) {
	var raw json.RawMessage
	if err := c.Call(ctx, "_hermes/sessions/show", map[string]string{"sessionId": id}, &raw); err != nil {
		return sessionDetails{}, nil, err
	}
	var s sessionDetails
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, nil, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return s, raw, nil
}

// findSession completes a session's id: the beginning will do if no other
// session's id begins so.
func findSession(ctx context.Context, c *acpclient.Client, id string) (acpclient.SessionInfo, error) {
	all, err := c.List(ctx, "")
	if err != nil {
		return acpclient.SessionInfo{}, err
	}
	var found []acpclient.SessionInfo
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
		if strings.HasPrefix(s.ID, id) && id != "" {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return acpclient.SessionInfo{}, notFoundf("there is no session %q; see hermesd sessions list", id)
	}
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.ID
	}
	return acpclient.SessionInfo{}, usagef("%q is the beginning of several sessions: %s", id, strings.Join(ids, ", "))
}

// connectionLost says what a command whose connection ended tells the user.
func connectionLost(err error) error {
	if errors.Is(err, acpclient.ErrClosed) {
		return fmt.Errorf("hermesd went away: %w", err)
	}
	return err
}
