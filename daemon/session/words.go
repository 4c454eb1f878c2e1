package session

import "fmt"

var kindWords = map[Kind]string{
	KindCreated: "created", KindUpdate: "update", KindPromptAdmitted: "prompt_admitted", KindPromptWithdrawn: "prompt_withdrawn", KindPromptJoined: "prompt_joined",
	KindTurnStarted: "turn_started", KindTurnEnded: "turn_ended", KindQuestionAsked: "question_asked", KindQuestionAnswered: "question_answered",
	KindSettingsChanged: "settings_changed", KindAgentStarted: "agent_started", KindAgentDied: "agent_died", KindAgentRecord: "agent_record",
	KindDetached: "detached", KindRootsChanged: "roots_changed", KindPinned: "pinned", KindDeleted: "deleted",
}

// String is the kind as commands and exports write it.
func (k Kind) String() string {
	if w := kindWords[k]; w != "" {
		return w
	}
	return fmt.Sprintf("kind_%d", uint8(k))
}

// parseKind is the kind that a word stands for, 0 if none.
func parseKind(word string) Kind {
	for k, w := range kindWords {
		if w == word {
			return k
		}
	}
	return 0
}
