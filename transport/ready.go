package transport

import "github.com/hermesd/hermesd/transport/link"

// NotifyReady tells whoever started this daemon, if somebody waits, that it
// accepts connections (nil) or why it cannot. Only the first call in a process
// says something. A daemon that starts other processes before it is ready takes
// the pipe first, with [link.TakeReady], so that they do not inherit it.
func NotifyReady(err error) { link.TakeReady().Report(err) }

// Dir makes sure that path is a folder of this user's that nobody else can look
// into (mode 0700). It is [link.PrivateDir].
func Dir(path string) error { return link.PrivateDir(path) }
