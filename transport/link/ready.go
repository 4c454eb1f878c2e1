package link

import (
	"fmt"
	"os"
)

// Ready is the daemon's end of the pipe of [ReadyFD].
type Ready struct{ f *os.File }

// TakeReady takes the pipe out of the environment, so that no child gets it, and
// returns nil when there is none: nobody waits. It is to be called before the
// first child is started.
func TakeReady() *Ready {
	value, ok := os.LookupEnv(ReadyFD)
	if !ok {
		return nil
	}
	os.Unsetenv(ReadyFD)
	f, err := readyFile(value)
	if err != nil {
		return nil // a leftover of somebody else's start
	}
	return &Ready{f}
}

// Report says on the pipe that the daemon accepts connections (nil) or why it
// cannot, and closes it. It does nothing on a nil Ready and after the first
// time. That nobody reads any more is no error.
func (r *Ready) Report(err error) {
	if r == nil || r.f == nil {
		return
	}
	if err == nil {
		fmt.Fprint(r.f, "ready\n")
	} else {
		fmt.Fprintf(r.f, "error: %s\n", oneLine(err.Error()))
	}
	r.f.Close()
	r.f = nil
}
