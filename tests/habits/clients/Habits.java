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
 * Plays variants of habits with Kafka's Java client: Habits HOST:PORT AT_ONCE CLIENT_ID... A client id is HABIT-bad-java
 * or HABIT-fixed-java, and is also the name of the client's group.
 */
class Habits {
    static final int RECORDS = 250;
    static final Duration SHORT = Duration.ofMillis(50);
    static final TopicPartition FILLED = new TopicPartition("filled", 0);
    static String bootstrap;

    record Variant(String id, boolean bad) {
        Map<String, Object> with(Map<String, ?> overrides) {
            Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", id));
            all.putAll(overrides);
            return all;
        }

        KafkaProducer<String, byte[]> producer(Map<String, ?> overrides) {
            return new KafkaProducer<>(with(overrides), new StringSerializer(), new ByteArraySerializer());
        }

        KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> overrides) {
            Map<String, Object> all = with(Map.of("group.id", id, "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "allow.auto.create.topics", false));
            all.putAll(overrides);
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
        Variant variant = new Variant(id, bad);
        switch (id.replaceAll("-(bad|fixed)-java$", "")) {
            case "client-per-message" -> {
                for (int number = 0; number < (bad ? 25 : 1); number++) produce(variant, Map.of(), "orders", bad ? 1 : 25, 1, false);
            }
            case "producer-per-task" -> openProducers(variant, bad ? 24 : 1, Map.of());
            case "flush-each" -> produce(variant, bad ? Map.of() : LINGER, "orders", RECORDS, 1, bad);
            case "no-linger" -> produce(variant, bad ? HASTY : LINGER, "orders", 600, 500, false);
            case "no-compression" -> produce(variant, Map.of("linger.ms", 50, "batch.size", 200000, "compression.type", bad ? "none" : "lz4"), "orders", RECORDS, 8000, false);
            case "acks-0" -> produce(variant, bad ? Map.of("acks", "0", "enable.idempotence", false, "batch.size", 1) : LINGER, "orders", 400, 500, false);
            case "acks-1-beside-all" -> produce(variant, bad ? Map.of("acks", "1", "enable.idempotence", false) : Map.of(), "orders", 60, 1, true);
            case "no-idempotence" -> produce(variant, bad ? PLAIN : Map.of(), "orders", 60, 1, true);
            case "in-flight" -> produce(variant, bad ? HASTY : Map.of("linger.ms", 0, "batch.size", 1), "orders", 90, 500, false);
            case "retry-reorders" -> produce(variant, bad ? HASTY : LINGER, "orders", 90, 500, false);
            case "key-skew" -> {
                IntFunction<String> key = number -> bad && number % 20 > 0 ? "unknown" : "" + number;
                try (var producer = variant.producer(LINGER)) {
                    for (int number = 0; number < 2000; number++) producer.send(new ProducerRecord<>("spread", key.apply(number), new byte[1]));
                }
            }
            case "near-limit" -> {
                create(variant, "limited-" + id, "max.message.bytes", "20000");
                produce(variant, Map.of(), "limited-" + id, 4, bad ? 18000 : 9000, true);
            }
            case "keyless" -> produceCompacted(variant, bad ? null : "k", new byte[1]);
            case "empty-value" -> produceCompacted(variant, "k", bad ? new byte[0] : null);
            case "aborts" -> transactions(variant, 6, bad, 0);
            case "long-transaction" -> transactions(variant, 1, false, bad ? 1800 : 500);
            case "auto-create" -> produce(variant, Map.of(), bad ? "made-by-java" : "orders", 1, 1, false);
            case "commit-each" -> consume(variant, Map.of(), bad ? "record" : "poll", 0);
            case "commit-nothing" -> consume(variant, Map.of(), bad ? "always" : "poll", 0);
            case "rare-commits" -> follow(variant, "flow", bad ? 9000 : 4000, Map.of("session.timeout.ms", bad ? 1500 : 3000, "heartbeat.interval.ms", bad ? 400 : 800),
                bad ? 2000 : 500, 0);
            case "busy-poll" -> consume(variant, bad ? Map.of("fetch.max.wait.ms", 1) : Map.of(), "poll", bad ? 8000 : 2000);
            case "min-bytes" -> follow(variant, "flow", 4000, bad ? Map.of("fetch.min.bytes", 100000, "fetch.max.wait.ms", 100) : Map.of(), 0, 0);
            case "small-fetches" -> follow(variant, "backlog", bad ? 3000 : 1000, bad ? Map.of("max.partition.fetch.bytes", 1000) : Map.of(), 0, 0);
            case "huge-fetches" -> follow(variant, "filled", 0, bad ? Map.of("max.partition.fetch.bytes", Integer.MAX_VALUE, "fetch.max.bytes", Integer.MAX_VALUE) : Map.of(), 0, 0);
            case "poll-gap" -> follow(variant, "flow", bad ? 13000 : 6000, Map.of("max.poll.interval.ms", 3000, "auto.offset.reset", "latest"), 0, bad ? 2600 : 500);
            case "few-heartbeats" -> follow(variant, "flow", bad ? 8000 : 4000, Map.of("session.timeout.ms", 3000, "heartbeat.interval.ms", bad ? 1300 : 500), 0, 0);
            case "not-static" -> restartConsumer(variant, bad ? 4 : 1);
            case "consumer-per-message" -> restartConsumer(variant, bad ? 7 : 1);
            case "eager" -> rejoinGroup(variant, Map.of("partition.assignment.strategy", List.of(bad ? RangeAssignor.class : CooperativeStickyAssignor.class)));
            case "subscriptions" -> runPair(variant, "filled", bad ? "other" : "filled", RANGE, RANGE);
            case "assignors" -> runPair(variant, "filled", "filled", RANGE, bad ? List.of(RoundRobinAssignor.class, RangeAssignor.class) : RANGE);
            case "manual-commits" -> commitBesideMember(variant);
            case "commit-back" -> {
                try (var consumer = variant.consumer(Map.of())) {
                    consumer.subscribe(List.of("filled"));
                    waitForRecord(consumer);
                    for (long offset : new long[] {bad ? 30 : 10, 20}) consumer.commitSync(Map.of(FILLED, new OffsetAndMetadata(offset)));
                }
            }
            case "reset-to-the-end" -> {
                try (var consumer = variant.consumer(Map.of("auto.offset.reset", "latest"))) {
                    consumer.assign(List.of(FILLED));
                    consumer.seek(FILLED, bad ? 100000 : 0);
                    for (int count = 0; count < 20; count++) consumer.poll(SHORT);
                }
            }
            case "missing-topic" -> {
                try (var consumer = variant.consumer(Map.of())) {
                    consumer.subscribe(List.of(bad ? "nowhere" : "filled"));
                    for (long end = System.currentTimeMillis() + (bad ? 9000 : 1000); System.currentTimeMillis() < end; ) consumer.poll(SHORT);
                }
            }
            case "default-id" -> {
                Map<String, Object> config = variant.with(Map.of());
                if (bad) config.remove("client.id");
                try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                    producer.send(new ProducerRecord<>("orders", "v")).get();
                }
            }
            case "many-connections" -> openProducers(variant, bad ? 25 : 1, PLAIN);
            case "cadence" -> {
                for (int number = 0; number < (bad ? 7 : 1); number++) {
                    try (var producer = variant.producer(Map.of())) {
                        for (int record = 0; record < (bad ? 4 : 16); record++) {
                            producer.send(new ProducerRecord<>("orders", new byte[1])).get();
                            Thread.sleep(300);
                        }
                    }
                }
            }
            case "metadata-storm" -> {
                try (var consumer = variant.consumer(Map.of())) {
                    for (int number = 0; number < (bad ? 80 : 1); number++) consumer.listTopics();
                }
            }
            case "metadata-only" -> {
                for (int number = 0; number < (bad ? 12 : 1); number++) {
                    try (var consumer = variant.consumer(Map.of())) {
                        consumer.listTopics();
                    }
                }
            }
            case "same-question" -> {
                try (var consumer = variant.consumer(Map.of())) {
                    for (int number = 0; number < (bad ? 40 : 2); number++) consumer.endOffsets(List.of(FILLED));
                }
            }
            case "throttled" -> produce(variant, Map.of(), "orders", 5, 1, true);
            case "no-backoff" -> {
                Map<String, Object> hasty = Map.of("retry.backoff.ms", 1, "retry.backoff.max.ms", 1, "retries", 40, "enable.idempotence", false);
                produce(variant, bad ? hasty : Map.of(), "orders", 1, 1, false);
            }
            default -> throw new IllegalArgumentException(id);
        }
    }

    static final List<Class<?>> RANGE = List.of(RangeAssignor.class);

    static void produce(Variant variant, Map<String, ?> config, String topic, int records, int size, boolean flushEach) throws Exception {
        try (var producer = variant.producer(config)) {
            for (int number = 0; number < records; number++) {
                Future<?> sent = producer.send(new ProducerRecord<>(topic, Arrays.copyOf((number + " ").getBytes(), Math.max(size, 8))));
                if (flushEach) sent.get();
            }
        }
    }

    static void openProducers(Variant variant, int count, Map<String, ?> config) throws Exception {
        List<KafkaProducer<String, byte[]>> producers = new ArrayList<>();
        for (int number = 0; number < count; number++) producers.add(variant.producer(config));
        for (var each : producers) each.send(new ProducerRecord<>("orders", new byte[1])).get();
        for (var each : producers) each.close();
    }

    static void create(Variant variant, String topic, String config, String value) throws Exception {
        try (Admin admin = Admin.create(variant.with(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of(config, value)))).all().get();
        }
    }

