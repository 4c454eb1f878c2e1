package native

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// mode says what is asked before it is done.
type mode string

const (
	modeDefault     mode = "default"
	modeAcceptEdits mode = "accept_edits"
	modeDontAsk     mode = "dont_ask"
)

// modes are all modes in the order editors show them. policy is the name of
// the same thing in the configuration (approval_mode).
var modes = [...]struct {
	id                mode
	policy            string
	name, description string
}{
	{modeDefault, "ask", "Default", "Ask before files are changed and commands are run"},
	{modeAcceptEdits, "workspace_session", "Accept Edits", "Change files in the session's folders without asking; ask before commands and for sensitive files"},
	{modeDontAsk, "session", "Don't Ask", "Ask for sensitive files only"},
}

func validMode(m mode) bool {
	for _, known := range modes {
		if known.id == m {
			return true
		}
	}
	return false
}

// modeOfPolicy returns the mode of a value of approval_mode; "" means ask.
func modeOfPolicy(policy string) (mode, error) {
	if policy == "" {
		return modeDefault, nil
	}
	var known []string
	for _, m := range modes {
		if m.policy == policy {
			return m.id, nil
		}
		known = append(known, m.policy)
	}
	return "", fmt.Errorf("approval_mode %q is unknown: it is one of %s", policy, strings.Join(known, ", "))
}

// Ids of the config options.
const (
	optionMode  = "mode"
	optionModel = "model"
)

type modeInfo struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type modeState struct {
	Current   string     `json:"currentModeId"`
	Available []modeInfo `json:"availableModes"`
}

type configValue struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type configOption struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Category string        `json:"category"`
	Type     string        `json:"type"`
	Current  string        `json:"currentValue"`
	Options  []configValue `json:"options"`
}

// settings writes what a session has: the mode twice, as a mode and as a
// config option, always the same.
func settings(current mode, model llm.Info) session.Settings {
	state := modeState{Current: string(current)}
	option := configOption{ID: optionMode, Name: "Approval", Category: "mode", Type: "select", Current: string(current)}
	for _, m := range modes {
		state.Available = append(state.Available, modeInfo{string(m.id), m.name, m.description})
		option.Options = append(option.Options, configValue{string(m.id), m.name, m.description})
	}
	models := configOption{ID: optionModel, Name: "Model", Category: "model", Type: "select", Current: model.Name,
		Options: []configValue{{Value: model.Name, Name: model.Name, Description: "from " + model.Provider}}}
	if model.Provider == "offline" {
		models.Options[0].Name, models.Options[0].Description = "Offline", "No language model: a few words, without network"
	}
	return session.Settings{Modes: encode(state), Options: encode([]configOption{option, models})}
}

// savedMode is the mode stored settings speak of, "" if none that we know.
func savedMode(s session.Settings) mode {
	var state modeState
	if json.Unmarshal(s.Modes, &state) == nil && validMode(mode(state.Current)) {
		return mode(state.Current)
	}
	var options []configOption
	if json.Unmarshal(s.Options, &options) == nil {
		for _, o := range options {
			if o.ID == optionMode && validMode(mode(o.Current)) {
				return mode(o.Current)
			}
		}
	}
	return ""
}

// changed returns the mode after a change, or an *session.Error with -32602.
func changed(now mode, c session.Change, model llm.Info) (mode, error) {
	invalid := func(format string, a ...any) (mode, error) {
		return now, &session.Error{Code: session.CodeParams, Message: fmt.Sprintf(format, a...)}
	}
	pick := func(id string) (mode, error) {
		if !validMode(mode(id)) {
			return invalid("there is no mode %q: choose default, accept_edits or dont_ask", id)
		}
		return mode(id), nil
	}
	if c.Option == "" {
		return pick(c.Mode)
	}
	var value string
	if err := json.Unmarshal(c.Value, &value); err != nil {
		return invalid("the value of the option %q must be a string", c.Option)
	}
	switch c.Option {
	case optionMode:
		return pick(value)
	case optionModel:
		if value != model.Name {
			return invalid("there is no model %q: choose %s", value, model.Name)
		}
		return now, nil
	}
	return invalid("there is no option %q: choose mode or model", c.Option)
}
