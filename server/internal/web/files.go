package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

// contentPolicy lets the page load and call nothing but what is here, and run no script that is not a file.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one of the console, as it goes out.
type file struct {
	kind        string
	tag         string
	plain, gzip []byte
}

// files are those of the console.
type files struct{ byPath map[string]*file }

func newFiles(from fs.FS) (*files, error) {
	f := &files{byPath: map[string]*file{}}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		e := &file{kind: mime.TypeByExtension(path.Ext(name)), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: data}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(data)
		z.Close()
		if b.Len() < len(data) {
			e.gzip = b.Bytes()
		}
		f.byPath["/"+name] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("web: the console's files: %w", err)
	}
	index := f.byPath["/index.html"]
	if index == nil {
		return nil, fmt.Errorf("web: the console's files: there is no index.html")
	}
	f.byPath["/"] = index
	for _, p := range Pages {
		f.byPath["/"+p] = index
	}
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := f.byPath[r.URL.Path]
	if e == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Content-Type", e.kind)
	h.Set("Cache-Control", "no-cache") // asked for each time, and sent where it has changed
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", e.tag)
	if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), e.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := e.plain
	if e.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = e.gzip
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.Write(body)
}
