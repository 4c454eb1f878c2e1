package store

import (
	bolt "go.etcd.io/bbolt"
)

// setFormat writes the number of a format into a database.
func setFormat(t *tree, format byte) error {
	return t.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketStore).Put(keyFormat, []byte{format, 0, 0, 0})
	})
}
