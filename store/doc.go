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
//	sessions.db.corrupt-*   a damaged database, put aside when what can be read of it was saved
//	sessions.db.format-*    a copy made before the database was brought to a newer format
//	sessions.db.new*        while another file takes the place of the database
//	journal/                files called segments, numbered in hexadecimal
//	journal/*.journal
//	journal/*.damaged       segments put aside because something in them could not be read
//	journal/*.unused        segments put aside because a backup was put in the database's place
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
//	├── file            text: names this very file, so that a copy put in its place is noticed; "backup" in a backup
//	├── format          4 bytes, little-endian: 2
//	└── journal         8 bytes, little-endian: the lowest segment that is still needed
//	index
//	└── <session>       sum and meta
//	events
//	└── <session>
//	    └── <last seq>  8 bytes, big-endian, of the record's last event: byte format 2, sum, record
//
// # Sums and formats
//
// A sum is the CRC32C of what follows, exclusive-or a number of what it belongs to:
// the CRC32C of session, a zero byte, and 8 bytes, big-endian, of the last Seq, 0
// for a meta, through the last step of MurmurHash3. So everything tells whose it is.
//
// A newer version brings the tree from one format to the next, each step in one
// transaction with the format's number, after a copy of the file was made beside
// it. What is of a format that is not known is refused and left untouched.
//
// # Damage
//
// A database that cannot be read never stops a daemon, nor takes more with it
// than what cannot be read. Before bbolt is let into a file, its pages are looked
// at: whether they are a tree, and no page is used twice. After a machine went
// down while the store was open, all of it is read. What is found damaged then, or
// by who reads or writes later, is answered by one thing: everything that can be
// read is put into a new file, the damaged one is kept as sessions.db.corrupt-*,
// and the epoch changes. It is looked for in the newest tree, in the one before it,
// whose pages bbolt has not written over yet, and in all leaves, since what is in
// them tells whose it is.
//
// Events that are missing in the middle of a session, or in front of what the
// journal still has, are replaced by a message that says so and empty ones behind
// it, so that what follows keeps its numbers. A session whose end is missing ends
// earlier. One of which only the name is left has a title that says so.
//
// # Copies
//
// A backup and a file without free pages are made session by session while
// everything goes on; what was moved meanwhile follows at the end. A backup says
// that it is one: a store that is opened with it has a new epoch, and leaves aside
// what a journal beside it holds.
//
// # Epoch
//
// It names the unbroken life of what was published from here, and changes at an
// Open that finds one of: no clean close and another boot than the last one
// (what was written but not synced may be gone); damage in the journal or the
// database; a database that is older than the journal or was put back from a copy
// or a backup. It also changes when damage is found later.
//
// # Concurrency
//
// Everything is safe for concurrent use. The writer calls the Sinks, and the
// goroutine that syncs for it says Durable; one call at a time to each. After a
// Log's Close its Sink is not called any more. No bbolt transaction is held when a method returns, and no lock
// across a write or a sync but Store.copying and Store.moving, which only who copies
// or moves takes, and tree.mu for the moment in which one file takes another one's
// place. Locks are taken in this order: Store.copying, Store.moving, Store.registry, log.calls, log.mu,
// Store.mu or index.mu, tree.mu.
package store
