// Sends requests by net/http: both versions of TLS, with and without a certificate, and a resumed session.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
)

var folder = os.Getenv("TOLLGATE_FOLDER")

// Sends a request on a new connection, and returns whether it resumed a session.
func ask(client *http.Client, path string) (bool, error) {
	reply, err := client.Get(os.Getenv("TOLLGATE_URL") + path)
	if err != nil {
		return false, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return false, err
	}
	if reply.StatusCode != http.StatusOK || string(text) != "hello" || reply.Proto != "HTTP/1.1" {
		return false, fmt.Errorf("%s %s: %s", reply.Proto, reply.Status, text)
	}
	if reply.TLS.NegotiatedProtocol != "http/1.1" {
		return false, fmt.Errorf("protocol %q", reply.TLS.NegotiatedProtocol)
	}
	return reply.TLS.DidResume, nil
}

func send(version uint16, name string) error {
	authority, err := os.ReadFile(filepath.Join(folder, "data/tls/local-ca.pem"))
	if err != nil {
		return err
	}
	config := &tls.Config{
		RootCAs:            x509.NewCertPool(),
		MinVersion:         version,
		MaxVersion:         version,
		ServerName:         "localhost",
		NextProtos:         []string{"h2", "http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	config.RootCAs.AppendCertsFromPEM(authority)
	if name == "certificate" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "client.pem"), filepath.Join(folder, "client.key"))
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for _, expected := range []bool{false, true} {
		resumed, err := ask(client, "/go/"+name)
		if err == nil && resumed != expected {
			err = fmt.Errorf("resumed: %t", resumed)
		}
		if err != nil {
			return fmt.Errorf("version %x, %s: %w", version, name, err)
		}
	}
	return nil
}

func main() {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, name := range []string{"certificate", "none"} {
			if err := send(version, name); err != nil {
				log.Fatal(err)
			}
		}
	}
}
