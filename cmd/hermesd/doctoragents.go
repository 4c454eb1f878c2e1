package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/agentpool/environ"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/daemon/service"
)

// surroundings is one environment that programs are started in, as far as it is
// told of.
type surroundings struct {
	ID     string            `json:"id"` // service, login, or that of a connection
	Client string            `json:"client"`
	Sent   bool              `json:"sent"`
	Found  map[string]string `json:"found"`
	Absent map[string]string `json:"absent"`
	Set    []string          `json:"set"`
}

func (s surroundings) String() string {
	switch s.ID {
	case "service":
		return "the daemon's environment"
	case "login":
		return "that of the login shell"
	case "here":
		return "that of this terminal"
	}
	if s.Client == "" {
		return "that of connection " + s.ID
	}
	return "that of " + s.Client + " (connection " + s.ID + ")"
}

// lookAtAgents: is the program of each agent and MCP server there, wherever it
// may be started; and has the built-in agent a key?
func (d *doctor) lookAtAgents(ctx context.Context) {
	if d.config == nil {
		return
	}
	programs := map[string]string{} // by the finding's id
	for name, a := range d.config.Agents {
		if a.Type == configs.External {
			programs["agent-"+name] = a.Command[0]
		}
	}
	for name, s := range d.config.MCP.Servers {
		if len(s.Command) > 0 {
			programs["mcp-"+name] = s.Command[0]
		}
	}
	var commands []string
	for _, c := range programs {
		commands = append(commands, c)
	}
	slices.Sort(commands)
	commands = slices.Compact(commands)
	environments, err := d.surroundings(ctx, commands, d.keyVariables())
	if err != nil {
		d.say(wrong, "environments", "see: hermesd logs", "the daemon does not say in which environments agents run: %v", err)
		return
	}
	for _, id := range sortedKeys(programs) {
		d.lookAtProgram(id, programs[id], environments)
	}
	for _, name := range d.config.AgentNames() {
		if a := d.config.Agents[name]; a.Type == configs.Native {
			d.lookAtModel(name, a, environments)
		}
	}
}

func (d *doctor) lookAtProgram(id, program string, environments []surroundings) {
	var there, not []string
	why := ""
	for _, e := range environments {
		if path, ok := e.Found[program]; ok {
			there = append(there, path+" in "+e.String())
		} else if e.Sent {
			not = append(not, e.String())
			why = e.Absent[program]
		}
	}
	switch {
	case len(not) == 0:
		d.say(fine, id, "", "%s", strings.Join(there, "; "))
	case len(there) == 0:
		d.say(wrong, id, "install "+program+", or write its whole path in "+d.places.Config, "%s is found nowhere: %s", program, why)
	default:
		d.say(wrong, id, "write the whole path of "+program+" in "+d.places.Config+", or start the editor from where it is on PATH",
			"%s is not in %s; it is %s", program, strings.Join(not, ", nor in "), strings.Join(there, "; "))
	}
}

// lookAtModel: a provider that was chosen needs its key.
func (d *doctor) lookAtModel(name string, a configs.Agent, environments []surroundings) {
	id := "agent-" + name
	keys := keySource(d.places, *d.config, func(variable string) string {
		for _, e := range environments {
			if (e.ID == "service" || e.ID == "login" || e.ID == "here") && slices.Contains(e.Set, variable) {
				return "set" // what to is nobody's business
			}
		}
		return ""
	})
	all, err := keys.All()
	if err != nil {
		d.say(wrong, id, "", "%v", err)
		return
	}
	switch variable := keys.Variable(a.Provider); {
	case a.BaseURL != "" || a.Provider == "ollama" || a.Provider == "offline":
		d.say(fine, id, "", "provider %s", a.Provider)
	case a.Provider == "auto" && len(all) == 0:
		d.say(note, id, "hermesd login",
			"there is no key of a language model: an Ollama on this machine is used, else the offline model, which is none")
	case a.Provider == "auto":
		d.say(fine, id, "", "there is a key of %s, from %s", all[0].Provider, all[0].Source)
	case !slices.ContainsFunc(all, func(c credentials.Credential) bool { return c.Provider == a.Provider }) && variable != "":
		d.say(wrong, id, "hermesd login "+a.Provider+"; or set "+variable+" where the daemon is started, then: hermesd stop", "provider %s has no key", a.Provider)
	default:
		d.say(fine, id, "", "provider %s", a.Provider)
	}
}

