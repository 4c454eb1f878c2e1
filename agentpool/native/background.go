package native

import "github.com/hermesd/hermesd/agentpool/native/tool"

// Busy tells whether something of the agent runs though no turn does: commands
// in the background. The session stays in memory for them.
func (a *Agent) Busy() bool { return a.env.Jobs.Running() > 0 }

// jobEnded tells the editors that a command in the background is over. Its call
// has ended long ago, so the session says it.
func (a *Agent) jobEnded(end tool.JobEnd) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	update := encode(struct {
		Update string `json:"sessionUpdate"`
		Meta   any    `json:"_meta"`
	}{"session_info_update", hermesMeta(map[string]any{"process": end})})
	// The one who watches the command must not wait for the log.
	a.work.Go(func() { _ = a.host.Update(a.life, update) })
}
