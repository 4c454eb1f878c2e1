package native

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/daemon/session"
)

// command is a prompt of the form "/name …". Exactly one of the ways to answer
// it is set.
type command struct {
	name, description string
	hint              string // of what may follow; "" if nothing does

	// atOnce answers it without waiting for anything, also while a turn runs.
	atOnce func(a *Agent, arg string) string
	// beside answers it and may take its time; also while a turn runs, but not
	// in it.
	beside func(ctx context.Context, a *Agent, arg string) string
	// inTurn answers it in a turn of its own.
	inTurn func(ctx context.Context, t *turn, arg string) (string, error)
	// steers and queues are prompts with a command in front.
	steers, queues bool
}

func commands() []command {
	return []command{
		{name: "help", description: "What this agent can do and which commands there are", atOnce: (*Agent).help},
		{name: "model", hint: "[name]", description: "The models there are, or another one from the next turn on", beside: switchModel},
		{name: "tools", description: "The tools of this agent, and what is asked before they run", atOnce: (*Agent).listTools},
		{name: "mcp", description: "The MCP servers of this session and how they are doing", atOnce: func(a *Agent, _ string) string { return a.listServers() }},
		{name: "context", description: "How full the model's context is, and with what", atOnce: (*Agent).context},
		{name: "compact", hint: "[what to keep]", description: "Have the model sum up the conversation to make room", inTurn: compactCommand},
		{name: "reset", description: "Begin anew: the model forgets the conversation, the session keeps its log", inTurn: resetCommand},
		{name: "steer", hint: "text", description: "Tell the running turn something, without waiting for its end", steers: true},
		{name: "queue", hint: "[text | drop number]", description: "The prompts that wait; add one, or take one back", queues: true},
		{name: "title", hint: "text", description: "Give the session another title", beside: retitle},
		{name: "version", description: "The version of hermesd and the model in use", atOnce: (*Agent).version},
	}
}

const (
	steerUsage = "Say what to tell the running turn: `/steer text`."
	queueUsage = "`/queue` lists the prompts that wait, `/queue text` adds one, `/queue drop number` takes one back, `/queue drop all` all of them."
)

// slashCommand tells whether a prompt begins with one of our commands, and what
// follows its name. Any other text that begins with "/" is a prompt like
// others.
func slashCommand(msg llm.Message) (c command, arg string, ok bool) {
	if len(msg.Parts) == 0 {
		return command{}, "", false
	}
	name, arg, _ := cutWord(strings.TrimLeft(msg.Parts[0].Text, " \t\r\n"))
	for _, c := range commands() {
		if name != "/"+c.name {
			continue
		}
		// Attachments go with what takes a prompt behind it.
		if len(msg.Parts) > 1 && !c.steers && !c.queues {
			return command{}, "", false
		}
		return c, arg, true
	}
	return command{}, "", false
}

// cutWord cuts s behind its first word.
func cutWord(s string) (word, rest string, more bool) {
	i := strings.IndexAny(s, " \t\r\n")
	if i < 0 {
		return s, "", false
	}
	return s[:i], strings.TrimSpace(s[i:]), true
}

// withoutCommand is the prompt behind a command: its first text is only what
// follows the command's name. ok is false if nothing is left.
func withoutCommand(msg llm.Message, arg string) (rest llm.Message, ok bool) {
	rest = llm.Message{Role: msg.Role}
	if arg != "" {
		rest.Parts = append(rest.Parts, llm.Part{Text: arg})
	}
	rest.Parts = append(rest.Parts, msg.Parts[1:]...)
	return rest, len(rest.Parts) > 0
}

// runCommand answers a command that has a turn of its own. The prompt behind
// "/steer" and "/queue" is then one like others: as is returned.
func (t *turn) runCommand(ctx context.Context, c command, arg string, msg llm.Message) (as llm.Message, prompt bool, err error) {
	var text string
	switch {
	case c.queues && (arg == "" || strings.HasPrefix(arg, "drop")) && len(msg.Parts) == 1:
		text, _, _ = queueCommand(arg, nil)
	case c.steers || c.queues:
		rest, ok := withoutCommand(msg, arg)
		if ok {
			return rest, true, nil
		}
		text = steerUsage
	case c.atOnce != nil:
		text = c.atOnce(t.Agent, arg)
	case c.beside != nil:
		text = c.beside(ctx, t.Agent, arg)
	default:
		if text, err = c.inTurn(ctx, t, arg); err != nil {
			return msg, false, err
		}
	}
	return msg, false, t.host.Update(ctx, appendChunk(chunkHead("agent_message_chunk", t.messageID()), text))
}

