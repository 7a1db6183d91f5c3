// Command standin runs a stand-in for the telephony provider.
//
// Every called person answers, presses 1 and talks until the other side hangs up, unless PUT /control/script says
// otherwise. GET /control/calls lists the calls.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/domain/telephony/twilio/twiliotest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "address to listen on")
	account := flag.String("account", "AC00000000000000000000000000000000", "account")
	token := flag.String("token", "standin", "auth token of the account")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := twiliotest.New(*account, *token, clock.System{})
	s.Play(twiliotest.Script{Others: twiliotest.Phone{AnswerAfter: 1, Press: "1", PressAfter: 1}})
	go s.Run(ctx)
	server := &http.Server{Addr: *addr, Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
