package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// SignalMarked asks the processes to end whose environment has the entry
// NAME=value, or kills them, also those that have left their group, and returns how
// many there were. A process can have taken the entry out; then it is on its own.
// It looks at every process of the machine once: it is for ends that are not
// everyday ones.
func SignalMarked(entry string, kill bool) (found int) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	proc, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, dir := range proc {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + dir.Name() + "/environ") // of others' processes it is closed
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+entry+"\x00")) {
			continue
		}
		if syscall.Kill(pid, sig) == nil {
			found++
		}
	}
	return found
}
