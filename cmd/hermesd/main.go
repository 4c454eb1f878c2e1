// Hermesd keeps ACP sessions and serves them to any number of editors at once.
//
// This command is the daemon and everything a person does with it from a
// terminal: the commands that need a daemon are clients of it on its own
// socket. run.go joins the parts of the daemon; each command has its file.
//
// It exits 0 when done, 1 when something failed, 2 when it was called wrongly,
// 3 when there is no daemon, 4 when what was named does not exist.
package main

import (
	"os"
)

func main() {
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).run(os.Args[1:]))
}
