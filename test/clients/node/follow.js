// The follower of appendable_bytea/docs/following.md, as it stands there: every line once and in order, and told at once.
'use strict'
const fs = require('fs')
const { Client } = require('pg')

async function main () {
  const code = fs.readFileSync(process.argv[2], 'utf8').match(/^```js\n([^]*?)^```/m)[1]
  const follow = new Function('require', `${code}\nreturn follow`)(require)
  const writer = new Client()
  await writer.connect()
  const run = (text, values) => writer.query(text, values)
  await run("CREATE TABLE told (id int PRIMARY KEY, log appendable_text NOT NULL DEFAULT '') WITH (fillfactor = 80)")
  await run("CREATE TRIGGER tell AFTER INSERT OR UPDATE OF log ON told FOR EACH ROW EXECUTE FUNCTION appendable_notify('told', 'id')")
  await run('INSERT INTO told VALUES (1), (2)')
  const append = (text) => run('UPDATE told SET log = log || $1 WHERE id = 2', [text])

  // what is there, what is appended while it looks elsewhere, and what it has to wait for
  await append('one\nzw')
  const lines = follow(undefined, 2)
  const got = [(await lines.next()).value]
  let written = 'one\nzw'
  const started = Date.now()
  for (let i = 0; i < 200; i++) {
    const text = 'ö'.repeat(i * 7 % 400) + ` ${i}\n` + (i % 3 ? '' : 'half of a')
    if (i % 5 === 0) {
      await run('BEGIN')
      await append('never')
      await run('ROLLBACK')
    }
    written += text
    if (i % 2) {
      const next = lines.next()
      await new Promise((resolve) => setTimeout(resolve, 2))
      await append(text)
      got.push((await next).value)
    } else await append(text)
  }
  await append('\n')
  written += '\n'
  while (got.join('').length < written.length) got.push((await lines.next()).value)
  const took = Date.now() - started

  // a connection that goes ends it with an error
  const last = lines.next().then(() => false, () => true)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
  const ended = await last
  await run('DROP TABLE told')
  await writer.end()
  if (got.join('') !== written) throw new Error(`${got.join('').length} characters of ${written.length}, or others`)
  if (!got.every((piece) => piece.endsWith('\n'))) throw new Error('lines that are not whole')
  if (took > 25000) throw new Error(`it was not told: ${took} ms`)
  if (!ended) throw new Error('a lost connection was not noticed')
  console.log(`ok node-postgres follower of the documents: ${got.length} pieces`)
}
main().catch((error) => { console.log(`not ok node-postgres follower of the documents ${error.stack}`); process.exit(1) })
