package native

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/daemon/session"
)

// mode says what is asked before it is done.
type mode string

const (
	modeDefault     mode = "default"
	modeAcceptEdits mode = "accept_edits"
	modePlan        mode = "plan"
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
	{modePlan, "plan", "Plan", "Read, search and think only; change nothing until the plan is agreed"},
	{modeDontAsk, "session", "Don't Ask", "Ask for sensitive files and unreadable commands only"},
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
	optionMode   = "mode"
	optionModel  = "model"
	optionEffort = "effort"

	effortOwn = "default" // the value of the option for the model's own choice
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
// config option, always the same. The effort of reasoning is an option where
// the model has one.
func settings(chosen choice, list []llm.Info) session.Settings {
	state := modeState{Current: string(chosen.mode)}
	option := configOption{ID: optionMode, Name: "Approval", Category: "mode", Type: "select", Current: string(chosen.mode)}
	for _, m := range modes {
		state.Available = append(state.Available, modeInfo{string(m.id), m.name, m.description})
		option.Options = append(option.Options, configValue{string(m.id), m.name, m.description})
	}
	models := configOption{ID: optionModel, Name: "Model", Category: "model", Type: "select", Current: chosen.model}
	options := []configOption{option}
	for _, m := range list {
		v := configValue{Value: m.ID(), Name: m.Title, Description: "from " + m.Provider}
		if v.Name == "" {
			v.Name = m.Name
		}
		if m.ID() == catalog.Offline {
			v.Name, v.Description = "Offline", "No language model: a few words, without network"
		}
		models.Options = append(models.Options, v)
	}
	options = append(options, models)
	for _, m := range list {
		if m.ID() == chosen.model && len(m.Efforts) > 0 {
			options = append(options, effortOption(m, chosen.effort))
		}
	}
	return session.Settings{Modes: bytes.Clone(encode(state)), Options: bytes.Clone(encode(options))} // without the room to grow: they stay
}

func effortOption(m llm.Info, current string) configOption {
	o := configOption{ID: optionEffort, Name: "Reasoning effort", Category: "thought_level", Type: "select", Current: effortOwn,
		Options: []configValue{{Value: effortOwn, Name: "Default", Description: "As the model chooses"}}}
	for _, e := range m.Efforts {
		if e == current {
			o.Current = e
		}
		o.Options = append(o.Options, configValue{Value: e, Name: strings.ToUpper(e[:1]) + e[1:]})
	}
	return o
}

// saved is the value of an option in stored settings, "" if there is none.
func saved(s session.Settings, id string) string {
	var options []configOption
	if json.Unmarshal(s.Options, &options) == nil {
		for _, o := range options {
			if o.ID == id {
				return o.Current
			}
		}
	}
	return ""
}

// savedMode is the mode stored settings speak of, "" if none that we know.
func savedMode(s session.Settings) mode {
	var state modeState
	if json.Unmarshal(s.Modes, &state) == nil && validMode(mode(state.Current)) {
		return mode(state.Current)
	}
	if m := mode(saved(s, optionMode)); validMode(m) {
		return m
	}
	return ""
}

// restored returns what a session has chosen: what was stored, and else what is
// configured. A stored model is never replaced by another one, also if it
// cannot be had at the moment.
func restored(ctx context.Context, models models, s session.Settings, c choice) (choice, error) {
	if m := savedMode(s); m != "" {
		c.mode = m
	}
	c.model = saved(s, optionModel)
	if _, one := models.(only); one || c.model == "" {
		id, err := models.Default(ctx)
		if err != nil {
			return c, err
		}
		c.model = id
	}
	if e := saved(s, optionEffort); e == effortOwn {
		c.effort = ""
	} else if e != "" {
		c.effort = e
	}
	c.effort = fitting(c.effort, models.Info(c.model))
	return c, nil
}

// fitting is the effort if the model has it, else the model's own choice.
func fitting(effort string, m llm.Info) string {
	if slices.Contains(m.Efforts, effort) {
		return effort
	}
	return ""
}

// notice says what a change comes to that counts from the next turn on, "" if
// it is none of that kind.
func notice(was, now choice, model llm.Info) string {
	switch {
	case was.model != now.model:
		return fmt.Sprintf("From the next turn on the model is %s of %s; this turn goes on with the one it began with.\n\n", model.Name, model.Provider)
	case was.effort != now.effort && now.effort == "":
		return "From the next turn on the model chooses the reasoning effort itself.\n\n"
	case was.effort != now.effort:
		return fmt.Sprintf("From the next turn on the reasoning effort is %s.\n\n", now.effort)
	}
	return ""
}

// changed returns what is chosen after a change, or an *session.Error with
// -32602.
func changed(ctx context.Context, now choice, c session.Change, models models) (choice, error) {
	invalid := func(format string, a ...any) (choice, error) {
		return now, &session.Error{Code: session.CodeParams, Message: fmt.Sprintf(format, a...)}
	}
	pick := func(id string) (choice, error) {
		if !validMode(mode(id)) {
			return invalid("there is no mode %q: choose default, accept_edits, plan or dont_ask", id)
		}
		now.mode = mode(id)
		return now, nil
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
		if value != now.model && !models.Has(ctx, value) {
			return invalid("there is no model %q here: choose one of the list", value)
		}
		now.model = value
		now.effort = fitting(now.effort, models.Info(value))
		return now, nil
	case optionEffort:
		m := models.Info(now.model)
		if value == effortOwn {
			value = ""
		} else if !slices.Contains(m.Efforts, value) {
			if len(m.Efforts) == 0 {
				return invalid("the model %s has no reasoning effort to choose", m.Name)
			}
			return invalid("there is no reasoning effort %q: choose default, %s", value, strings.Join(m.Efforts, ", "))
		}
		now.effort = value
		return now, nil
	}
	return invalid("there is no option %q: choose mode, model or effort", c.Option)
}
