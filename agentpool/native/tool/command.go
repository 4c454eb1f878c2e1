package tool

// Command is what the rules of approval know of a shell command.
type Command struct {
	// Text is the command as it is run.
	Text string
}
