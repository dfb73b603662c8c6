import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Plays variants of habits with Kafka's Java client: Habits HOST:PORT AT_ONCE CLIENT_ID... A client id is HABIT-bad-java or
 * HABIT-fixed-java, and also the name of its group.
 */
class Habits {
    static final int RECORDS = 250;
    static final Duration SHORT = Duration.ofMillis(50);
    static final TopicPartition FILLED = new TopicPartition("filled", 0);
    static String bootstrap;

    record Variant(String id, boolean bad) {
        Map<String, Object> with(Map<String, ?> more) {
            Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", id));
            all.putAll(more);
            return all;
        }

        KafkaProducer<String, byte[]> producer(Map<String, ?> more) {
            return new KafkaProducer<>(with(more), new StringSerializer(), new ByteArraySerializer());
        }

        KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> more) {
            Map<String, Object> all = with(Map.of("group.id", id, "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "allow.auto.create.topics", false));
            all.putAll(more);
            return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[1]));
        List<Future<?>> playing = new ArrayList<>();
        for (int index = 2; index < args.length; index++) {
            String id = args[index];
            playing.add(pool.submit(() -> {
                play(id);
                return null;
            }));
        }
        for (Future<?> each : playing) each.get();
        pool.shutdown();
    }

    static final Map<String, Object> PLAIN = Map.of("enable.idempotence", false), LINGER = Map.of("linger.ms", 50),
        HASTY = Map.of("linger.ms", 0, "batch.size", 1, "enable.idempotence", false, "max.in.flight.requests.per.connection", 50);

