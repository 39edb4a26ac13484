// Package score is what the Go peers share: the scored reply, its record, and the INSERT of one.
package score

import (
	"context"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Record is what is kept of a request.
type Record struct {
	At     time.Time
	Client netip.Addr
	Path   string
	Status int64
	TookUs int64
	Score  float64
}

// Serve answers until SIGTERM: keep gets the record of a reply before it leaves; if it fails the reply is 503.
func Serve(address string, keep func(context.Context, *Record) error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /fixed", func(reply http.ResponseWriter, _ *http.Request) {
		reply.Write([]byte("hello, world\n"))
	})
	mux.HandleFunc("GET /recorded", func(reply http.ResponseWriter, request *http.Request) {
		at := time.Now()
		x, _ := strconv.ParseFloat(request.URL.Query().Get("x"), 64)
		score := x*2 + 1
		body := append(strconv.AppendFloat([]byte(`{"score":`), score, 'f', -1, 64), '}')
		peer, _ := netip.ParseAddrPort(request.RemoteAddr)
		record := Record{at, peer.Addr(), request.URL.Path, http.StatusOK, time.Since(at).Microseconds(), score}
		if err := keep(request.Context(), &record); err != nil {
			log.Print(err)
			http.Error(reply, "not recorded", http.StatusServiceUnavailable)
			return
		}
		reply.Header().Set("Content-Type", "application/json")
		reply.Write(body)
	})
	server := &http.Server{Addr: address, Handler: mux}
	go func() {
		<-Ended()
		server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}

// Ended tells when the program is to end.
func Ended() <-chan os.Signal {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	return ended
}

// Rows is a pool of connections to a database. It prepares a statement once for each of them.
type Rows struct{ pool *pgxpool.Pool }

// Open dials lazily.
func Open(database string) Rows {
	pool, err := pgxpool.New(context.Background(), database)
	if err != nil {
		log.Fatal(err)
	}
	return Rows{pool}
}

// Insert returns when the row is committed.
func (rows Rows) Insert(ctx context.Context, record *Record) error {
	_, err := rows.pool.Exec(ctx, "INSERT INTO scores VALUES ($1, $2, $3, $4, $5, $6)",
		record.At, record.Client, record.Path, record.Status, record.TookUs, record.Score)
	return err
}
