package daemon

import (
	"context"
	"io"

	"github.com/hermesd/hermesd/daemon/session"
)

// ImportForTest imports a session and says at which line the reading ended.
func (d *Daemon) ImportForTest(r io.Reader) (session.ID, int, error) {
	lines := newLineReader(r, 1<<20)
	meta, _, err := d.importFrom(context.Background(), lines, "", session.Origin{})
	return meta.ID, lines.number, err
}
