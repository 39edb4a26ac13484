// Package score has the parts that the Go peers share: the scored reply, its record, and the INSERT of a
// record.
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

// Record has the values that are recorded for a request.
type Record struct {
	At     time.Time
	Client netip.Addr
	Path   string
	Status int64
	TookUs int64
	Score  float64
}

// Serve answers requests until SIGTERM. keep gets the record of a reply before the reply leaves. If keep
// fails, the reply is 503.
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

// Ended returns a channel that gets the signal to end.
func Ended() <-chan os.Signal {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	return ended
}

// Rows is a pool of connections to a database. The statement is prepared once on each connection.
type Rows struct{ pool *pgxpool.Pool }

// Open makes the pool. Its connections are opened when they are needed.
func Open(database string) Rows {
	pool, err := pgxpool.New(context.Background(), database)
	if err != nil {
		log.Fatal(err)
	}
	return Rows{pool}
}

// Insert inserts a row, and returns when it is committed.
func (rows Rows) Insert(ctx context.Context, record *Record) error {
	_, err := rows.pool.Exec(ctx, "INSERT INTO scores VALUES ($1, $2, $3, $4, $5, $6)",
		record.At, record.Client, record.Path, record.Status, record.TookUs, record.Score)
	return err
}
