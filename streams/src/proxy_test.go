package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// roundRobin sends one request after the other to the next of several servers, as a proxy without sticky sessions does.
func roundRobin(targets []string) http.Handler {
	var n uint32
	return &httputil.ReverseProxy{
		FlushInterval: -1,
		Director: func(r *http.Request) {
			target, _ := url.Parse(targets[int(atomic.AddUint32(&n, 1))%len(targets)])
			r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
		},
	}
}

// TestProxy is a program for streams/test/run.sh, not a test: a proxy that runs until it is killed.
func TestProxy(t *testing.T) {
	listen := os.Getenv("STREAMS_TEST_PROXY")
	if listen == "" {
		t.Skip("STREAMS_TEST_PROXY is not set")
	}
	t.Fatal(http.ListenAndServe(listen, roundRobin(strings.Fields(os.Getenv("STREAMS_TEST_TARGETS")))))
}
