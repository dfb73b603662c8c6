// KafkaJS: both codecs that it brings, acks, idempotence, transactions; a group that grows; admin.
// node kafkajs.js HOST:PORT TOPIC; the last line is its report.
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { initialRetryTime: 100 } })
const admin = kafka.admin()
const groupId = `group-${topic}`
const consumed = new Set() // by partition and offset: over a rebalance a record may come twice
const report = { produced: 0, consumed: 0, members: 0, configs: 0 }

async function until (what, condition) {
  for (const end = Date.now() + 90000; !(await condition());) {
    if (Date.now() > end) throw new Error(`not within 90 s: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

const messages = () => Array.from({ length: 20 }, (_, i) => ({
  key: i % 3 ? `key-${i}` : null,
  value: i % 5 ? `value ${i} ${'a'.repeat(50)}` : null,
  headers: { trace: '00-4bf92f35', empty: '' }
}))

async function produce (options, sending) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...options })
  await producer.connect()
  await producer.send({ topic, messages: messages(), ...sending })
  report.produced += 20
  await producer.disconnect()
}

async function transactions () {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: `tx-${topic}` })
  await producer.connect()
  for (const commit of [true, false]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: messages() })
    if (commit) {
      const offsets = [{ topic, partitions: [{ partition: 0, offset: '1' }] }]
      await transaction.sendOffsets({ consumerGroupId: `txg-${topic}`, topics: offsets })
      await transaction.commit()
      report.produced += 20
    } else {
      await transaction.abort()
    }
  }
  await producer.disconnect()
}

async function member () {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, sessionTimeout: 10000, rebalanceTimeout: 5000, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommitInterval: 500, eachMessage: async ({ partition, message }) => { report.consumed = consumed.add(`${partition} ${message.offset}`).size } })
  return consumer
}

async function members () {
  const { groups: [group] } = await admin.describeGroups([groupId])
  return group.state === 'Stable' ? group.members.filter(each => each.memberAssignment.length > 6).length : 0
}

async function main () {
  await admin.connect()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 4, replicationFactor: 1 }] })
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) await produce({}, { acks: -1, compression })
  for (const acks of [0, 1]) await produce({}, { acks })
  await produce({ idempotent: true, maxInFlightRequests: 1 }, { acks: -1 })
  await transactions()
  const first = await member()
  await until('the first member reads all', () => report.consumed >= report.produced)
  const second = await member()
  await until('two members share', async () => (await members()) === 2)
  report.members = 2
  await second.disconnect()
  await until('the first is alone again', async () => (await members()) === 1)
  await first.disconnect()
  const described = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] })
  report.configs = described.resources[0].configEntries.length
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  console.log(JSON.stringify(report))
}

main().catch(error => { console.error(error); process.exit(1) })