    static void produceCompacted(Variant variant, String key, byte[] value) throws Exception {
        create(variant, "compacted-" + variant.id, "cleanup.policy", "compact");
        try (var producer = variant.producer(Map.of())) {
            for (int number = 0; number < 5; number++) {
                try {
                    producer.send(new ProducerRecord<>("compacted-" + variant.id, key, value)).get();
                } catch (ExecutionException refused) {
                    // the refusal is the subject of the test
                }
            }
        }
    }

    static void transactions(Variant variant, int count, boolean abort, int pause) throws Exception {
        try (var producer = variant.producer(Map.of("transactional.id", variant.id, "transaction.timeout.ms", 2000))) {
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

    static void consume(Variant variant, Map<String, ?> config, String commit, int pause) {
        try (var consumer = variant.consumer(config)) {
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

    static void follow(Variant variant, String topic, int time, Map<String, ?> config, int commitEvery, int work) throws Exception {
        try (var consumer = variant.consumer(config)) {
            consumer.subscribe(List.of(topic));
            waitForRecord(consumer);
            long started = System.currentTimeMillis(), committed = started;
            for (long now = started; now < started + time; now = System.currentTimeMillis()) {
                poll(consumer);
                Thread.sleep(work);
                if (commitEvery > 0 && now > committed + commitEvery) {
                    consumer.commitSync();
                    committed = now;
                }
            }
        }
    }

    static void restartConsumer(Variant variant, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            try (var consumer = variant.consumer(Map.of())) {
                consumer.subscribe(List.of("filled"));
                waitForRecord(consumer);
            }
            Thread.sleep(100 * (1 + number % 3));
        }
    }

    static void rejoinGroup(Variant variant, Map<String, ?> config) throws Exception {
        Map<String, Object> first = new HashMap<>(config);
        first.put("client.id", variant.id + "-first");
        try (var staying = variant.consumer(first)) {
            staying.subscribe(List.of("spread"));
            while (staying.assignment().isEmpty()) poll(staying);
            for (int number = 0; number < 3; number++) {
                Map<String, Object> second = new HashMap<>(config);
                second.put("client.id", variant.id + "-" + number);
                try (var coming = variant.consumer(second)) {
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

    static void runPair(Variant variant, String firstTopic, String otherTopic, List<Class<?>> firstAssignors, List<Class<?>> otherAssignors) {
        try (var first = variant.consumer(Map.of("partition.assignment.strategy", firstAssignors));
             var second = variant.consumer(Map.of("partition.assignment.strategy", otherAssignors))) {
            first.subscribe(List.of(firstTopic));
            second.subscribe(List.of(otherTopic));
            // A member that is closed while the other joins would have to wait for it.
            for (long end = System.currentTimeMillis() + 6000; System.currentTimeMillis() < end || !variant.bad && !shareGeneration(first, second); ) {
                poll(first);
                poll(second);
            }
        }
    }

    static boolean shareGeneration(Consumer<?, ?> first, Consumer<?, ?> second) {
        int generation = first.groupMetadata().generationId();
        return generation > 0 && generation == second.groupMetadata().generationId();
    }

    static void commitBesideMember(Variant variant) {
        try (var member = variant.consumer(Map.of("client.id", variant.id + "-member"));
             var standalone = variant.consumer(Map.of("group.id", variant.bad ? variant.id : variant.id + "-own"))) {
            member.subscribe(List.of("filled"));
            waitForRecord(member);
            standalone.assign(List.of(FILLED));
            for (int number = 0; number < 8; number++) {
                poll(standalone);
                try {
                    standalone.commitSync(Map.of(FILLED, new OffsetAndMetadata(number)));
                } catch (KafkaException refused) {
                    // the coordinator refuses the commit
                }
            }
        }
    }
}
