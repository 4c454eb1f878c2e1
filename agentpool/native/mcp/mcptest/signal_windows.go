package mcptest

func ignoreSignals() {}
