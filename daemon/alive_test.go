package daemon

import (
	"context"
	"testing"
)

func TestADaemonThatIsStuckIsNotAlive(t *testing.T) {
	d := &Daemon{reg: &registry{}}
	if err := d.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.reg.mu.Lock()
	defer d.reg.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Alive(ctx); err == nil {
		t.Error("it is said to live while its registry is locked")
	}
}
