// node-postgres on both types: simple and extended queries, named statements, Buffers in and out.
'use strict'
const { Client } = require('pg')
const chunk = Buffer.from(Array.from({ length: 10000 }, (_, i) => i % 256))
const hex = Buffer.from('\\x4142')

const show = (value) => Buffer.isBuffer(value) ? `Buffer ${value.length} ${value.toString('hex').slice(0, 40)} ${require('crypto').createHash('md5').update(value).digest('hex')}` : `${typeof value} ${value}`

async function scenario (table) {
  const client = new Client()
  await client.connect()
  const found = []
  const run = async (query, values) => {
    try {
      const result = await client.query(typeof query === 'string' ? { text: query.replaceAll('T', table), values } : { ...query, text: query.text.replaceAll('T', table), values })
      found.push(result.fields.map((f) => `${f.name} ${f.dataTypeID}`).join() + ' ' + result.rows.map((row) => Object.values(row).map(show).join()).join(';'))
    } catch (error) {
      found.push(`error ${error.code} ${error.message}`)
    }
  }
  await run('truncate T')
  for (const [i, value] of [Buffer.alloc(0), Buffer.from([0, 1]), chunk, hex, null].entries()) await run('insert into T values ($1, $2) returning id, data', [i, value])
  await run('select data from T order by id')
  await run('select data from T order by data')
  for (let i = 0; i < 6; i++) {
    await run({ name: 'append', text: 'update T set data = data || $1 where id = $2 returning data, length(data)' }, [hex, 1])
    await run({ name: 'slice', text: 'select substr(data, $1, $2) as part, data from T where id < $3 order by data' }, [2, 3, 4])
  }
  await run('alter table T set (fillfactor = 79)')
  await run({ name: 'append', text: 'update T set data = data || $1 where id = $2 returning data, length(data)' }, [chunk, 1])
  await run('select data from T where data = $1 or data = any ($2) order by id', [hex, [chunk, Buffer.from('a')]])
  await run('select data from T union select $1 order by 1', [chunk])
  await run('with gone as (delete from T returning data) select data from gone order by data')
  await client.end()
  return found
}

async function main () {
  const [plain, own] = [await scenario('plain'), await scenario('own')]
  const different = plain.map((line, i) => [line, own[i]]).filter(([a, b]) => a !== b)
  if (different.length === 0 && plain.length > 15 && plain.some((line) => line.includes('Buffer'))) return console.log(`ok node-postgres: ${plain.length} results`)
  console.log('not ok node-postgres')
  for (const [a, b] of different) console.log(`  bytea            ${a}\n  appendable_bytea ${b}`)
  process.exit(1)
}
main().catch((error) => { console.log(`not ok node-postgres ${error.stack}`); process.exit(1) })
