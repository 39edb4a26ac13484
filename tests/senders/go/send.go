// Sends events by net/http.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

type Event struct {
	Kind  string `json:"kind"`
	Value int    `json:"value"`
}

func post(contentType string, body io.Reader) error {
	reply, err := http.Post(os.Getenv("TOLLGATE_URL")+"/events", contentType, body)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", reply.Status, text)
	}
	return err
}

func sendJSON() error {
	body, err := json.Marshal(Event{Kind: "json", Value: 1})
	if err != nil {
		return err
	}
	return post("application/json", bytes.NewReader(body))
}

// The encoder ends each value with a line end. The pipe has no length, so the body is sent in chunks.
func sendLines() error {
	reader, writer := io.Pipe()
	go func() {
		encoder := json.NewEncoder(writer)
		for value := 2; value <= 3; value++ {
			if err := encoder.Encode(Event{Kind: "lines", Value: value}); err != nil {
				writer.CloseWithError(err)
				return
			}
		}
		writer.Close()
	}()
	return post("application/x-ndjson", reader)
}

func main() {
	for _, send := range []func() error{sendJSON, sendLines} {
		if err := send(); err != nil {
			log.Fatal(err)
		}
	}
}
