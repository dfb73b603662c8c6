// franz-go over TLS with any SASL mechanism: NAME LOGIN. LOGIN is JSON, see Login in tests/peers/clients/secure_clients.py.
// Produces to every partition of a topic, consumes it in a group, and prints the number of records consumed.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"peers/run"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// As in tests/peers/clients/secure_clients.py.
const (
	partitions = 3
	records    = 60
)

type login struct {
	Bootstrap, Topic, Mechanism, CA, User, Secret, Certificate, Key string
	NewestTLS                                                       string `json:"newest_tls"`
	Seconds                                                         float64
}

func main() {
	var as login
	run.Must("login", json.Unmarshal([]byte(os.Args[1]), &as))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(as.Seconds*float64(time.Second)))
	defer cancel()
	base := []kgo.Opt{kgo.SeedBrokers(as.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if as.CA != "" {
		base = append(base, kgo.DialTLSConfig(as.tls()))
	}
	if as.Mechanism != "" {
		base = append(base, kgo.SASL(as.sasl()))
	}
	producer, err := kgo.NewClient(base...)
	run.Must("client", err)
	var batch []*kgo.Record
	for i := 0; i < records; i++ {
		value := []byte(strconv.Itoa(i))
		batch = append(batch, &kgo.Record{Topic: as.Topic, Partition: int32(i % partitions), Value: value})
	}
	run.Must("produce", producer.ProduceSync(ctx, batch...).FirstErr())
	producer.Close()
	consumer, err := kgo.NewClient(append(base, kgo.ConsumerGroup("g-"+as.Topic), kgo.ConsumeTopics(as.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	run.Must("client", err)
	values := map[string]bool{}
	for len(values) < records {
		fetches := consumer.PollFetches(ctx)
		run.Must("consume", fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values[string(record.Value)] = true })
	}
	consumer.Close()
	fmt.Println(len(values))
}

func (as login) tls() *tls.Config {
	pem, err := os.ReadFile(as.CA)
	run.Must("ca", err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if as.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(as.Certificate, as.Key)
		run.Must("certificate", err)
		config.Certificates = []tls.Certificate{pair}
	}
	if as.NewestTLS == "TLSv1.1" {
		config.MinVersion, config.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	}
	return config
}

func (as login) sasl() sasl.Mechanism {
	switch as.Mechanism {
	case "PLAIN":
		return plain.Auth{User: as.User, Pass: as.Secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: as.User, Pass: as.Secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: as.User, Pass: as.Secret}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: as.Secret}.AsMechanism()
	}
	run.Must("mechanism", errors.New(as.Mechanism))
	return nil
}
