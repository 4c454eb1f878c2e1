package acp

// Kinds of `session/update` that protocol version 1 knows.
const (
	UserMessageChunk       = "user_message_chunk"
	AgentMessageChunk      = "agent_message_chunk"
	AgentThoughtChunk      = "agent_thought_chunk"
	ToolCall               = "tool_call"
	ToolCallUpdate         = "tool_call_update"
	Plan                   = "plan"
	PlanUpdate             = "plan_update"
	PlanRemoved            = "plan_removed"
	AvailableCommands      = "available_commands_update"
	CurrentMode            = "current_mode_update"
	ConfigOption           = "config_option_update"
	SessionInfo            = "session_info_update"
	Usage                  = "usage_update"
	Notice                 = "notice"
	CompactionUpdate       = "compaction_update"
	CompactionSummaryChunk = "compaction_summary_chunk"
	SubagentUpdate         = "subagent_update"
	SessionMessage         = "session_message"
	SessionMessageChunk    = "session_message_chunk"
)

// intern gives the constant of a known kind, so that asking for a kind
// allocates nothing.
func intern(b []byte) (string, bool) {
	switch string(b) {
	case UserMessageChunk:
		return UserMessageChunk, true
	case AgentMessageChunk:
		return AgentMessageChunk, true
	case AgentThoughtChunk:
		return AgentThoughtChunk, true
	case ToolCall:
		return ToolCall, true
	case ToolCallUpdate:
		return ToolCallUpdate, true
	case Plan:
		return Plan, true
	case PlanUpdate:
		return PlanUpdate, true
	case PlanRemoved:
		return PlanRemoved, true
	case AvailableCommands:
		return AvailableCommands, true
	case CurrentMode:
		return CurrentMode, true
	case ConfigOption:
		return ConfigOption, true
	case SessionInfo:
		return SessionInfo, true
	case Usage:
		return Usage, true
	case Notice:
		return Notice, true
	case CompactionUpdate:
		return CompactionUpdate, true
	case CompactionSummaryChunk:
		return CompactionSummaryChunk, true
	case SubagentUpdate:
		return SubagentUpdate, true
	case SessionMessage:
		return SessionMessage, true
	case SessionMessageChunk:
		return SessionMessageChunk, true
	}
	return "", false
}

// UpdateKind gives the value of `sessionUpdate`, "" if there is none. It
// allocates nothing for the kinds named above.
func UpdateKind(update []byte) string {
	start, end, ok := find(update, "sessionUpdate")
	if !ok {
		return ""
	}
	inner, ok := inside(update[start:end])
	if !ok {
		return ""
	}
	if kind, ok := intern(inner); ok {
		return kind
	}
	return text(inner)
}

// IsChunk says whether updates of this kind are pieces of a message.
func IsChunk(kind string) bool {
	switch kind {
	case UserMessageChunk, AgentMessageChunk, AgentThoughtChunk:
		return true
	}
	return false
}

// ChunkText finds the text of a message chunk: update[start:end] is what stands
// between the quotes of content.text, still escaped. ok is false if update is
// no chunk or its content no text block.
func ChunkText(update []byte) (start, end int, ok bool) {
	chunk := false
	contentStart, contentEnd := -1, -1
	m := object(update)
	for m.next() {
		switch {
		case m.is("sessionUpdate"):
			inner, isString := inside(m.value())
			chunk = false
			if isString {
				kind, known := intern(inner)
				if !known {
					kind = text(inner)
				}
				chunk = IsChunk(kind)
			}
		case m.is("content"):
			contentStart, contentEnd = m.valStart, m.valEnd
		}
	}
	if !chunk || contentStart < 0 {
		return 0, 0, false
	}
	isText := false
	start = -1
	c := object(update[contentStart:contentEnd])
	for c.next() {
		switch {
		case c.is("type"):
			inner, isString := inside(c.value())
			isText = isString && sameText(inner, "text")
		case c.is("text"):
			start = -1
			if _, isString := inside(c.value()); isString {
				start, end = contentStart+c.valStart+1, contentStart+c.valEnd-1
			}
		}
	}
	if !isText || start < 0 {
		return 0, 0, false
	}
	return start, end, true
}

// MessageID gives the `messageId` of an update, "" if there is none.
func MessageID(update []byte) string { return stringMember(update, "messageId") }

// ToolCallID gives the `toolCallId` of an update or a tool call, "" if there is
// none.
func ToolCallID(update []byte) string { return stringMember(update, "toolCallId") }

// stringMember gives a member that is a string, "" if it is anything else.
func stringMember(b []byte, name string) string {
	start, end, ok := find(b, name)
	if !ok {
		return ""
	}
	inner, ok := inside(b[start:end])
	if !ok {
		return ""
	}
	return text(inner)
}

// Gate names the client capability without which protocol version 1 forbids to
// send an update of this kind, as a path below `clientCapabilities`; "" if it
// needs none. Kinds that we do not know have no gate: what they need is between
// the agent and the editor.
func Gate(kind string) string {
	switch kind {
	case Notice:
		return "session.notices"
	case CompactionUpdate, CompactionSummaryChunk:
		return "session.compaction"
	case PlanUpdate, PlanRemoved:
		return "plan"
	case SubagentUpdate, SessionMessage, SessionMessageChunk:
		return "subagents"
	}
	return ""
}
