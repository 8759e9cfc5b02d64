package web

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// writeJSON encodes v before anything is sent, so that a failure can still become
// a 500. URLs keep their "&"; the media type and nosniff keep browsers from
// reading the answer as anything else.
func writeJSON(w http.ResponseWriter, media string, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, err := w.Write(buf.Bytes())
	return err
}

// writeHealth answers that the program does its work, be it by other means than intended.
func writeHealth(w http.ResponseWriter, degraded bool) error {
	status := "ok"
	if degraded {
		status = "degraded"
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, mediaJSON, http.StatusOK, map[string]string{"status": status})
}
