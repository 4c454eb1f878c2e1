package jsonrpc

import "io"

// Pipe returns two started peers that are connected to each other in memory,
// for tests. Both must be closed.
func Pipe(a, b Options) (*Peer, *Peer) {
	fromB, toA := io.Pipe()
	fromA, toB := io.Pipe()
	pa, pb := New(fromB, toB, a), New(fromA, toA, b)
	pa.Start()
	pb.Start()
	return pa, pb
}
