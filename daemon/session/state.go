package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hermesd/hermesd/transport/acp"
)

// State is what a session is after some prefix of its log: a fold of events,
// pure and deterministic.
type State struct {
	Head      Seq
	Meta      Meta
	Settings  Settings
	Queue     []Queued
	Turn      *Running
	LastEnded Seq            // Seq of the last TurnEnded
	Questions []OpenQuestion // in the order they were asked
	Calls     ToolCalls      // tool calls of the log that are not final
	Commands  []byte         // last available_commands_update
	Info      []byte         // last session_info_update with a title
	Deleted   bool
}

// Queued is a prompt that waits for its turn.
type Queued struct {
	Seq    Seq
	Origin Origin
}

// Running is the turn that is under way.
type Running struct {
	Prompt  Seq // names the turn
	Origin  Origin
	Started Seq   // Seq of TurnStarted
	Since   int64 // Unix milliseconds
}

// OpenQuestion is a question nobody has answered yet.
type OpenQuestion struct {
	Seq  Seq
	Time int64
	QuestionAsked
}

// Apply takes the next event. An error means a log that no version of ours
// wrote; the state is then unchanged but for Head.
func (st *State) Apply(r Record) error {
	st.Head = r.Last
	switch r.Kind {
	case KindUpdate:
		st.applyUpdate(r.Data)
		return nil
	case KindAgentRecord, KindAgentStarted, KindAgentDied, KindDetached:
		return nil
	}
	if err := st.applyFact(r); err != nil {
		return fmt.Errorf("event %d of kind %d: %w", r.First, r.Kind, err)
	}
	st.Meta.Updated = time.UnixMilli(r.Time).UTC()
	return nil
}

func (st *State) applyFact(r Record) error {
	switch r.Kind {
	case KindCreated:
		f, err := decode[Created](r.Data)
		if err != nil {
			return err
		}
		st.Meta, st.Settings = f.Meta, f.Settings
	case KindPromptAdmitted:
		f, err := decode[promptOrigin](r.Data)
		if err != nil {
			return err
		}
		st.Queue = append(st.Queue, Queued{r.First, f.Origin})
	case KindPromptWithdrawn:
		f, err := decode[PromptWithdrawn](r.Data)
		if err != nil {
			return err
		}
		st.unqueue(f.Prompt)
	case KindPromptJoined:
		f, err := decode[PromptJoined](r.Data)
		if err != nil {
			return err
		}
		st.unqueue(f.Prompt)
	case KindTurnStarted:
		f, err := decode[TurnStarted](r.Data)
		if err != nil {
			return err
		}
		st.Turn = &Running{Prompt: f.Prompt, Origin: st.unqueue(f.Prompt).Origin, Started: r.First, Since: r.Time}
		st.Meta.Turns++
	case KindTurnEnded:
		st.Turn, st.LastEnded = nil, r.First
	case KindQuestionAsked:
		f, err := decode[QuestionAsked](r.Data)
		if err != nil {
			return err
		}
		st.Questions = append(st.Questions, OpenQuestion{r.First, r.Time, f})
	case KindQuestionAnswered:
		f, err := decode[QuestionAnswered](r.Data)
		if err != nil {
			return err
		}
		for i, q := range st.Questions {
			if q.Seq == f.Question {
				st.Questions = append(st.Questions[:i:i], st.Questions[i+1:]...)
				break
			}
		}
	case KindSettingsChanged:
		f, err := decode[SettingsChanged](r.Data)
		if err != nil {
			return err
		}
		st.Settings = f.Settings
	case KindRootsChanged:
		f, err := decode[RootsChanged](r.Data)
		if err != nil {
			return err
		}
		st.Meta.Dirs, st.Meta.MCPServers = f.Dirs, f.MCPServers
	case KindPinned:
		f, err := decode[Pinned](r.Data)
		if err != nil {
			return err
		}
		st.Meta.Pinned = f.Pinned
	case KindDeleted:
		st.Deleted = true
	}
	return nil
}

// share keeps one copy of what two states of a session say alike.
func (st *State) share(other *State) {
	one := func(a *json.RawMessage, b json.RawMessage) {
		if len(*a) > 0 && bytes.Equal(*a, b) {
			*a = b
		}
	}
	one(&st.Settings.Modes, other.Settings.Modes)
	one(&st.Settings.Options, other.Settings.Options)
	one(&st.Meta.MCPServers, other.Meta.MCPServers)
}

// promptOrigin is PromptAdmitted without its content, which may be large.
type promptOrigin struct {
	Origin Origin `json:"origin"`
}

func (st *State) applyUpdate(u []byte) {
	switch acp.UpdateKind(u) {
	case acp.ToolCall, acp.ToolCallUpdate:
		st.Calls.Apply(u)
	case acp.AvailableCommands:
		st.Commands = u
	case acp.SessionInfo:
		var info struct {
			Title *string `json:"title"`
		}
		if json.Unmarshal(u, &info) == nil && info.Title != nil {
			st.Meta.Title, st.Info = *info.Title, u
		}
	}
}

func (st *State) unqueue(p Seq) (q Queued) {
	for i := range st.Queue {
		if st.Queue[i].Seq == p {
			q = st.Queue[i]
			st.Queue = append(st.Queue[:i:i], st.Queue[i+1:]...)
			return q
		}
	}
	return Queued{Seq: p}
}

func decode[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // our own types; RawMessages were validated on entry
	}
	return b
}
