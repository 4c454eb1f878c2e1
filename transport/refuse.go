package transport

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

const (
	// refuseGap is how long nobody has to come until all are taken for refused.
	refuseGap = 50 * time.Millisecond
	// refuseTime is how long one of them may take to be refused.
	refuseTime = time.Second
)

// Refuse tells everybody who waits at a listener that a service manager handed
// over why no daemon will serve them, and closes it. Without that the manager
// would start the daemon again for those same clients, and again, until it gives
// up, and none of them would learn the reason.
func Refuse(ln *net.UnixListener, version string, why error) {
	defer ln.Close()
	var all sync.WaitGroup
	defer all.Wait() // each has a limit of time
	for {
		_ = ln.SetDeadline(time.Now().Add(refuseGap))
		c, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		if p, err := identify(c); err != nil || admit(p, os.Geteuid()) != nil {
			c.Close()
			continue
		}
		all.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(refuseTime))
			// The hello is read first: bytes left unread would reset the connection.
			h, said, _, err := link.ReadHello(c)
			if err != nil || !said {
				return // a plain ACP client has no place for this
			}
			w := link.Welcome{Link: link.Agree(h.Link), Version: version, PID: os.Getpid(), Error: "hermesd did not start: " + why.Error()}
			_, _ = c.Write(w.Line())
		})
	}
}
