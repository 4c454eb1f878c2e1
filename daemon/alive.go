package daemon

import "context"

// Alive returns when the daemon can do what every connection needs: look up who
// is connected and which sessions are live. If it cannot before ctx ends, that
// is the error; whoever asked may then rather have a new daemon than this one. A
// single session that does not answer is not asked about: it is no reason to end
// the others.
//
// After an error a goroutine stays behind until the locks are free again.
func (d *Daemon) Alive(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.connected()
		d.reg.all()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
