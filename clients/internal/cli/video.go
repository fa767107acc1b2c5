package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// CutAVI refuses an AVI file that is shorter than its chunks say: ffmpeg reads what there is, and says nothing where it
// was cut between frames. Files that were never finished say no length, and others have other chunks.
func CutAVI(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	const unknown = 1<<32 - 1
	for at := int64(0); ; {
		var head [12]byte
		_, err := f.ReadAt(head[:], at)
		if err != nil || string(head[:4]) != "RIFF" || !strings.HasPrefix(string(head[8:]), "AVI") {
			return nil
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		if at += 8 + n; n != unknown && at > st.Size() {
			return fmt.Errorf("%s: the file is cut: it has %d bytes, of %d that it says", name, st.Size(), at)
		}
		at += n & 1
	}
}
