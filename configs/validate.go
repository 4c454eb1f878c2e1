package configs

import (
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/hermesd/hermesd/transport"
)

// agentName is what may name an agent: it stands in flags, paths and logs.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// invalid reports every value that is not allowed.
func (f file) invalid(md toml.MetaData, c Config) []*Error {
	var errs []*Error
	bad := func(key toml.Key, format string, args ...any) {
		errs = append(errs, f.errorf(key, format, args...))
	}
	oneOf := func(value string, allowed []string, key ...string) {
		if !slices.Contains(allowed, value) {
			bad(key, "%q is not allowed; choose one of: %s", value, strings.Join(allowed, ", "))
		}
	}

	if _, ok := c.Agents[c.DefaultAgent]; !ok {
		bad(toml.Key{"default_agent"}, "there is no agent %q; the agents are: %s", c.DefaultAgent, strings.Join(c.AgentNames(), ", "))
	}
	oneOf(c.Log.Level, LogLevels(), "log", "level")
	if c.Log.File != "" && !filepath.IsAbs(c.Log.File) {
		bad(toml.Key{"log", "file"}, "%q is a relative path; give the whole path", c.Log.File)
	}
	if c.Log.MaxSize < 1*MiB || c.Log.MaxSize > 10*GiB {
		bad(toml.Key{"log", "max_size"}, "%s is not allowed; choose 1MiB to 10GiB", c.Log.MaxSize)
	}
	if c.Log.Keep < 1 || c.Log.Keep > 1000 {
		bad(toml.Key{"log", "keep"}, "%d is not allowed; choose 1 to 1000", c.Log.Keep)
	}
	oneOf(c.Permissions.Detached, DetachedChoices(), "permissions", "detached")

	for _, l := range []struct {
		key      string
		value    int64
		min, max Size
	}{
		{"line_local", int64(c.Limits.LineLocal), 64 * KiB, 1 * GiB},
		{"line_network", int64(c.Limits.LineNetwork), 64 * KiB, 1 * GiB},
		{"line_editor", int64(c.Limits.LineEditor), 64 * KiB, 1 * GiB},
		{"cursor_ahead", int64(c.Limits.CursorAhead), 16 * KiB, 1 * GiB},
		{"queue", int64(c.Limits.Queue), 64 * KiB, 1 * GiB},
		{"replay", int64(c.Limits.Replay), 64 * KiB, 1 * GiB},
		{"agent_stderr", int64(c.Limits.AgentStderr), 0, 64 * MiB},
	} {
		if l.value < int64(l.min) || l.value > int64(l.max) {
			bad(toml.Key{"limits", l.key}, "%s is not allowed; choose %s to %s", Size(l.value), l.min, l.max)
		}
	}
	for _, l := range []struct {
		key   string
		value int
		max   int
	}{
		{"queued_prompts", c.Limits.QueuedPrompts, 10_000},
		{"connections", c.Limits.Connections, 10_000},
		{"in_flight", c.Limits.InFlight, 100_000},
	} {
		if l.value < 1 || l.value > l.max {
			bad(toml.Key{"limits", l.key}, "%d is not allowed; choose 1 to %d", l.value, l.max)
		}
	}
	for _, l := range []struct {
		key   toml.Key
		value Duration
	}{
		{toml.Key{"limits", "first_frame"}, c.Limits.FirstFrame},
		{toml.Key{"limits", "line_time"}, c.Limits.LineTime},
		{toml.Key{"limits", "agent_start"}, c.Limits.AgentStart},
		{toml.Key{"limits", "agent_cancel"}, c.Limits.AgentCancel},
		{toml.Key{"sessions", "idle"}, c.Sessions.Idle},
	} {
		if l.value < second {
			bad(l.key, "%s is not allowed; choose 1s or more", l.value)
		}
	}

	if age := c.Store.MaxAge; age > 0 && age < 60*minute {
		bad(toml.Key{"store", "max_age"}, "%s is not allowed; choose 1h or more, or 0s to keep sessions of any age", age)
	}
	if size := c.Store.MaxSize; size > 0 && size < 1*MiB {
		bad(toml.Key{"store", "max_size"}, "%s is not allowed; choose 1MiB or more, or 0 for any size", size)
	}

	c.invalidTools(bad)
	c.Metrics.invalid(bad)
	for name, a := range c.Agents {
		key := func(k string, below ...string) toml.Key { return append(toml.Key{"agents", name, k}, below...) }
		given := func(keys ...string) (found []string) {
			for _, k := range keys {
				if md.IsDefined("agents", name, k) {
					found = append(found, k)
				}
			}
			return found
		}
		if !agentName.MatchString(name) {
			bad(toml.Key{"agents", name}, "a name of an agent has letters, digits, \"-\", \"_\" and \".\", begins with a letter or digit and has at most 64 characters")
		}
		switch a.Type {
		case Native:
			a.invalidModels(c.Providers, func(k []string, format string, args ...any) { bad(key(k[0], k[1:]...), format, args...) })
			oneOf(a.ApprovalMode, ApprovalModes(), key("approval_mode")...)
			for _, k := range given("command", "warm", "env", "hold") {
				bad(key(k), "is of external agents only; remove it or set type = %q", External)
			}
		case External:
			if len(a.Command) == 0 || a.Command[0] == "" {
				bad(key("command"), "is missing; say what to start, as in command = [\"claude-agent-acp\"]")
			}
			if a.Warm < 0 || a.Warm > 64 {
				bad(key("warm"), "%d is not allowed; choose 0 to 64", a.Warm)
			}
			for name := range a.Env {
				if name == "" || strings.ContainsAny(name, "=\x00") {
					bad(append(key("env"), name), "is no name of an environment variable")
				}
			}
			for _, k := range given("provider", "model", "base_url", "reasoning_effort", "context_window", "max_output", "max_turn_requests", "prices", "approval_mode") {
				bad(key(k), "is of native agents only; remove it or set type = %q", Native)
			}
		default:
			oneOf(a.Type, []string{Native, External}, key("type")...)
		}
	}

	c.MCP.invalid(md, bad)
	c.invalidProviders(bad)

	if len(c.Listen) == 0 {
		bad(toml.Key{"listen"}, "is empty; remove it to listen on the default socket")
	}
	local := false
	for _, l := range c.Listen {
		at, err := transport.ParseAddress(l.Address)
		if err != nil {
			bad(toml.Key{"listen", "address"}, "%v", err)
		}
		local = local || err != nil || at.Network == transport.Unix
	}
	if !local && len(c.Listen) > 0 {
		bad(toml.Key{"listen"}, "nothing of this machine could get in, not even hermesd stop: add one more [[listen]] with address = \"unix\"")
	}
	return errs
}

// AgentNames lists the agents, sorted.
func (c Config) AgentNames() []string {
	names := make([]string, 0, len(c.Agents))
	for name := range c.Agents {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
