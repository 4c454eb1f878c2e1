package external

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// signalMarked ends the processes whose environment has the entry. A process can
// have taken it out; then it is on its own.
func signalMarked(entry string, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	proc, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, p := range proc {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + p.Name() + "/environ") // of others' processes it is closed
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+entry+"\x00")) {
			continue
		}
		_ = syscall.Kill(pid, sig)
	}
}
