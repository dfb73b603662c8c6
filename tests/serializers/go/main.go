// Writes messages with Confluent's serializers for Go, and what each one is. Its argument is the URL of a registry.
// See tests/serializers/__main__.py.
package main

import (
	"context"
	"encoding/json"
	"math/big"
	"os"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/jsonschema"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/protobuf"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

type serializer interface {
	Serialize(topic string, message interface{}) ([]byte, error)
}

// write prints a line with the bytes and the JSON that a decoder should show.
func write(topic string, with serializer, message interface{}, expected string) {
	line := map[string]interface{}{
		"topic":    topic,
		"value":    must(with.Serialize(topic, message)),
		"expected": json.RawMessage(expected),
	}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}

const common = `syntax = "proto3"; package shop.common;
enum Currency { CURRENCY_UNKNOWN = 0; EUR = 978; }
message Money { int64 cents = 1; Currency currency = 2; }`

const order = `syntax = "proto3"; package shop;
import "common.proto"; import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku = 1; sint32 count = 2; message Tag { string name = 1; } repeated Tag tags = 3; }
  string id = 1; repeated Line lines = 2; map<string, common.Money> prices = 3; map<int32, string> notes = 4;
  oneof paid { string card = 5; common.Money cash = 6; }
  google.protobuf.Timestamp at = 7; optional uint32 rating = 8; bytes raw = 9; repeated double weights = 10;
}
message Unused { bool never = 1; }
message Shipped { Order.Line line = 1; fixed64 number = 2; }`

func protobufMessages(client schemaregistry.Client) {
	with := must(protobuf.NewSerializer(client, serde.ValueSerde, protobuf.NewSerializerConfig()))
	sources := &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"common.proto": common, "order.proto": order}),
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(sources)}
	file := must(compiler.Compile(context.Background(), "order.proto"))[0]
	message := func(name protoreflect.FullName, text string) *dynamicpb.Message {
		made := dynamicpb.NewMessage(file.FindDescriptorByName(name).(protoreflect.MessageDescriptor))
		if err := protojson.Unmarshal([]byte(text), made); err != nil {
			panic(err)
		}
		return made
	}
	line := `{"sku": "a", "count": -2, "tags": [{"name": "x"}, {"name": ""}]}`
	write("proto-order", with, message("shop.Order", `{"id": "7", "lines": [`+line+`], "prices": {"net": {"cents": "-5",
		"currency": "EUR"}}, "notes": {"-1": "ä"}, "cash": {"cents": "9007199254740993"}, "at": "2026-11-23T10:00:00Z",
		"rating": 0, "raw": "/wA=", "weights": [0.5, -1]}`),
		`{"id": "7", "lines": [`+line+`], "prices": {"net": {"cents": -5, "currency": "EUR"}}, "notes": {"-1": "ä"},
		"cash": {"cents": 9007199254740993, "currency": "CURRENCY_UNKNOWN"}, "at": "2026-11-23T10:00:00Z",
		"rating": 0, "raw": "/wA=", "weights": [0.5, -1.0]}`)
	write("proto-order", with, message("shop.Order", `{"card": "4711"}`),
		`{"id": "", "lines": [], "prices": {}, "notes": {}, "card": "4711", "raw": "", "weights": []}`)
	write("proto-line", with, message("shop.Order.Line", line), line)
	write("proto-tag", with, message("shop.Order.Line.Tag", `{"name": "deep"}`), `{"name": "deep"}`)
	write("proto-shipped", with, message("shop.Shipped", `{"line": `+line+`, "number": "18446744073709551615"}`),
		`{"line": `+line+`, "number": 18446744073709551615}`)
}

type money struct {
	Amount *big.Rat `avro:"amount"`
}

type avroOrder struct {
	ID    int64               `avro:"id"`
	Price money               `avro:"price"`
	Note  *string             `avro:"note"`
	Kind  string              `avro:"kind"`
	Tags  map[string][]string `avro:"tags"`
	At    time.Time           `avro:"at"`
	Raw   [3]byte             `avro:"raw"`
	Ratio float64             `avro:"ratio"`
}

func avroMessages(client schemaregistry.Client) {
	moneySchema := `{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "amount",
		"type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}`
	must(client.Register("money", schemaregistry.SchemaInfo{Schema: moneySchema, SchemaType: "AVRO"}, false))
	schema := `{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"},
		{"name": "price", "type": "shop.Money"}, {"name": "note", "type": ["null", "string"]},
		{"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
		{"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
		{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
		{"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}}, {"name": "ratio", "type": "double"}]}`
	must(client.Register("avro-order-value", schemaregistry.SchemaInfo{Schema: schema, SchemaType: "AVRO",
		References: []schemaregistry.Reference{{Name: "shop.Money", Subject: "money", Version: 1}}}, false))
	config := avrov2.NewSerializerConfig()
	config.AutoRegisterSchemas, config.UseLatestVersion = false, true
	with := must(avrov2.NewSerializer(client, serde.ValueSerde, config))
	note := "für Zoë"
	made := avroOrder{1 << 40, money{big.NewRat(-1250, 100)}, &note, "B", map[string][]string{"x": {"a", ""}},
		time.UnixMilli(1795444801206), [3]byte{0, 1, 255}, -0.5}
	write("avro-order", with, &made, `{"id": 1099511627776, "price": {"amount": "-12.50"}, "note": "für Zoë", "kind": "B",
		"tags": {"x": ["a", ""]}, "at": "2026-11-23T14:40:01.206Z", "raw": "AAH/", "ratio": -0.5}`)
	made.Note, made.Tags = nil, map[string][]string{}
	write("avro-order", with, &made, `{"id": 1099511627776, "price": {"amount": "-12.50"}, "note": null, "kind": "B",
		"tags": {}, "at": "2026-11-23T14:40:01.206Z", "raw": "AAH/", "ratio": -0.5}`)
}

type person struct {
	Name string   `json:"name"`
	Age  *float64 `json:"age"`
	Tags []string `json:"tags"`
}

func jsonMessages(client schemaregistry.Client) {
	with := must(jsonschema.NewSerializer(client, serde.ValueSerde, jsonschema.NewSerializerConfig()))
	age := 41.5
	write("json-person", with, &person{"Zoë", &age, []string{"a"}}, `{"name": "Zoë", "age": 41.5, "tags": ["a"]}`)
}

func main() {
	client := must(schemaregistry.NewClient(schemaregistry.NewConfig(os.Args[1])))
	protobufMessages(client)
	avroMessages(client)
	jsonMessages(client)
}