// commandMessageID names the answer to a command that was given in a turn of
// another prompt: this one has none.
func commandMessageID(prompt session.Seq) string { return fmt.Sprintf("msg_%d_1", prompt) }

// commandsUpdate is the available_commands_update of this version.
func commandsUpdate() []byte {
	type input struct {
		Hint string `json:"hint"`
	}
	type entry struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Input       *input `json:"input,omitempty"`
	}
	var all []entry
	for _, c := range commands() {
		e := entry{Name: c.name, Description: c.description}
		if c.hint != "" {
			e.Input = &input{c.hint}
		}
		all = append(all, e)
	}
	return encode(struct {
		Update   string  `json:"sessionUpdate"`
		Commands []entry `json:"availableCommands"`
	}{"available_commands_update", all})
}

func (a *Agent) help(string) string {
	var b strings.Builder
	b.WriteString("Commands:\n\n")
	for _, c := range commands() {
		call := "/" + c.name
		if c.hint != "" {
			call += " " + c.hint
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", call, c.description)
	}
	if a.chosenModel().Provider == catalog.Offline {
		b.WriteString("\nThe offline model is no language model. It reads a prompt line by line and knows the words " + llm.Words + ":\n\n" +
			"```\nsay TEXT\nthink TEXT\nread PATH [A-B]\nsearch PATTERN [PATH]\nwrite PATH          the lines up to a lone \".\" are the content\n" +
			"edit PATH           lines to \"---\" are the old text, lines to a lone \".\" the new\nrun COMMAND\nfetch URL\nplan A; B; C\npropose TEXT\nask QUESTION\ncall SERVER TOOL [JSON]\n" +
			"stream N [BYTES]\nsleep DURATION\nfail TEXT\n```\n")
	}
	return b.String()
}

func (a *Agent) listTools(string) string {
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

func (a *Agent) version(string) string {
	info := a.chosenModel()
	return fmt.Sprintf("hermesd %s (%s, %s/%s), model %s of %s.", a.cfg.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, info.Name, info.Provider)
}

// listLimit is how long a list of models may take.
const listLimit = 3 * time.Second

// switchModel is "/model": without a name it lists.
func switchModel(ctx context.Context, a *Agent, arg string) string {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	current := a.chosenModel().ID()
	list := a.models.List(ctx, current)
	if arg == "" {
		var b strings.Builder
		b.WriteString("Models:\n\n")
		for _, m := range list {
			mark := ""
			if m.ID() == current {
				mark = " (in use)"
			}
			fmt.Fprintf(&b, "- `%s`%s\n", m.ID(), mark)
		}
		b.WriteString("\n`/model name` takes another one from the next turn on; a part of the name will do if only one has it.\n")
		return b.String()
	}
	var fits []string
	for _, m := range list {
		id := m.ID()
		if id == arg || m.Name == arg {
			fits = []string{id}
			break
		}
		if strings.Contains(strings.ToLower(id), strings.ToLower(arg)) {
			fits = append(fits, id)
		}
	}
	switch {
	case len(fits) == 0:
		return fmt.Sprintf("No model is called %q: `/model` lists them.", arg)
	case len(fits) > 1:
		return fmt.Sprintf("%q could be any of `%s`: say more of the name.", arg, strings.Join(fits[:min(len(fits), 10)], "`, `"))
	case fits[0] == current:
		return fmt.Sprintf("`%s` is in use already.", current)
	}
	if err := a.host.Set(ctx, session.Change{Option: optionModel, Value: encode(fits[0])}); err != nil {
		return "The model stays as it is: " + err.Error()
	}
	return fmt.Sprintf("The model is `%s` from the next prompt on.", fits[0])
}

// retitle is "/title".
func retitle(ctx context.Context, a *Agent, arg string) string {
	text := title(llm.Message{Parts: []llm.Part{{Text: arg}}})
	if text == "" {
		return "Say what the title is to be: `/title text`."
	}
	a.titled.Store(true)
	if err := a.host.Update(ctx, titleUpdate(text)); err != nil {
		return "The title stays as it is: " + err.Error()
	}
	return fmt.Sprintf("The session is called %q now.", text)
}

func titleUpdate(text string) []byte {
	return encode(struct {
		Update string `json:"sessionUpdate"`
		Title  string `json:"title"`
	}{"session_info_update", text})
}

// queueCommand is "/queue" without a prompt behind it: mine is false if there is
// one.
func queueCommand(arg string, queued []session.Turn) (text string, drop []session.Seq, mine bool) {
	word, which, _ := cutWord(arg)
	switch {
	case arg == "":
		if len(queued) == 0 {
			return "No prompt waits.", nil, true
		}
		var b strings.Builder
		b.WriteString("Prompts that wait:\n\n")
		for i, q := range queued {
			fmt.Fprintf(&b, "%d. %s\n", i+1, promptLine(q.Blocks))
		}
		b.WriteString("\n`/queue drop number` takes one back.\n")
		return b.String(), nil, true
	case word != "drop":
		return "", nil, false
	case which == "all" && len(queued) > 0:
		for _, q := range queued {
			drop = append(drop, q.Seq)
		}
		return fmt.Sprintf("Taken back: %s.", counted(len(drop), "prompt")), drop, true
	}
	n, err := strconv.Atoi(which)
	switch {
	case err != nil && which != "all":
		return queueUsage, nil, true
	case err != nil || n < 1 || n > len(queued):
		return fmt.Sprintf("There is no such prompt: %s waiting.", counted(len(queued), "prompt")), nil, true
	}
	return "Taken back: " + promptLine(queued[n-1].Blocks), []session.Seq{queued[n-1].Seq}, true
}

func promptLine(blocks []json.RawMessage) string {
	msg, err := readPrompt(blocks)
	if err != nil {
		return "(a prompt that will not be taken)"
	}
	return title(msg)
}

func counted(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// context is "/context".
func (a *Agent) context(string) string {
	a.mu.Lock()
	g := a.gauge
	a.mu.Unlock()
	info := a.chosenModel()
	window := windowOf(info)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: about %d of %d tokens are in use (%d %%).\n", info.Name, g.used, window, 100*g.used/window)
	fmt.Fprintf(&b, "\n- %s in the conversation\n- %s of tools\n", counted(g.messages, "message"), counted(g.calls, "call"))
	if g.compactions > 0 {
		fmt.Fprintf(&b, "- summed up %s\n", times(g.compactions))
	}
	if at := threshold(info); g.used < at {
		fmt.Fprintf(&b, "\nIt is summed up by itself at about %d tokens; `/compact` does it now, `/reset` begins anew.\n", at)
	} else {
		b.WriteString("\nIt will be summed up before the next message of the model.\n")
	}
	return b.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// gauge is what "/context" tells, as of the last message. It is guarded by
// Agent.mu.
type gauge struct {
	used, messages, calls, compactions int
}

func (t *turn) readGauge() {
	g := gauge{used: t.used(), messages: len(t.history.messages), calls: t.history.calls, compactions: t.history.compactions}
	t.mu.Lock()
	t.gauge = g
	t.mu.Unlock()
}

// isCommand says whether a prompt is answered without the model.
func isCommand(msg llm.Message) bool {
	c, arg, ok := slashCommand(msg)
	if !ok {
		return false
	}
	if c.queues && (arg == "" || strings.HasPrefix(arg, "drop")) && len(msg.Parts) == 1 {
		return true
	}
	if c.steers || c.queues {
		_, prompt := withoutCommand(msg, arg)
		return !prompt
	}
	return true
}

// asPrompt is the prompt as the model gets it: without "/steer" or "/queue".
func asPrompt(msg llm.Message) llm.Message {
	if c, arg, ok := slashCommand(msg); ok && (c.steers || c.queues) {
		if rest, ok := withoutCommand(msg, arg); ok {
			return rest
		}
	}
	return msg
}

// resetCommand is "/reset".
func resetCommand(ctx context.Context, t *turn, _ string) (string, error) {
	n := len(t.history.messages)
	if err := t.host.Record(ctx, encode(record{Reset: true, Session: t.id})); err != nil {
		return "", err
	}
	t.history.reset()
	t.meter.context = 0
	if t.prefix != nil {
		t.told, t.knew = t.prefix.MCP, t.prefix.MCP
	}
	if err := t.sayUsage(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("Forgotten: %s. The session's log still has them; files and grants are as they were.", counted(n, "message")), nil
}