// keyVariables are those that can hold keys.
func (d *doctor) keyVariables() []string {
	var names []string
	for _, provider := range configs.Providers() {
		if v := credentials.Variable(provider); v != "" {
			names = append(names, v)
		}
	}
	names = append(names, "ANTHROPIC_AUTH_TOKEN")
	for _, p := range d.config.Providers {
		if p.KeyEnv != "" {
			names = append(names, p.KeyEnv)
		}
	}
	return names
}

// surroundings asks the daemon; without one there are this terminal's environment
// and the login shell's.
func (d *doctor) surroundings(ctx context.Context, commands, variables []string) ([]surroundings, error) {
	if d.client != nil {
		ctx, cancel := context.WithTimeout(ctx, loginPatience)
		defer cancel()
		var reply struct {
			Environments []surroundings `json:"environments"`
		}
		err := d.client.Call(ctx, "_hermes/doctor", map[string]any{"commands": commands, "variables": variables}, &reply)
		return reply.Environments, err
	}
	login := newLogin(zerolog.Nop())
	login.Failed = func(err error) {
		d.say(note, "login", "see to it that your profile works without a terminal", "%v", err)
	}
	all := []surroundings{{ID: "here"}, {ID: "login"}}
	for i, vars := range [][]string{os.Environ(), login.Environ(ctx)} {
		s := &all[i]
		s.Sent, s.Found, s.Absent = true, map[string]string{}, map[string]string{}
		for _, c := range commands {
			if path, err := environ.Find(vars, c); err != nil {
				s.Absent[c] = err.Error()
			} else {
				s.Found[c] = path
			}
		}
		for _, kv := range vars {
			if name, value, _ := strings.Cut(kv, "="); value != "" && slices.Contains(variables, name) {
				s.Set = append(s.Set, name)
			}
		}
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// lookAtService: how the manager and the daemon's own notes say it is.
func (d *doctor) lookAtService(ctx context.Context) {
	s, err := d.a.service(serviceCommandFlags{})
	if err != nil {
		d.say(note, "service", "", "%v", err)
		return
	}
	st, err := s.Status(ctx)
	switch {
	case err != nil:
		d.say(note, "service", "", "%v", err)
		return
	case !st.Installed:
		d.say(fine, "service", "", "it is not installed, which is not needed: hermesd service install")
		return
	}
	last, err := lastStart(d.places)
	if err != nil {
		d.say(note, "service-last", "", "%v", err)
	} else if last != nil {
		if text := last.summary(); text != "" {
			d.say(wrong, "service-last", "hermesd service restart", "%s", text)
		}
	}
	switch {
	case st.Failed:
		d.say(wrong, "service", "see: hermesd service logs; then: hermesd service restart", "%s is %s; %s", st.Unit, st.State, st.Result)
	case !st.Running && !st.Activated:
		d.say(note, "service", "hermesd service start", "%s is %s", st.Unit, st.State)
	default:
		d.say(fine, "service", "", "%s is %s", st.Unit, st.State)
	}
	d.adviseOnService(st)
}

// adviseOnService gives on what package service says a person should know.
func (d *doctor) adviseOnService(st service.Status) {
	for i, text := range st.Advice {
		fix := ""
		if strings.Contains(text, "enable-linger") {
			fix = "loginctl enable-linger"
		}
		d.say(note, fmt.Sprintf("service-advice-%d", i+1), fix, "%s", text)
	}
}

// findBeside finds a program of ours: beside this one, or on PATH.
func findBeside(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("there is no " + name + ", which editors start, beside " + self + " or on PATH")
	}
	return filepath.Abs(path)
}

// versionOf asks a program of ours.
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return version, nil
}
