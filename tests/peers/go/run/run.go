// Package run: what the Go clients have in common. Each is a program: NAME HOST:PORT TOPIC; its last line is its report.
package run

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Partitions of the topic; Messages of one batch.
const (
	Partitions = 4
	Messages   = 20
)

// Report says what came back. Members is how many shared the partitions at once.
type Report struct {
	Produced int `json:"produced"`
	Consumed int `json:"consumed"`
	Members  int `json:"members"`
	Configs  int `json:"configs"`
}

// Print writes the report.
func (r Report) Print() {
	Must("report", json.NewEncoder(os.Stdout).Encode(r))
}

// Arguments are the address and the name of a new topic.
func Arguments() (bootstrap, topic string) {
	return os.Args[1], os.Args[2]
}

// Must ends the program where an error is.
func Must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

// Key and Value of the message with a number: they compress, and some are null.
func Key(i int) []byte {
	if i%3 == 0 {
		return nil
	}
	return []byte(fmt.Sprintf("key-%d", i))
}

// Value see Key.
func Value(i int) []byte {
	if i%5 == 0 {
		return nil
	}
	return []byte(fmt.Sprintf("value %d aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", i))
}

// Group counts the records that its members consumed, and the partitions that each of them owns.
type Group struct {
	lock     sync.Mutex
	consumed map[[2]int64]bool
	owned    map[string]int
}

// NewGroup has no member.
func NewGroup() *Group {
	return &Group{consumed: map[[2]int64]bool{}, owned: map[string]int{}}
}

// Consumed notes a record; one that comes twice, as it may over a rebalance, is counted once.
func (g *Group) Consumed(partition int32, offset int64) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.consumed[[2]int64{int64(partition), offset}] = true
}

// Owns changes a member's partitions: by `more`, from `base`; a negative base is what it owned.
func (g *Group) Owns(member string, base, more int) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if base < 0 {
		base = g.owned[member]
	}
	g.owned[member] = base + more
}

// Total is how many records all members consumed.
func (g *Group) Total() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return len(g.consumed)
}

// Members counts those that own partitions, if together they own all.
func (g *Group) Members() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	members, sum := 0, 0
	for _, owned := range g.owned {
		sum += owned
		if owned > 0 {
			members++
		}
	}
	if sum != Partitions {
		return 0
	}
	return members
}

// Wait ends the program if the condition does not come true within 90 s.
func Wait(what string, condition func() bool) {
	for end := time.Now().Add(90 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			Must("not within 90 s", fmt.Errorf("%s", what))
		}
	}
}
