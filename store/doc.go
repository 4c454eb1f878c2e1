// Package store says how sessions get to disk: a journal in front, bbolt
// behind. It implements session.Store; Open gives the one that keeps, NewMemory
// one that forgets.
//
// # How an event travels
//
// Append puts events into the memory of their log and returns. One goroutine,
// the writer, takes what all logs have by then, writes it to the journal with
// one write(2) and says Written; from there on a dead process loses nothing. If
// somebody asked for it, a second goroutine syncs the journal while the writer
// goes on, and says Durable. A third goroutine, the transfer,
// moves what is written from memory to bbolt, in few and large transactions,
// neighbouring chunks of a message joined to one record; after that it is
// dropped from memory and the journal's files that held it are removed. So an
// event is in memory or in bbolt, the journal is only read by Open, and reading
// never waits for writing.
//
// # The folder
//
//	lock                    held by the process that uses the folder; its pid is in it
//	sessions.db             bbolt
//	sessions.db.corrupt-*   a file too short to hold anything, put aside
//	journal/                files called segments, numbered in hexadecimal
//	journal/*.journal
//	journal/*.damaged       segments put aside because something in them could not be read
//
// # The journal
//
// All numbers of fixed size are little-endian; uvarint and varint are those of
// encoding/binary; text is an uvarint length and as many bytes.
//
// A segment is a header and frames, one behind the other. The header is the
// same in all formats there will be:
//
//	offset  size  header
//	     0     8  magic "hermesj\n"
//	     8     4  format 1
//	    12     8  number of the segment
//	    20     4  CRC32C of bytes 0 to 20
//
//	offset  size  frame
//	     0     4  mark F5 68 6A F5
//	     4     4  length of the payload
//	     8     4  CRC32C of the payload
//	    12     4  CRC32C of bytes 0 to 12
//	    16        payload
//
// The payload is one of:
//
//	events    byte 1, text session, byte 0 or 1, if 1 text meta, uvarint first Seq, uvarint count, varint time, count × event
//	event     byte kind, byte ACP version, varint time since the one before, text data
//	deleted   byte 2, text session
//	closed    byte 3
//
// Behind the last frame there may be zeros: space that was reserved, so that a
// sync has less to write. A frame that they or the file's end cut off was being
// written when the process died and was never reported as written. Anything else that cannot be read is
// damage.
//
// # The tree in bbolt
//
//	store
//	├── boot            text: boot id of the machine when the store was last opened
//	├── clean           1 byte: 1 if it was closed well since
//	├── epoch           text
//	├── file            text: names this very file, so that a copy put in its place is noticed
//	├── format          4 bytes, little-endian: 1
//	└── journal         8 bytes, little-endian: the lowest segment that is still needed
//	index
//	└── <session>       CRC32C and meta
//	events
//	└── <session>
//	    └── <last seq>  8 bytes, big-endian, of the record's last event: byte format 1, CRC32C, record
//
// # Epoch
//
// It names the unbroken life of what was published from here, and changes at an
// Open that finds one of: no clean close and another boot than the last one
// (what was written but not synced may be gone); damage in the journal; a
// database that is older than the journal or was put back from a copy.
//
// # Concurrency
//
// Everything is safe for concurrent use. The writer calls the Sinks, and the
// goroutine that syncs for it says Durable; one call at a time to each. After a
// Log's Close its Sink is not called any more. No bbolt transaction is held when a method returns, and no lock
// across a write or a sync but Store.moving, which only movers take. Locks are
// taken in this order: Store.moving, Store.registry, log.calls, log.mu,
// Store.mu or index.mu.
package store