    static void play(String id) throws Exception {
        boolean bad = id.endsWith("-bad-java");
        Variant it = new Variant(id, bad);
        switch (id.replaceAll("-(bad|fixed)-java$", "")) {
            case "client-per-message" -> {
                for (int number = 0; number < (bad ? 25 : 1); number++) produce(it, Map.of(), "orders", bad ? 1 : 25, 1, false);
            }
            case "producer-per-task" -> open(it, bad ? 24 : 1, Map.of());
            case "flush-each" -> produce(it, bad ? Map.of() : LINGER, "orders", RECORDS, 1, bad);
            case "no-linger" -> produce(it, bad ? HASTY : LINGER, "orders", 600, 500, false);
            case "no-compression" -> produce(it, Map.of("linger.ms", 50, "batch.size", 200000, "compression.type", bad ? "none" : "lz4"), "orders", RECORDS, 8000, false);
            case "acks-0" -> produce(it, bad ? Map.of("acks", "0", "enable.idempotence", false, "batch.size", 1) : LINGER, "orders", 400, 500, false);
            case "acks-1-beside-all" -> produce(it, bad ? Map.of("acks", "1", "enable.idempotence", false) : Map.of(), "orders", 60, 1, true);
            case "no-idempotence" -> produce(it, bad ? PLAIN : Map.of(), "orders", 60, 1, true);
            case "in-flight" -> produce(it, bad ? HASTY : Map.of("linger.ms", 0, "batch.size", 1), "orders", 90, 500, false);
            case "retry-reorders" -> produce(it, bad ? HASTY : LINGER, "orders", 90, 500, false);
            case "key-skew" -> {
                IntFunction<String> key = number -> bad && number % 20 > 0 ? "unknown" : "" + number;
                try (var producer = it.producer(LINGER)) {
                    for (int number = 0; number < 2000; number++) producer.send(new ProducerRecord<>("spread", key.apply(number), new byte[1]));
                }
            }
            case "near-limit" -> {
                create(it, "limited-" + id, "max.message.bytes", "20000");
                produce(it, Map.of(), "limited-" + id, 4, bad ? 18000 : 9000, true);
            }
            case "keyless" -> compacted(it, bad ? null : "k", new byte[1]);
            case "empty-value" -> compacted(it, "k", bad ? new byte[0] : null);
            case "aborts" -> transactions(it, 6, bad, 0);
            case "long-transaction" -> transactions(it, 1, false, bad ? 1800 : 500);
            case "auto-create" -> produce(it, Map.of(), bad ? "made-by-java" : "orders", 1, 1, false);
            case "commit-each" -> consume(it, Map.of(), bad ? "record" : "poll", 0);
            case "commit-nothing" -> consume(it, Map.of(), bad ? "always" : "poll", 0);
            case "rare-commits" -> follow(it, "flow", bad ? 9000 : 4000, Map.of("session.timeout.ms", bad ? 1500 : 3000, "heartbeat.interval.ms", bad ? 400 : 800),
                bad ? 2000 : 500, 0);
            case "busy-poll" -> consume(it, bad ? Map.of("fetch.max.wait.ms", 1) : Map.of(), "poll", bad ? 8000 : 2000);
            case "min-bytes" -> follow(it, "flow", 4000, bad ? Map.of("fetch.min.bytes", 100000, "fetch.max.wait.ms", 100) : Map.of(), 0, 0);
            case "small-fetches" -> follow(it, "backlog", bad ? 3000 : 1000, bad ? Map.of("max.partition.fetch.bytes", 1000) : Map.of(), 0, 0);
            case "huge-fetches" -> follow(it, "filled", 0, bad ? Map.of("max.partition.fetch.bytes", Integer.MAX_VALUE, "fetch.max.bytes", Integer.MAX_VALUE) : Map.of(), 0, 0);
            case "poll-gap" -> follow(it, "flow", bad ? 13000 : 6000, Map.of("max.poll.interval.ms", 3000, "auto.offset.reset", "latest"), 0, bad ? 2600 : 500);
            case "few-heartbeats" -> follow(it, "flow", bad ? 8000 : 4000, Map.of("session.timeout.ms", 3000, "heartbeat.interval.ms", bad ? 1300 : 500), 0, 0);
            case "not-static" -> restarts(it, bad ? 4 : 1);
            case "consumer-per-message" -> restarts(it, bad ? 7 : 1);
            case "eager" -> joining(it, Map.of("partition.assignment.strategy", List.of(bad ? RangeAssignor.class : CooperativeStickyAssignor.class)));
            case "subscriptions" -> pair(it, "filled", bad ? "other" : "filled", RANGE, RANGE);
            case "assignors" -> pair(it, "filled", "filled", RANGE, bad ? List.of(RoundRobinAssignor.class, RangeAssignor.class) : RANGE);
            case "manual-commits" -> beside(it);
            case "commit-back" -> {
                try (var consumer = it.consumer(Map.of())) {
                    consumer.subscribe(List.of("filled"));
                    waitForRecord(consumer);
                    for (long offset : new long[] {bad ? 30 : 10, 20}) consumer.commitSync(Map.of(FILLED, new OffsetAndMetadata(offset)));
                }
            }
            case "reset-to-the-end" -> {
                try (var consumer = it.consumer(Map.of("auto.offset.reset", "latest"))) {
                    consumer.assign(List.of(FILLED));
                    consumer.seek(FILLED, bad ? 100000 : 0);
                    for (int count = 0; count < 20; count++) consumer.poll(SHORT);
                }
            }
            case "missing-topic" -> {
                try (var consumer = it.consumer(Map.of())) {
                    consumer.subscribe(List.of(bad ? "nowhere" : "filled"));
                    for (long end = System.currentTimeMillis() + (bad ? 9000 : 1000); System.currentTimeMillis() < end; ) consumer.poll(SHORT);
                }
            }
            case "default-id" -> {
                Map<String, Object> config = it.with(Map.of());
                if (bad) config.remove("client.id");
                try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                    producer.send(new ProducerRecord<>("orders", "v")).get();
                }
            }
            case "many-connections" -> open(it, bad ? 25 : 1, PLAIN);
            case "cadence" -> {
                for (int number = 0; number < (bad ? 7 : 1); number++) {
                    try (var producer = it.producer(Map.of())) {
                        for (int record = 0; record < (bad ? 4 : 16); record++) {
                            producer.send(new ProducerRecord<>("orders", new byte[1])).get();
                            Thread.sleep(300);
                        }
                    }
                }
            }
            case "metadata-storm" -> {
                try (var consumer = it.consumer(Map.of())) {
                    for (int number = 0; number < (bad ? 80 : 1); number++) consumer.listTopics();
                }
            }
            case "metadata-only" -> {
                for (int number = 0; number < (bad ? 12 : 1); number++) {
                    try (var consumer = it.consumer(Map.of())) {
                        consumer.listTopics();
                    }
                }
            }
            case "same-question" -> {
                try (var consumer = it.consumer(Map.of())) {
                    for (int number = 0; number < (bad ? 40 : 2); number++) consumer.endOffsets(List.of(FILLED));
                }
            }
            case "throttled" -> produce(it, Map.of(), "orders", 5, 1, true);
            case "no-backoff" -> {
                Map<String, Object> hasty = Map.of("retry.backoff.ms", 1, "retry.backoff.max.ms", 1, "retries", 40, "enable.idempotence", false);
                produce(it, bad ? hasty : Map.of(), "orders", 1, 1, false);
            }
            default -> throw new IllegalArgumentException(id);
        }
    }

    static final List<Class<?>> RANGE = List.of(RangeAssignor.class);

    static void produce(Variant it, Map<String, ?> config, String topic, int records, int size, boolean flushEach) throws Exception {
        try (var producer = it.producer(config)) {
            for (int number = 0; number < records; number++) {
                Future<?> sent = producer.send(new ProducerRecord<>(topic, Arrays.copyOf((number + " ").getBytes(), Math.max(size, 8))));
                if (flushEach) sent.get();
            }
        }
    }

    static void open(Variant it, int count, Map<String, ?> config) throws Exception {
        List<KafkaProducer<String, byte[]>> producers = new ArrayList<>();
        for (int number = 0; number < count; number++) producers.add(it.producer(config));
        for (var each : producers) each.send(new ProducerRecord<>("orders", new byte[1])).get();
        for (var each : producers) each.close();
    }

    static void create(Variant it, String topic, String config, String value) throws Exception {
        try (Admin admin = Admin.create(it.with(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of(config, value)))).all().get();
        }
    }

    static void compacted(Variant it, String key, byte[] value) throws Exception {
        create(it, "compacted-" + it.id, "cleanup.policy", "compact");
        try (var producer = it.producer(Map.of())) {
            for (int number = 0; number < 5; number++) {
                try {
                    producer.send(new ProducerRecord<>("compacted-" + it.id, key, value)).get();
                } catch (ExecutionException refused) {
                    // that is the subject
                }
            }
        }
    }

    static void transactions(Variant it, int count, boolean abort, int pause) throws Exception {
        try (var producer = it.producer(Map.of("transactional.id", it.id, "transaction.timeout.ms", 2000))) {
            producer.initTransactions();
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("orders", new byte[1])).get();
                Thread.sleep(pause);
                if (abort) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    static int poll(Consumer<?, ?> consumer) {
        return consumer.poll(SHORT).count();
    }

    static void waitForRecord(Consumer<?, ?> consumer) {
        for (int count = 0; count < 600; count++) if (poll(consumer) > 0) return;
        throw new IllegalStateException("no record");
    }

    static void consume(Variant it, Map<String, ?> config, String commit, int pause) {
        try (var consumer = it.consumer(config)) {
            consumer.subscribe(List.of("filled"));
            for (int read = 0; read < RECORDS; ) {
                var records = consumer.poll(SHORT);
                read += records.count();
                if (commit.equals("record")) {
                    for (var each : records) consumer.commitSync(Map.of(FILLED, new OffsetAndMetadata(each.offset() + 1)));
                } else if (!records.isEmpty()) consumer.commitSync();
            }
            for (int number = 0; commit.equals("always") && number < 150; number++) consumer.commitSync();
            for (long end = System.currentTimeMillis() + pause; System.currentTimeMillis() < end; ) poll(consumer);
        }
    }

    static void follow(Variant it, String topic, int time, Map<String, ?> config, int commitEvery, int work) throws Exception {
        try (var consumer = it.consumer(config)) {
            consumer.subscribe(List.of(topic));
            waitForRecord(consumer);
            long begun = System.currentTimeMillis(), committed = begun;
            for (long now = begun; now < begun + time; now = System.currentTimeMillis()) {
                poll(consumer);
                Thread.sleep(work);
                if (commitEvery > 0 && now > committed + commitEvery) {
                    consumer.commitSync();
                    committed = now;
                }
            }
        }
    }

    static void restarts(Variant it, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            try (var consumer = it.consumer(Map.of())) {
                consumer.subscribe(List.of("filled"));
                waitForRecord(consumer);
            }
            Thread.sleep(100 * (1 + number % 3));
        }
    }

    static void joining(Variant it, Map<String, ?> config) throws Exception {
        Map<String, Object> first = new HashMap<>(config);
        first.put("client.id", it.id + "-first");
        try (var staying = it.consumer(first)) {
            staying.subscribe(List.of("spread"));
            while (staying.assignment().isEmpty()) poll(staying);
            for (int number = 0; number < 3; number++) {
                Map<String, Object> other = new HashMap<>(config);
                other.put("client.id", it.id + "-" + number);
                try (var coming = it.consumer(other)) {
                    coming.subscribe(List.of("spread"));
                    while (coming.assignment().isEmpty()) {
                        poll(coming);
                        poll(staying);
                    }
                }
                for (int count = 0; count < 10; count++) poll(staying);
            }
        }
    }

    static void pair(Variant it, String one, String other, List<Class<?>> its, List<Class<?>> others) {
        try (var first = it.consumer(Map.of("partition.assignment.strategy", its));
             var second = it.consumer(Map.of("partition.assignment.strategy", others))) {
            first.subscribe(List.of(one));
            second.subscribe(List.of(other));
            for (long end = System.currentTimeMillis() + 6000; System.currentTimeMillis() < end; ) {
                poll(first);
                poll(second);
            }
        }
    }

    static void beside(Variant it) {
        try (var member = it.consumer(Map.of("client.id", it.id + "-member"));
             var other = it.consumer(Map.of("group.id", it.bad ? it.id : it.id + "-own"))) {
            member.subscribe(List.of("filled"));
            waitForRecord(member);
            other.assign(List.of(FILLED));
            for (int number = 0; number < 8; number++) {
                poll(other);
                try {
                    other.commitSync(Map.of(FILLED, new OffsetAndMetadata(number)));
                } catch (KafkaException refused) {
                    // the coordinator refuses it
                }
            }
        }
    }
}
