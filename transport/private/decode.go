package private

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads the JSON of a file that has a "version": this one, and at most
// max bytes. Anything into does not know is an error: what is understood in part
// could let in or allow too much.
func Decode(text []byte, max, version int, into any) error {
	if len(text) > max {
		return fmt.Errorf("longer than %d bytes", max)
	}
	var is struct{ Version int }
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	if is.Version != version {
		return fmt.Errorf("version %d, and this hermesd knows only version %d", is.Version, version)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind its end")
	}
	return nil
}
