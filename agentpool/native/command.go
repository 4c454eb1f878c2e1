package native

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
)

// command is a prompt of the form "/name", answered without the model.
type command struct {
	name, description string
	answer            func(*Agent) string
}

func commands() []command {
	return []command{
		{"help", "What this agent can do and which commands there are", (*Agent).help},
		{"tools", "The tools of this agent, and what is asked before they run", (*Agent).listTools},
		{"mcp", "The MCP servers of this session and how they are doing", (*Agent).listServers},
		{"version", "The version of hermesd and the model in use", (*Agent).version},
	}
}

// slashCommand tells whether a prompt is one of our commands. Any other text
// that begins with "/" is a prompt like others.
func slashCommand(msg llm.Message) (command, bool) {
	if len(msg.Parts) != 1 {
		return command{}, false
	}
	fields := strings.Fields(msg.Parts[0].Text)
	if len(fields) == 0 {
		return command{}, false
	}
	for _, c := range commands() {
		if fields[0] == "/"+c.name {
			return c, true
		}
	}
	return command{}, false
}

// commandsUpdate is the available_commands_update of this version.
func commandsUpdate() []byte {
	type entry struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	var all []entry
	for _, c := range commands() {
		all = append(all, entry{c.name, c.description})
	}
	return encode(struct {
		Update   string  `json:"sessionUpdate"`
		Commands []entry `json:"availableCommands"`
	}{"available_commands_update", all})
}

func (a *Agent) help() string {
	var b strings.Builder
	b.WriteString("Commands:\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "- `/%s`: %s\n", c.name, c.description)
	}
	if a.chosenModel().Provider == catalog.Offline {
		b.WriteString("\nThe offline model is no language model. It reads a prompt line by line and knows the words " + llm.Words + ":\n\n" +
			"```\nsay TEXT\nthink TEXT\nread PATH [A-B]\nsearch PATTERN [PATH]\nwrite PATH          the lines up to a lone \".\" are the content\n" +
			"edit PATH           lines to \"---\" are the old text, lines to a lone \".\" the new\nrun COMMAND\nfetch URL\nplan A; B; C\npropose TEXT\nask QUESTION\ncall SERVER TOOL [JSON]\n" +
			"stream N [BYTES]\nsleep DURATION\nfail TEXT\n```\n")
	}
	return b.String()
}

func (a *Agent) listTools() string {
	var b strings.Builder
	b.WriteString("Tools:\n\n")
	for _, t := range a.tools.All() {
		first, _, _ := strings.Cut(strings.ReplaceAll(t.Description(), "\n", " "), ". ")
		fmt.Fprintf(&b, "- `%s` (%s): %s.\n", t.Name(), t.Kind(), strings.TrimSuffix(first, "."))
	}
	m := a.currentMode()
	for _, known := range modes {
		if known.id == m {
			fmt.Fprintf(&b, "\nThe mode is %s: %s.\n", known.name, strings.ToLower(known.description[:1])+known.description[1:])
		}
	}
	return b.String()
}

func (a *Agent) version() string {
	info := a.chosenModel()
	return fmt.Sprintf("hermesd %s (%s, %s/%s), model %s of %s.", a.cfg.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, info.Name, info.Provider)
}
