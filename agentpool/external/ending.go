package external

import (
	"context"
	"time"

	"github.com/hermesd/hermesd/agentpool/process"
)

// exitTime is how long each step of ending a program may take.
const exitTime = 2 * time.Second

// end ends the program and everything it started, from politely to not: its
// session is closed, its input is closed, its group is asked to end, its group
// is killed, and so is whatever still carries the mark. Nothing of it runs when
// end returns; everybody who calls it waits for that.
func (l *life) end() {
	l.ended.Do(func() {
		defer close(l.over)
		l.cancel()
		if l.lives() && l.id() != "" && l.can("sessionCapabilities", "close") {
			ctx, cancel := context.WithTimeout(context.Background(), exitTime/2)
			_, _ = l.call(ctx, "session/close", sessionParams(l.id())) // it ends in any case
			cancel()
		}
		l.peer.Close(nil) // closes its stdin, and our end of its stdout
		if !within(l.exited, exitTime) {
			l.group.Terminate()
			within(l.exited, exitTime)
		}
		// Tools are often in groups of their own, some also in sessions: asked
		// first, then killed with the rest.
		process.SignalMarked(Marker+"="+l.mark, false)
		if l.group.Terminate() {
			time.Sleep(exitTime / 20) // nobody tells when a group has ended
		}
		l.group.Kill()
		// Until none is found: who is killed takes a moment to be gone.
		for limit := time.Now().Add(exitTime); process.SignalMarked(Marker+"="+l.mark, true) > 0 && time.Now().Before(limit); {
			time.Sleep(exitTime / 400)
		}
		<-l.exited
		l.group.Close()
		_ = l.peer.Wait()
	})
	<-l.over
}

func within(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
