// Small requests of KafkaJS for some seconds: node load.js HOST:PORT TOPIC SECONDS. Two producers wait for each batch, a
// third one writes in transactions; a group of two reads and commits.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const [bootstrap, topic, seconds] = process.argv.slice(2)
const client = clientId => new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING })
const end = Date.now() + 1000 * seconds
const batch = number => Array.from({ length: 1 + number % 5 }, (_, i) => ({ key: `key-${number % 97}`, value: `value ${number} ${i} ${'a'.repeat(60)}`, headers: { trace: `${number}` } }))

async function produce (name, compression) {
  const producer = client(name).producer({ allowAutoTopicCreation: false })
  await producer.connect()
  for (let number = 0; Date.now() < end; number++) await producer.send({ topic, messages: batch(number), compression })
  await producer.disconnect()
}

async function transactions () {
  const producer = client('transactional').producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: `tx-${topic}` })
  await producer.connect()
  for (let number = 0; Date.now() < end; number++) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: batch(number) })
    await (number % 10 ? transaction.commit() : transaction.abort())
  }
  await producer.disconnect()
}

async function consume (name) {
  const consumer = client(name).consumer({ groupId: `group-${topic}`, heartbeatInterval: 300, sessionTimeout: 10000, maxWaitTimeInMs: 50 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.run({ autoCommitInterval: 200, eachMessage: async () => {} })
  await joined
  return consumer
}

async function main () {
  const admin = client('setup').admin()
  await admin.connect()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 4, replicationFactor: 1 }] })
  await admin.disconnect()
  const consumers = await Promise.all([consume('mail-1'), consume('mail-2')]) // first, so that nobody begins with a backlog
  await Promise.all([produce('producer-1', CompressionTypes.None), produce('producer-2', CompressionTypes.GZIP), transactions()])
  await Promise.all(consumers.map(each => each.disconnect()))
}

main().catch(error => { console.error(error); process.exit(1) })
