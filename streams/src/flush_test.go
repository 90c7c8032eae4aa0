package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whether a server flushes an append before it answers, observed with strace, and statistics of compare_test.go.

// A flush is a call of fsync or fdatasync that succeeded.
type flush struct {
	begin, end float64 // seconds
	file       string
}

// flushed counts appends with a flush between the request and the answer.
type flushed struct {
	of, appends, flushes int
	files                string
}

// Two cells of a table.
func (f *flushed) String() string {
	if f == nil {
		return "not tested | "
	}
	answer := map[int]string{0: "no", f.of: "yes"}[f.appends]
	if answer == "" {
		answer = "not always"
	}
	return fmt.Sprintf("%s: %d of %d | %.1f: %s", answer, f.appends, f.of, float64(f.flushes)/float64(f.of), f.files)
}

var (
	completeCall = regexp.MustCompile(`^(?:\d+ +)?(\d+\.\d+) f(?:data)?sync\(\d+<(.*)>\) += 0 <(\d+\.\d+)>`)
	beginOfCall  = regexp.MustCompile(`^(?:(\d+) +)?\d+\.\d+ f(?:data)?sync\(\d+<(.*)> <unfinished`)
	endOfCall    = regexp.MustCompile(`^(?:(\d+) +)?(\d+\.\d+) <\.\.\. f(?:data)?sync resumed>\) += 0 <(\d+\.\d+)>`)
	// a segment of WAL, or a file that is named after a stream
	generatedName = regexp.MustCompile(`[\w~-]{20,}`)
)

// parseFlushes reads the output of strace -f -y -ttt -T.  A call during which another thread made a system call has two lines.
func parseFlushes(text string) (all []flush) {
	second := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	begun := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if m := completeCall.FindStringSubmatch(lines.Text()); m != nil {
			all = append(all, flush{second(m[1]), second(m[1]) + second(m[3]), m[2]})
		} else if m := beginOfCall.FindStringSubmatch(lines.Text()); m != nil {
			begun[m[1]] = m[2]
		} else if m := endOfCall.FindStringSubmatch(lines.Text()); m != nil {
			all = append(all, flush{second(m[2]) - second(m[3]), second(m[2]), begun[m[1]]})
		}
	}
	return all
}

// flushes sends n appends, one after the other, and returns how many of them were flushed before their answer; nil if strace cannot observe the server.
func (c *contender) flushes(t *testing.T, n int) *flushed {
	t.Helper()
	program, err := exec.LookPath("strace")
	if err != nil {
		t.Log("not tested whether appends are flushed: there is no strace")
		return nil
	}
	url := fmt.Sprintf("%sflushed-%d", c.base, n)
	newStream(t, url)
	append1 := func(k int) (begin, end float64) {
		b := time.Now()
		if status, err := post(url, lineOf(0, k), "", k); err != nil || status != 204 {
			t.Fatalf("%s: status %d, %v", c.name, status, err)
		}
		return float64(b.UnixNano()) / 1e9, float64(time.Now().UnixNano()) / 1e9
	}
	append1(0) // its connections are there
	file := filepath.Join(t.TempDir(), "strace")
	arguments := []string{"-f", "-y", "-ttt", "-T", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", file}
	for _, pid := range c.flushing(t) {
		arguments = append(arguments, "-p", strconv.Itoa(pid))
	}
	tracer := exec.Command(program, arguments...)
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- tracer.Wait() }()
	select {
	case <-ended:
		t.Log("not tested whether appends are flushed: strace cannot observe the server")
		return nil
	case <-time.After(time.Second):
	}
	type window struct{ begin, end float64 }
	windows := []window{}
	for k := 1; k <= n; k++ {
		begin, end := append1(k)
		windows = append(windows, window{begin, end})
		time.Sleep(5 * time.Millisecond) // a flush after the answer is not in the window of the next append
	}
	tracer.Process.Signal(syscall.SIGINT)
	<-ended
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := parseFlushes(string(text))
	result := &flushed{of: n}
	files := map[string]bool{}
	for _, w := range windows {
		before := result.flushes
		for _, f := range all {
			if f.begin >= w.begin && f.end <= w.end {
				result.flushes++
				name := filepath.Base(f.file)
				if generatedName.MatchString(name) {
					name = filepath.Base(filepath.Dir(f.file)) + "/"
				}
				files[name] = true
			}
		}
		if result.flushes > before {
			result.appends++
		}
	}
	names := []string{}
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	result.files = strings.Join(names, ", ")
	return result
}

// percentile returns milliseconds.
func percentile(all []time.Duration, p int) float64 {
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return float64(all[(len(all)-1)*p/100].Microseconds()) / 1000
}

func median(all []float64) float64 {
	sorted := append([]float64{}, all...)
	sort.Float64s(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// interval returns a confidence interval of the median of at least 95 %, from the order of the values alone: of 9 values the second to
// the eighth; of fewer than 6 values it returns their range, which covers less.
func interval(all []float64) (low, high float64) {
	sorted := append([]float64{}, all...)
	sort.Float64s(sorted)
	n, k := len(sorted), 0
	// the median is below the k-th smallest if fewer than k of n values are below it
	below, term := 0.0, math.Pow(0.5, float64(n))
	for {
		if below += term; below > 0.025 {
			break
		}
		term *= float64(n-k) / float64(k+1)
		k++
	}
	if k == 0 {
		k = 1
	}
	return sorted[k-1], sorted[n-k]
}

func TestUnitFlushes(t *testing.T) {
	all := parseFlushes("12 100.5 fdatasync(5</a/pg_wal/0001>) = 0 <0.25>\n" +
		"13 101.0 fsync(6</a/data.seg> <unfinished ...>\n" +
		"14 101.25 fsync(7</a/other>) = -1 EIO (Input/output error) <0.1>\n" +
		"13 102.0 <... fsync resumed>) = 0 <1.0>\n" +
		"15 103.5 fdatasync(8</a/b>)       = 0 <0.5>\n")
	want := []flush{{100.5, 100.75, "/a/pg_wal/0001"}, {101, 102, "/a/data.seg"}, {103.5, 104, "/a/b"}}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Fatalf("%v, expected %v", all, want)
	}
}

func TestUnitInterval(t *testing.T) {
	nine := []float64{9, 1, 8, 2, 7, 3, 6, 4, 5}
	if low, high := interval(nine); low != 2 || high != 8 || median(nine) != 5 {
		t.Errorf("%v to %v of nine values, median %v", low, high, median(nine))
	}
	if low, high := interval(nine[:6]); low != 1 || high != 9 {
		t.Errorf("%v to %v of six values", low, high)
	}
	if low, high := interval([]float64{3, 2}); low != 2 || high != 3 || median([]float64{3, 2}) != 2.5 {
		t.Errorf("%v to %v of two values", low, high)
	}
	if low, high := interval([]float64{3}); low != 3 || high != 3 {
		t.Errorf("%v to %v of one value", low, high)
	}
	// of 20 values, the sixth to the fifteenth: 95.9 %
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(i + 1)
	}
	if low, high := interval(twenty); low != 6 || high != 15 {
		t.Errorf("%v to %v of twenty values", low, high)
	}
}
